"""Columns of neighbourhoods in files, with their checksum and smoothing."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crossgcn.data.files import read_bytes, write_json
from crossgcn.data.seals import digest_of_json
from crossgcn.data.stored.open import StoredGraph
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.neighbourhood import Smoothing

if TYPE_CHECKING:
    from crossgcn.graph.hops import HopPlan


class KeptRows:
    """Columns in a file that is made once, and found again by what they depend on.

    Beside it lies a JSON file with its checksum and the smoothing, written last. A file that is
    incomplete or was changed is made anew.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], shape: tuple[int, int]) -> None:
        self._shape, self._size = shape, 4 * shape[0] * shape[1]
        self._about = {"identity": dict(identity), "shape": list(shape)}
        self._file = folder / f"hop-columns-{digest_of_json(self._about)[:16]}.f32"
        self._page = self._file.with_suffix(".json")

    def find(self) -> Smoothing | None:
        """Return the smoothing of the columns; ``None`` if there is no complete file."""
        try:
            page = json.loads(read_bytes(self._page))
            prior, strength = (torch.tensor(page[name]) for name in Smoothing._fields)
            smoothing = Smoothing(prior.float(), strength.float())
            is_whole = self._file.stat().st_size == self._size
            return smoothing if is_whole and page == self._describe(smoothing) else None
        except (OSError, ValueError, TypeError, KeyError, RuntimeError):  # torch's, of other types
            return None

    def write(self, compute: Callable[[Tensor], Smoothing]) -> dict[str, Any]:
        """Make the file, and return its description.

        ``compute`` fills in the columns, and returns their smoothing.
        """
        part = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}.part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as file:
                # Allocate now: a disk that is full when a page is written back kills the process.
                os.posix_fallocate(file.fileno(), 0, self._size)
            smoothing = compute(self._map(part, shared=True))
            part.replace(self._file)
            page = self._describe(smoothing)
            write_json(self._page, page)
            return page
        except OSError as error:
            raise WorkFailed(
                f"{self._file.parent}: cannot keep {self._size / 2**30:.1f} GiB of columns there "
                f"({error.strerror or error}): free some room, or give another --out"
            ) from error
        finally:
            part.unlink(missing_ok=True)

    def map(self) -> Tensor:
        """Return the columns of the complete file, mapped into memory."""
        return self._map(self._file, shared=False)

    def _map(self, file: Path, *, shared: bool) -> Tensor:
        rows, width = self._shape
        return torch.from_file(str(file), shared=shared, size=rows * width).view(rows, width)

    def _describe(self, smoothing: Smoothing) -> dict[str, Any]:
        with self._file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        of_means = {name: each.tolist() for name, each in smoothing._asdict().items()}
        return {**self._about, "sha256": digest, **of_means}


def columns_beside(graph: StoredGraph, plan: HopPlan) -> KeptRows:
    """Return the columns that may lie in a graph folder, in the file that ``train`` looks for."""
    identity = {"graph": graph.fingerprint, "hops": plan.hops, "directed": plan.directed}
    return KeptRows(graph.folder, identity, (graph.num_nodes, plan.num_columns))


def verify_columns_beside(graph: StoredGraph) -> None:
    """Read the columns in a graph folder, and refuse those that differ from their SHA-256."""
    for file in sorted(graph.folder.glob("hop-columns-*")):
        page = file.with_suffix(".json")
        try:
            about = json.loads(read_bytes(page))
            kept = KeptRows(graph.folder, about["identity"], about["shape"])
            is_right = kept._page == page and kept.find() is not None
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            is_right = False
        if not is_right:
            raise BadInput(
                f"{page.with_suffix('.f32')}: is not what {page.name} beside it describes: one of "
                "them was changed, cut short or removed; remove both, and columns are computed anew"
            )
