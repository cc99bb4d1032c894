"""Constant sparse matrices that models multiply with."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.kernels import Pattern, may_use_kernels, row_sums


class SparseMatrix:
    r"""A CSR matrix that multiplies dense matrices.

    Autograd transposes a ``torch.sparse`` operand in every backward pass. This class sorts the
    transpose once, so that both

    .. math:: \mathbf{Y} = \mathbf{S}\mathbf{B}, \qquad
        \frac{\partial L}{\partial \mathbf{B}}
        = \mathbf{S}^{\top}\frac{\partial L}{\partial \mathbf{Y}}

    are the same row-by-row product. Rows are summed in storage order, so results do not depend
    on the number of threads.

    Values that require a gradient get one, more slowly, as does a product that is traced or
    differentiated by ``torch.func``.
    """

    def __init__(
        self, row_offsets: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> None:
        self.pattern = Pattern(row_offsets, columns)
        self.values = values
        self.shape = shape
        self._transpose: tuple[Pattern, Tensor] | None = None
        self._transposed_values: Tensor | None = None

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseMatrix:
        """Convert a SciPy sparse matrix; duplicates are summed."""
        csr = sp.csr_array(matrix)
        csr.sum_duplicates()
        return cls(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data),
            (int(csr.shape[0]), int(csr.shape[1])),
        )

    @classmethod
    def from_torch(cls, tensor: Tensor) -> SparseMatrix:
        """Convert a ``torch.sparse_csr`` tensor without copying."""
        rows, columns = tensor.shape
        return cls(
            tensor.crow_indices().long(),
            tensor.col_indices().long(),
            tensor.values(),
            (rows, columns),
        )

    @classmethod
    def from_edges(cls, edge_index: Tensor, weights: Tensor, num_nodes: int) -> SparseMatrix:
        """Make a row per target from sources and targets ``[2, edges]``; parallel edges add up."""
        source, target = edge_index[0], edge_index[1]
        keys, place = torch.unique(target * num_nodes + source, return_inverse=True)
        values = weights.new_zeros(keys.size(0)).index_add(0, place, weights)
        rows, columns = keys // num_nodes, keys % num_nodes
        counts = rows.new_zeros(num_nodes + 1).index_add(0, rows + 1, torch.ones_like(rows))
        return cls(counts.cumsum(0), columns, values, (num_nodes, num_nodes))

    def to_scipy(self) -> sp.csr_array:
        """Convert to SciPy."""
        return sp.csr_array(
            (self.values.numpy(), self.columns.numpy(), self.row_offsets.numpy()), shape=self.shape
        )

    def select_rows(self, rows: Tensor) -> SparseMatrix:
        """Return some rows, in the given order."""
        starts = self.row_offsets[rows]
        lengths = self.row_offsets[rows + 1] - starts
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        entries = torch.arange(int(offsets[-1]))
        entries += (starts - offsets[:-1]).repeat_interleave(lengths)
        shape = (rows.numel(), self.shape[1])
        return SparseMatrix(offsets, self.columns[entries], self.values[entries], shape)

    def with_values(self, values: Tensor) -> Self:
        """Return a matrix of the same pattern and transpose with other values."""
        self._transposed()
        other = copy(self)
        other.values, other._transposed_values = values, None
        return other

    def to(self, device: torch.device | str) -> Self:
        """Return the matrix on another device, with its transpose."""
        if torch.device(device) == self.values.device == self.columns.device:
            return self
        other = copy(self)
        if self._transpose is None:
            other.pattern = Pattern(self.row_offsets.to(device), self.columns.to(device))
        pattern, order = other._transposed()
        other.pattern, other.values = self.pattern.to(device), self.values.to(device)
        other._transpose = (pattern.to(device), order.to(device))
        other._transposed_values = None
        return other

    @property
    def row_offsets(self) -> Tensor:
        """Start of each row in ``columns``, ``[rows + 1]``."""
        return self.pattern.row_offsets

    @property
    def columns(self) -> Tensor:
        """Column of each entry, ``[nonzeros]``."""
        return self.pattern.columns

    def size(self, dim: int) -> int:
        """Return the length of one dimension, as ``Tensor.size`` does."""
        return self.shape[dim]

    @property
    def nonzeros(self) -> int:
        """Number of entries."""
        return self.values.numel()

    @property
    def rows(self) -> Tensor:
        """Row of each entry, ascending."""
        return self.pattern.rows

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _multiply(dense, self, False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.nonzeros} nonzeros)"

    def _check_rows_of(self, dense: Tensor) -> None:
        if dense.shape[:-1] != (self.shape[1],):
            raise ValueError(
                f"cannot multiply {self!r} by {tuple(dense.shape)}: {self.shape[1]} rows are needed"
            )

    def multiply_transposed(self, dense: Tensor) -> Tensor:
        """Multiply the transpose by a dense matrix."""
        pattern, order = self._transposed()
        if self._transposed_values is None:
            self._transposed_values = self.values[order]
        return row_sums(pattern, self._transposed_values, dense)

    def _transposed(self) -> tuple[Pattern, Tensor]:
        """Return the pattern of the transpose and the order of its values."""
        if self._transpose is None:
            order = torch.argsort(self.columns, stable=True)
            offsets = self.columns.new_zeros(self.shape[1] + 1)
            offsets[1:] = torch.bincount(self.columns, minlength=self.shape[1]).cumsum(0)
            self._transpose = Pattern(offsets, self.rows[order]), order
        return self._transpose


def _multiply(dense: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
    """Multiply a matrix or its transpose, in a way that can be traced and differentiated."""
    if may_use_kernels(dense, matrix.values) and not matrix.values.requires_grad:
        product: Tensor = _SparseDenseProduct.apply(dense, matrix, transposed)  # type: ignore[no-untyped-call]
        return product
    ends, length = (matrix.columns, matrix.rows), matrix.shape[0]
    if transposed:
        ends, length = ends[::-1], matrix.shape[1]
    else:
        matrix._check_rows_of(dense)
    read, written = ends
    sent = dense.index_select(0, read) * matrix.values.to(dense.dtype).unsqueeze(-1)
    return dense.new_zeros(length, dense.size(-1)).index_add(0, written, sent)


class _SparseDenseProduct(torch.autograd.Function):
    """``S @ B`` or its transpose, with the gradient of ``B``."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
        ctx.matrix, ctx.transposed = matrix, transposed
        if transposed:
            return matrix.multiply_transposed(dense)
        matrix._check_rows_of(dense)
        return row_sums(matrix.pattern, matrix.values, dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return _multiply(gradient, ctx.matrix, not ctx.transposed), None, None


Features = Tensor | SparseMatrix

ModelInputs = tuple[Features, tuple[SparseMatrix, ...]]
"""What a model is called with: features, and one matrix per hop."""


def join_columns(blocks: Sequence[Features]) -> Features:
    """Put blocks of columns side by side; the result is sparse if one of them is."""
    if len(blocks) == 1:
        return blocks[0]
    dense = [block for block in blocks if isinstance(block, Tensor)]
    if len(dense) == len(blocks):
        return torch.cat(dense, dim=1)
    parts = [b.to_scipy() if isinstance(b, SparseMatrix) else sp.csr_array(b) for b in blocks]
    return SparseMatrix.from_scipy(sp.hstack(parts, format="csr"))


def select_rows(x: Features, rows: Tensor) -> Features:
    """Return some rows of dense or sparse features, in the given order."""
    if isinstance(x, SparseMatrix):
        return x.select_rows(rows)
    return x.index_select(0, rows.to(x.device))  # several times faster than x[rows]
