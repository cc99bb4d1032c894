"""The project's own graph file: one ``.npz`` with features, edges, labels and roles.

================  ==========================  =======================================
array             kind                        meaning
================  ==========================  =======================================
``x``             numbers [N, D]              dense features, or instead of it the four
``x_indptr``      integers [N + 1]            ... of a CSR matrix: where rows start
``x_indices``     integers [nnz]              ... column of each value
``x_data``        numbers [nnz]               ... the values
``x_shape``       integers [2]                ... N and D
``edge_index``    integers [2, E]             ends of each edge; one direction will do
``edge_weight``   numbers [E], optional       0 or more for each edge; 1 when left out
``directed``      one boolean, optional       true when an edge counts for its second end
                                              alone
``y``             integers [N]                class of each node, -1 for unlabelled
``num_classes``   one integer, optional       when some class has no labelled node
``roles``         integers [S, N], optional   a row a split: 0 none, 1 train,
                                              2 validation, 3 test
``train_mask``    booleans [N] or [N, S],     with ``val_mask`` and ``test_mask``,
                  optional                    instead of ``roles``
================  ==========================  =======================================

Edges become unique and, unless ``directed``, undirected; see
:func:`~crossgcn.data.canonical_graph`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import csr_tensor
from crossgcn.data.files import Arrays, read_npz, write_npz
from crossgcn.data.graph import MASK_NAMES, canonical_graph
from crossgcn.errors import BadInput

_CSR_NAMES = ("x_indptr", "x_indices", "x_data", "x_shape")


def read_features(arrays: Arrays, where: str) -> Tensor:
    """Features as 32-bit floats, dense or sparse CSR as they are in the file."""
    if "x" in arrays:
        return read_numbers(arrays, "x", 2, where)
    if not any(name in arrays for name in _CSR_NAMES):
        raise BadInput(f"{where}: no features; add x, or all of {', '.join(_CSR_NAMES)}")
    indptr, indices, shape = (
        read_integers(arrays, name, 1, where).numpy()
        for name in ("x_indptr", "x_indices", "x_shape")
    )
    values = read_numbers(arrays, "x_data", 1, where).numpy()
    if len(shape) != 2 or shape.min() < 1:
        raise BadInput(f"{where}: x_shape is {shape.tolist()}; it must be [nodes, features]")
    _check_csr(indptr, indices, values, int(shape[0]), int(shape[1]), where)
    return csr_tensor(indptr, indices, values, (int(shape[0]), int(shape[1])))


def read_integers(arrays: Arrays, name: str, dimensions: int, where: str) -> Tensor:
    """One array of integers, as int64."""
    array = _find(arrays, name, where)
    if array.dtype.kind not in "iu" or array.ndim != dimensions:
        raise _wrong_kind(arrays, name, f"integers in {dimensions} dimension(s)", where)
    return torch.from_numpy(array.astype(np.int64))


def read_numbers(arrays: Arrays, name: str, dimensions: int, where: str) -> Tensor:
    """One array of numbers, as 32-bit floats."""
    array = _find(arrays, name, where)
    if array.dtype.kind not in "fiub" or array.ndim != dimensions:
        raise _wrong_kind(arrays, name, f"numbers in {dimensions} dimension(s)", where)
    with np.errstate(over="ignore"):
        return torch.from_numpy(array.astype(np.float32))


def read_booleans(arrays: Arrays, name: str, where: str) -> Tensor:
    """One array of booleans."""
    array = _find(arrays, name, where)
    if array.dtype != np.bool_:
        raise _wrong_kind(arrays, name, "booleans", where)
    return torch.from_numpy(array.astype(np.bool_))


def read_num_classes(arrays: Arrays, where: str) -> int | None:
    """The file's own class count, if it has one."""
    if "num_classes" not in arrays:
        return None
    array = arrays["num_classes"]
    if array.dtype.kind not in "iu" or array.size != 1 or array.item() < 1:
        raise _wrong_kind(arrays, "num_classes", "one integer, at least 1", where)
    return int(array.item())


def read_directed(arrays: Arrays, where: str) -> bool:
    """Whether the file says that its edges lead one way."""
    if "directed" not in arrays:
        return False
    array = arrays["directed"]
    if array.dtype != np.bool_ or array.size != 1:
        raise _wrong_kind(arrays, "directed", "one boolean", where)
    return bool(array.item())


