"""Sparse matrices that models multiply by."""

from __future__ import annotations

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

    Products are slower if the values require a gradient, while tracing, and in ``torch.func``:
    they then use PyTorch's own operations.
    """

    def __init__(
        self, row_offsets: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> None:
        self.pattern = Pattern(row_offsets, columns)
        self.values = values
        self.shape = shape
        self._transposed_pattern: tuple[Pattern, Tensor] | None = None
        self._transpose: SparseMatrix | None = None

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
    def from_edges(
        cls, edge_index: Tensor, weights: Tensor, shape: tuple[int, int]
    ) -> SparseMatrix:
        """Make a row per target, from sources and targets ``[2, edges]``; parallel edges add up."""
        num_rows, num_columns = shape
        keys, place = torch.unique(edge_index[1] * num_columns + edge_index[0], return_inverse=True)
        values = weights.new_zeros(keys.size(0)).index_add(0, place, weights)
        rows, columns = keys // num_columns, keys % num_columns
        counts = rows.new_zeros(num_rows + 1).index_add(0, rows + 1, torch.ones_like(rows))
        return cls(counts.cumsum(0), columns, values, shape)

    def to_scipy(self) -> sp.csr_array:
        """Convert to SciPy."""
        return sp.csr_array(
            (self.values.numpy(), self.columns.numpy(), self.row_offsets.numpy()), shape=self.shape
        )

    def select_rows(self, rows: Tensor) -> SparseMatrix:
        """Return some rows, in the given order."""
        return SparseMatrix.from_scipy(self.to_scipy()[rows.numpy()])

    def with_values(self, values: Tensor) -> Self:
        """Return a matrix of the same pattern; both share the sorted transpose of the pattern."""
        self._transposed()
        other = copy(self)
        other.values, other._transpose = values, None
        return other

    def to(self, device: torch.device | str) -> Self:
        """Return the matrix on another device."""
        if torch.device(device) == self.values.device == self.columns.device:
            return self
        other = copy(self)
        other.pattern, other.values = self.pattern.to(device), self.values.to(device)
        other._transposed_pattern = other._transpose = None
        return other

    def transpose(self) -> SparseMatrix:
        """Return the transpose, sorted once."""
        if self._transpose is None:
            pattern, order = self._transposed()
            offsets, columns = pattern.row_offsets, pattern.columns
            self._transpose = SparseMatrix(offsets, columns, self.values[order], self.shape[::-1])
            self._transpose.pattern = pattern
        return self._transpose

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
        if dense.shape[:-1] != (self.shape[1],):
            raise ValueError(
                f"cannot multiply {self!r} by {tuple(dense.shape)}: {self.shape[1]} rows are needed"
            )
        if may_use_kernels(dense, self.values) and not self.values.requires_grad:
            product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
            return product
        terms = dense.index_select(0, self.columns) * self.values.to(dense.dtype).unsqueeze(-1)
        return dense.new_zeros(self.shape[0], dense.size(-1)).index_add(0, self.rows, terms)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.nonzeros} nonzeros)"

    def _transposed(self) -> tuple[Pattern, Tensor]:
        """Return the pattern of the transpose and the order of its values."""
        if self._transposed_pattern is None:
            order = torch.argsort(self.columns, stable=True)
            counts = torch.bincount(self.columns, minlength=self.shape[1])
            offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            pattern = Pattern(offsets, self.rows[order]).to(self.columns.device)
            self._transposed_pattern = pattern, order
        return self._transposed_pattern


class _Product(torch.autograd.Function):
    """A product that is differentiable in the dense matrix."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return row_sums(matrix.pattern, matrix.values, dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        return ctx.matrix.transpose() @ gradient if ctx.needs_input_grad[0] else None, None


Features = Tensor | SparseMatrix

ModelInputs = tuple[Features, tuple[SparseMatrix, ...]]
"""Arguments of a model: features, and one matrix per hop."""
