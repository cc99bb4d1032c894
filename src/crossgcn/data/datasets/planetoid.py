"""Read Planetoid's raw files safely.

The eight files of a graph are Python 2 pickles and one text file. A pickle is a program, and it is
not run: :mod:`crossgcn.data.datasets.pickle_opcodes` reads it as data.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data.datasets.catalogue import PLANETOID_PARTS
from crossgcn.data.datasets.pickle_opcodes import (
    RefusedPickle,
    Unsound,
    as_array,
    as_edges,
    as_matrix,
    read_pickle,
)
from crossgcn.data.features import csr_tensor
from crossgcn.data.files import read_bytes
from crossgcn.data.graph_file import read_graph
from crossgcn.data.seals import check_listed
from crossgcn.errors import BadInput

NUM_VALIDATION = 500
"""Planetoid's public split validates on the rows after its training rows."""


def read_planetoid(folder: Path, name: str) -> Data:
    """Read a Planetoid graph from a folder with its eight files ``ind.{name}.*``.

    A number in the test range that ``test.index`` leaves out (Citeseer has 15) is a node with
    edges, without features, and unlabelled like every node whose one-hot label is all zero
    (``y = -1``).

    Returns:
        ``x`` (sparse CSR, not normalised), ``edge_index`` (undirected, unique, sorted, with
        self-loops), ``y``, ``num_classes``, ``name``, and the public split as ``roles`` [1, N].
    """
    paths = {part: folder / f"ind.{name}.{part}" for part in PLANETOID_PARTS}
    for path in paths.values():
        check_listed(path)
    x, tx, allx = (_read_features(paths[part]) for part in ("x", "tx", "allx"))
    ty, ally = (_read_one_hot(paths[part]) for part in ("ty", "ally"))
    test = _read_test_index(paths["test.index"])

    first_test, num_nodes = allx.shape[0], int(test.max()) + 1
    _require(len(ally) == first_test, paths["ally"], f"{len(ally)} rows, allx {first_test}")
    _require(len(ty) == tx.shape[0], paths["ty"], f"{len(ty)} rows, tx {tx.shape[0]}")
    _require(len(test) == tx.shape[0], paths["test.index"], f"{len(test)} rows, tx {tx.shape[0]}")
    _require(int(test.min()) == first_test, paths["test.index"], f"its least is {test.min()}")
    # A gap is a node without features: Citeseer has 15 of them.
    _require(
        num_nodes - first_test <= 10 * len(test), paths["test.index"], f"its most is {test.max()}"
    )
    _require(x.shape[0] <= first_test, paths["x"], f"{x.shape[0]} rows, allx {first_test}")
    _require(tx.shape[1] == allx.shape[1], paths["tx"], f"{tx.shape[1]} columns")
    _require(ty.shape[1] == ally.shape[1], paths["ty"], f"{ty.shape[1]} columns")

    # Numbers that test.index leaves out get the empty row appended to tx.
    tx_row = np.full(num_nodes - first_test, -1)
    tx_row[test - first_test] = np.arange(len(test))
    padded = sparse.vstack([tx, sparse.csr_matrix((1, tx.shape[1]), dtype=tx.dtype)], "csr")
    features = sparse.csr_matrix(sparse.vstack([allx, padded[tx_row]]), dtype=np.float32)
    features.sort_indices()

    y = np.full(num_nodes, -1, np.int64)
    y[:first_test] = _labels(ally)
    y[test] = _labels(ty)

    roles = np.zeros((1, num_nodes), np.int8)
    roles[0, : x.shape[0]] = 1
    roles[0, x.shape[0] : first_test][:NUM_VALIDATION] = 2
    roles[0, test] = 3

    return Data(
        x=csr_tensor(features.indptr, features.indices, features.data, features.shape),
        edge_index=_read_edges(paths["graph"], num_nodes),
        y=torch.from_numpy(y),
        roles=torch.from_numpy(roles),
        name=name,
        num_classes=ally.shape[1],
        num_nodes=num_nodes,
    )


Value = TypeVar("Value")


def _read(path: Path, make: Callable[[Any, int], Value]) -> Value:
    """Read a pickle, and make what it describes; ``make`` also gets the size of the file."""
    try:
        content = read_bytes(path)
        return make(read_pickle(content), len(content))
    except RefusedPickle as refused:
        raise BadInput(
            f"{path}: refused, its pickle asks for {refused}, which no Planetoid file needs; "
            "get the file again from a source you trust"
        ) from None
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); a graph is eight files ind.NAME.*"
        ) from error
    except Unsound as error:
        raise _damaged(path, str(error)) from None


def _read_features(path: Path) -> sparse.csr_matrix:
    return _read(path, lambda value, _: as_matrix(value))


def _read_one_hot(path: Path) -> NDArray[np.integer]:
    array = _read(path, lambda value, _: as_array(value, "iu"))
    _require(array.ndim == 2 and array.size > 0, path, "it holds no matrix of one-hot labels")
    return array


def _labels(one_hot: NDArray[np.integer]) -> NDArray[np.int64]:
    # NOTE[D7]: a plain argmax would turn an all-zero row into class 0.
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _read_test_index(path: Path) -> NDArray[np.int64]:
    try:
        index = np.array([int(line) for line in read_bytes(path).decode("ascii").split()], np.int64)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, OverflowError) as error:
        raise _damaged(path, str(error)) from error
    _require(len(index) > 0, path, "it is empty")
    _require(len(np.unique(index)) == len(index), path, "it names a node twice")
    return index


def _read_edges(path: Path, num_nodes: int) -> torch.Tensor:
    edges = _read(path, as_edges)
    inside = edges.size == 0 or (edges.min() >= 0 and edges.max() < num_nodes)
    _require(inside, path, f"it names nodes outside 0..{num_nodes - 1}")
    edge_index: torch.Tensor = to_undirected(torch.from_numpy(edges.T.copy()), num_nodes=num_nodes)
    return edge_index


def _require(condition: bool, path: Path, found: str) -> None:
    if not condition:
        raise _damaged(path, found)


def _damaged(path: Path, found: str) -> BadInput:
    return BadInput(f"{path}: not a sound Planetoid file ({found}); get the file again")


def read_bundled_citeseer() -> Data:
    """Read the Citeseer in this package, with binary features and the public split."""
    with as_file(files("crossgcn.data.datasets") / "citeseer.npz") as path:
        return read_graph(path)
