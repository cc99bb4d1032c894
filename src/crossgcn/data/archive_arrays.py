"""The arrays of a graph file, one at a time: found, checked, brought to one kind."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.data.features import csr_tensor
from crossgcn.data.npz import Arrays
from crossgcn.errors import BadInput

__all__ = [
    "read_booleans",
    "read_directed",
    "read_features",
    "read_integers",
    "read_num_classes",
    "read_numbers",
]

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
