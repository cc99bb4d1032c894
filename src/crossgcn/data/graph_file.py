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
``y``             integers [N]                class of each node, -1 for unlabelled
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


def read_graph(path: Path | str) -> Data:
    """Read a graph file (its arrays are listed at the top of this module).

    Returns:
        The canonical form of the graph (:func:`~crossgcn.data.canonical_graph`), named as the
        file. Features are not normalised.

    Raises:
        BadInput: Names file, array, position, value and remedy.
    """
    path = Path(path)
    arrays = _Arrays(path)
    data = Data(
        x=arrays.features(),
        edge_index=arrays.integers("edge_index", 2),
        y=arrays.integers("y", 1),
        num_classes=arrays.num_classes(),
        name=path.stem,
    )
    if arrays.directed():
        data.directed = True
    if "edge_weight" in arrays:
        data.edge_weight = arrays.numbers("edge_weight", 1)
    if "roles" in arrays:
        data.roles = arrays.integers("roles", 2)
    for name in MASK_NAMES:
        if name in arrays:
            data[name] = arrays.booleans(name)
    return canonical_graph(data, arrays.where)


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


class _Arrays:
    """The arrays of a file, checked for type and shape as they are read."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._arrays = read_npz(path)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def integers(self, name: str, dimensions: int) -> Tensor:
        array = self._find(name, "iu", dimensions, f"integers in {dimensions} dimension(s)")
        return torch.from_numpy(array.astype(np.int64))

    def numbers(self, name: str, dimensions: int) -> Tensor:
        array = self._find(name, "fiub", dimensions, f"numbers in {dimensions} dimension(s)")
        with np.errstate(over="ignore"):
            return torch.from_numpy(array.astype(np.float32))

    def booleans(self, name: str) -> Tensor:
        return torch.from_numpy(self._find(name, "b", None, "booleans").astype(np.bool_))

    def num_classes(self) -> int | None:
        if "num_classes" not in self:
            return None
        array = self._find("num_classes", "iu", None, "one integer, at least 1")
        if array.size != 1 or array.item() < 1:
            raise self._wrong_kind("num_classes", "one integer, at least 1")
        return int(array.item())

    def directed(self) -> bool:
        if "directed" not in self:
            return False
        array = self._find("directed", "b", None, "one boolean")
        if array.size != 1:
            raise self._wrong_kind("directed", "one boolean")
        return bool(array.item())

    def features(self) -> Tensor:
        """Return 32-bit floats, dense or sparse CSR as they are in the file."""
        if "x" in self:
            return self.numbers("x", 2)
        if not any(name in self for name in _CSR_NAMES):
            raise BadInput(f"{self.where}: no features; add x, or all of {', '.join(_CSR_NAMES)}")
        indptr, indices, shape = (
            self.integers(name, 1).numpy() for name in ("x_indptr", "x_indices", "x_shape")
        )
        values = self.numbers("x_data", 1).numpy()
        if len(shape) != 2 or shape.min() < 1:
            raise BadInput(
                f"{self.where}: x_shape is {shape.tolist()}; it must be [nodes, features]"
            )
        num_rows, num_columns = shape.tolist()
        _check_csr(indptr, indices, values, num_rows, num_columns, self.where)
        return csr_tensor(indptr, indices, values, (num_rows, num_columns))

    def _find(
        self, name: str, kinds: str, dimensions: int | None, wanted: str
    ) -> NDArray[np.generic]:
        if name not in self._arrays:
            raise BadInput(
                f"{self.where}: array {name} is missing; it has {', '.join(self._arrays) or 'none'}"
            )
        array = self._arrays[name]
        if array.dtype.kind not in kinds or dimensions not in (None, array.ndim):
            raise self._wrong_kind(name, wanted)
        return array

    def _wrong_kind(self, name: str, wanted: str) -> BadInput:
        array = self._arrays[name]
        shape = list(array.shape)
        return BadInput(f"{self.where}: {name} is {array.dtype} {shape}; it must be {wanted}")


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
