"""A toy graph in Planetoid's files, and pickles as Python 2 wrote them."""

from __future__ import annotations

import collections
import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings; the C pickler calls a codec for them."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, bytes):
            self.write(pickle.BINSTRING + struct.pack("<i", len(obj)) + obj)  # type: ignore[attr-defined]
        else:
            super().save(obj, save_persistent_id)  # type: ignore[misc]


def python2_pickle(value: Any) -> bytes:
    """A pickle that spells its globals as Python 2, old numpy and old scipy did."""
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    content = file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    return content.replace(b"scipy.sparse._csr", b"scipy.sparse.csr")


def write_toy(folder: Path) -> None:
    """Seven nodes: four known, test nodes 6 and 4, and 5 left out of test.index."""
    allx = np.array([[1, 0], [0, 1], [1, 1], [0, 2]], np.float32)
    ally = np.array([[1, 0], [0, 1], [0, 0], [1, 0]], np.int32)
    parts: dict[str, Any] = {
        "x": sparse.csr_matrix(allx[:2]),
        "y": ally[:2],
        "allx": sparse.csr_matrix(allx),
        "ally": ally,
        "tx": sparse.csr_matrix(np.array([[6, 6], [4, 0]], np.float32)),
        "ty": np.array([[0, 1], [1, 0]], np.int32),
        "graph": collections.defaultdict(list, {0: [1, 1, 0], 1: [], 6: [2], 3: [4]}),
    }
    for part, value in parts.items():
        (folder / f"ind.cora.{part}").write_bytes(python2_pickle(value))
    (folder / "ind.cora.test.index").write_text("6\n4\n")
