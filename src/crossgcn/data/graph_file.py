"""Read and write the project's graph file: one ``.npz`` with features, edges, labels and roles.

================  ==========================  =======================================
array             kind                        meaning
================  ==========================  =======================================
``x``             numbers [N, D]              dense features, or instead of it the four
``x_indptr``      integers [N + 1]            ... of a CSR matrix: where rows start
``x_indices``     integers [nnz]              ... column of each value
``x_data``        numbers [nnz]               ... the values
``x_shape``       integers [2]                ... N and D
``edge_index``    integers [2, E]             ends of each edge; one direction is enough
``edge_weight``   numbers [E], optional       0 or more for each edge; 1 when left out
``directed``      one boolean, optional       true if an edge counts for its second end
                                              alone
``y``             integers [N]                class of each node, -1 for unlabelled; or
                                              decimal numbers to predict, NaN for unknown
``num_classes``   one integer, optional       if some class has no labelled node
``roles``         integers [S, N], optional   one row per split: 0 none, 1 train,
                                              2 validation, 3 test
``train_mask``    booleans [N] or [N, S],     with ``val_mask`` and ``test_mask``,
                  optional                    instead of ``roles``
================  ==========================  =======================================

Edges become unique and, unless ``directed``, undirected; see
:func:`~crossgcn.data.canonical_graph`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import csr_tensor
from crossgcn.data.files import Arrays, read_npz, write_npz
from crossgcn.data.graph import MASK_NAMES, canonical_graph
from crossgcn.errors import BadInput

_CSR_NAMES = ("x_indptr", "x_indices", "x_data", "x_shape")


# Kinds of NumPy types, dimensions if they are fixed, type in memory, and words for an error.
_KINDS: dict[str, tuple[str, int | None, Any, str]] = {
    "x": ("fiub", 2, np.float32, "numbers"),
    "x_indptr": ("iu", 1, np.int64, "integers"),
    "x_indices": ("iu", 1, np.int64, "integers"),
    "x_data": ("fiub", 1, np.float32, "numbers"),
    "x_shape": ("iu", 1, np.int64, "integers"),
    "edge_index": ("iu", 2, np.int64, "integers"),
    "edge_weight": ("fiub", 1, np.float32, "numbers"),
    "directed": ("b", None, np.bool_, "one boolean"),
    "y": ("fiu", 1, np.int64, "numbers"),
    "num_classes": ("iu", None, np.int64, "one integer, at least 1"),
    "roles": ("iu", 2, np.int64, "integers"),
} | dict.fromkeys(MASK_NAMES, ("b", None, np.bool_, "booleans"))


def read_graph(path: Path | str) -> Data:
    """Read a graph file (its arrays are listed at the top of this module).

    Returns:
        The canonical form of the graph (:func:`~crossgcn.data.canonical_graph`), named as the
        file. Features are not normalised.

    Raises:
        BadInput: Names file, array, position, value and remedy.
    """
    path = Path(path)
    arrays = read_npz(path)
    tensors = {
        name: _read(arrays, name, path)
        for name in _KINDS
        if name not in _CSR_NAMES and (name in arrays or name in ("edge_index", "y"))
    }
    if "x" not in arrays:
        tensors["x"] = _read_sparse(arrays, path)
    num_classes, directed = tensors.pop("num_classes", None), tensors.pop("directed", None)
    if num_classes is not None and (num_classes.numel() != 1 or num_classes.item() < 1):
        raise _wrong_kind(arrays, "num_classes", path)
    if directed is not None and directed.numel() != 1:
        raise _wrong_kind(arrays, "directed", path)
    data = Data(
        **tensors,
        num_classes=None if num_classes is None else int(num_classes),
        directed=True if directed else None,
        name=path.stem,
    )
    return canonical_graph(data, str(path))


def save_graph(path: Path | str, data: Data) -> None:
    """Write the canonical form of a graph to an ``.npz`` file.

    An existing file is replaced only when the new one is complete. Equal graphs give equal
    bytes.

    Args:
        path: The file, ending in ``.npz``.
        data: A graph that :func:`~crossgcn.data.canonical_graph` accepts.
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


def _read(arrays: Arrays, name: str, path: Path) -> Tensor:
    if name not in arrays:
        raise BadInput(f"{path}: array {name} is missing; it has {', '.join(arrays) or 'none'}")
    kinds, dimensions, dtype, _ = _KINDS[name]
    if arrays[name].dtype.kind not in kinds or dimensions not in (None, arrays[name].ndim):
        raise _wrong_kind(arrays, name, path)
    if name == "y" and arrays[name].dtype.kind == "f":
        dtype = np.promote_types(arrays[name].dtype, np.float32)
    with np.errstate(over="ignore"):
        return torch.from_numpy(arrays[name].astype(dtype))


def _wrong_kind(arrays: Arrays, name: str, path: Path) -> BadInput:
    array, (_, dimensions, _, words) = arrays[name], _KINDS[name]
    wanted = words if dimensions is None else f"{words} in {dimensions} dimension(s)"
    return BadInput(f"{path}: {name} is {array.dtype} {list(array.shape)}; it must be {wanted}")


def _read_sparse(arrays: Arrays, path: Path) -> Tensor:
    if not any(name in arrays for name in _CSR_NAMES):
        raise BadInput(f"{path}: no features; add x, or all of {', '.join(_CSR_NAMES)}")
    indptr, indices, values, shape = (_read(arrays, name, path).numpy() for name in _CSR_NAMES)
    if len(shape) != 2 or shape.min() < 1 or math.prod(shape.tolist()) >= 2**63:
        raise BadInput(f"{path}: x_shape is {shape.tolist()}; it must be [nodes, features]")
    num_rows, num_columns = shape.tolist()
    if len(values) != len(indices):
        raise BadInput(
            f"{path}: x_data has {len(values)} values but x_indices {len(indices)} columns; "
            "give each value one column"
        )
    if len(indptr) != num_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise BadInput(
            f"{path}: x_indptr has {len(indptr)} entries from {indptr[:1]} to {indptr[-1:]}; for "
            f"{num_rows} rows and {len(indices)} values it has {num_rows + 1}, from 0 to "
            f"{len(indices)}"
        )
    for row in np.flatnonzero(np.diff(indptr) < 0):
        raise BadInput(
            f"{path}: x_indptr falls from {indptr[row]} to {indptr[row + 1]} at row {row}; "
            "row starts never fall"
        )
    for at in np.flatnonzero((indices < 0) | (indices >= num_columns)):
        raise BadInput(
            f"{path}: x_indices[{at}] is {indices[at]}, but x_shape says {num_columns} columns; "
            f"use 0 to {num_columns - 1}"
        )
    rows = np.repeat(np.arange(num_rows), np.diff(indptr))
    for at in np.flatnonzero((np.diff(rows) == 0) & (np.diff(indices) <= 0)):
        raise BadInput(
            f"{path}: x_indices in row {rows[at]} goes from column {indices[at]} to "
            f"{indices[at + 1]}; columns ascend within a row and none comes twice "
            "(scipy: matrix.sum_duplicates() before saving)"
        )
    return csr_tensor(indptr, indices, values, (num_rows, num_columns))