def _check_csr(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    values: NDArray[np.float32],
    num_rows: int,
    num_columns: int,
    where: str,
) -> None:
    if len(values) != len(indices):
        raise BadInput(
            f"{where}: x_data has {len(values)} values but x_indices {len(indices)} columns; "
            "give each value one column"
        )
    if len(indptr) != num_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise BadInput(
            f"{where}: x_indptr has {len(indptr)} entries from {indptr[:1]} to {indptr[-1:]}; for "
            f"{num_rows} rows and {len(indices)} values it has {num_rows + 1}, from 0 to "
            f"{len(indices)}"
        )
    falling = np.flatnonzero(np.diff(indptr) < 0)
    if len(falling):
        row = int(falling[0])
        raise BadInput(
            f"{where}: x_indptr falls from {indptr[row]} to {indptr[row + 1]} at row {row}; "
            "row starts never fall"
        )
    outside = np.flatnonzero((indices < 0) | (indices >= num_columns))
    if len(outside):
        at = int(outside[0])
        raise BadInput(
            f"{where}: x_indices[{at}] is {indices[at]}, but x_shape says {num_columns} columns; "
            f"use 0 to {num_columns - 1}"
        )
    rows = np.repeat(np.arange(num_rows), np.diff(indptr))
    disorder = np.flatnonzero((np.diff(rows) == 0) & (np.diff(indices) <= 0))
    if len(disorder):
        at = int(disorder[0])
        raise BadInput(
            f"{where}: x_indices in row {rows[at]} goes from column {indices[at]} to "
            f"{indices[at + 1]}; columns ascend within a row and none comes twice "
            "(scipy: matrix.sum_duplicates() before saving)"
        )


def _find(arrays: Arrays, name: str, where: str) -> NDArray[np.generic]:
    if name not in arrays:
        raise BadInput(f"{where}: array {name} is missing; it has {', '.join(arrays) or 'none'}")
    return arrays[name]


def _wrong_kind(arrays: Arrays, name: str, wanted: str, where: str) -> BadInput:
    array = arrays[name]
    return BadInput(f"{where}: {name} is {array.dtype} {list(array.shape)}; it must be {wanted}")


def save_graph(path: Path | str, data: Data) -> None:
    """Write a graph to a file; :func:`read_graph` gives it back as adopted.

    The old file, if any, is replaced only once the new one is complete; the same
    graph gives the same bytes every time.

    Args:
        path: Where to, ending in ``.npz``.
        data: What :func:`~crossgcn.data.canonical_graph` accepts.
    """
    path = Path(path)
    data = canonical_graph(data, "the graph to save")
    x: Tensor = data.x
    if x.layout == torch.sparse_csr:
        index = np.int32 if max(x.shape[1], len(x.values())) < 2**31 else np.int64
        arrays: Arrays = {
            "x_indptr": x.crow_indices().numpy(force=True).astype(index),
            "x_indices": x.col_indices().numpy(force=True).astype(index),
            "x_data": x.values().numpy(force=True),
            "x_shape": np.array(x.shape, np.int64),
        }
    else:
        arrays = {"x": x.numpy(force=True)}
    arrays["edge_index"] = data.edge_index.numpy(force=True)
    if "edge_weight" in data:
        arrays["edge_weight"] = data.edge_weight.numpy(force=True)
    if "directed" in data:
        arrays["directed"] = np.array(data.directed)
    arrays["y"] = data.y.numpy(force=True)
    arrays["num_classes"] = np.array(data.num_classes)
    if "roles" in data:
        arrays["roles"] = data.roles.numpy(force=True)
    write_npz(path, arrays)


def read_graph(path: Path | str) -> Data:
    """Read a graph file (its arrays are listed at the top of this module).

    It comes as :func:`~crossgcn.data.canonical_graph` would make it in memory: edges
    unique and, unless the file says otherwise, undirected, features in 32 bits;
    nothing is normalised.

    Args:
        path: The ``.npz`` file; its name without the ending names the graph.

    Raises:
        BadInput: Naming file, array, position, value and remedy.
    """
    path = Path(path)
    arrays = read_npz(path)
    where = str(path)
    data = Data(
        x=read_features(arrays, where),
        edge_index=read_integers(arrays, "edge_index", 2, where),
        y=read_integers(arrays, "y", 1, where),
        num_classes=read_num_classes(arrays, where),
        name=path.stem,
    )
    if read_directed(arrays, where):
        data.directed = True
    if "edge_weight" in arrays:
        data.edge_weight = read_numbers(arrays, "edge_weight", 1, where)
    if "roles" in arrays:
        data.roles = read_integers(arrays, "roles", 2, where)
    for name in MASK_NAMES:
        if name in arrays:
            data[name] = read_booleans(arrays, name, where)
    return canonical_graph(data, where)
