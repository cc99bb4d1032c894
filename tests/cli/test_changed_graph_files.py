"""A graph folder whose files were changed, with sizes as they were: refused, never followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from torch_geometric.data import Data

from crossgcn.data.stored.import_graph import store_graph

Command = Callable[..., CompletedProcess[str]]
BATCHES = ("--set", "batch_size=8", "--set", "fanout=4")


@pytest.fixture
def folder(small_graph: Data, tmp_path: Path) -> Path:
    store_graph(small_graph, tmp_path / "graph")
    return tmp_path / "graph"


def change(path: Path, value: int) -> None:
    """Another number in the middle of an array."""
    array = np.load(path, allow_pickle=False)
    content = path.read_bytes()
    start = len(content) - array.nbytes + array.size // 2 * array.itemsize
    number = np.array([value], array.dtype).tobytes()
    path.write_bytes(content[:start] + number + content[start + len(number) :])


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [("neighbours", 2, ()), ("feature_columns", 24, BATCHES), ("labels", 1, BATCHES)],
)
def test_a_changed_file_is_named_with_the_remedy(
    crossgcn: Command, folder: Path, name: str, value: int, options: tuple[object, ...]
) -> None:
    change(folder / f"{name}.npy", value)
    done = crossgcn(
        *("train", folder, "--splits", "public", "--epochs", 1, "--workers", 1, "--out", "run"),
        *options,
    )
    assert done.returncode == 2, done.stderr
    said = " ".join(done.stderr.split())
    assert f"{name}.npy: was changed" in said and "crossgcn data import" in said
    assert "Traceback" not in said
    shown = crossgcn("data", "show", folder, "--verify")
    assert shown.returncode == 2 and f"{name}.npy: was changed" in " ".join(shown.stderr.split())
