"""A constant sparse matrix with its transpose kept at hand."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crossgcn.kernels import Pattern, row_sums

__all__ = ["SparseMatrix"]


class SparseMatrix:
    r"""A CSR matrix that multiplies dense matrices and stays out of autograd.

    Graphs and bags of words do not change while a model trains, but autograd
    transposes a ``torch.sparse`` operand in every backward pass. This class
    sorts the transpose once, so that both directions of

    .. math:: \mathbf{Y} = \mathbf{S}\mathbf{B}, \qquad
        \frac{\partial L}{\partial \mathbf{B}}
        = \mathbf{S}^{\top}\frac{\partial L}{\partial \mathbf{Y}}

    are the same row-by-row product. Rows are summed in storage order, so
    results do not depend on the number of threads.

    Args:
        row_offsets: Start of each row in ``columns``, ``[rows + 1]``.
        columns: Column of each stored entry, ``[nonzeros]``.
        values: Stored entries, ``[nonzeros]``; they receive no gradient.
        shape: Rows and columns.

    Attributes:
        own: In a piece of a graph, the column of each row's own node, ``[rows]``; ``None``
            where row ``i`` and column ``i`` are the same node.
    """

    own: Tensor | None = None

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
        """Take over any SciPy sparse matrix (duplicates are summed)."""
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
        """Take over a ``torch.sparse_csr`` tensor; nothing is copied."""
        rows, columns = tensor.shape
        return cls(
            tensor.crow_indices().long(),
            tensor.col_indices().long(),
            tensor.values(),
            (rows, columns),
        )

    def to_scipy(self) -> sp.csr_array:
        """The same matrix for SciPy's slicing and arithmetic."""
        return sp.csr_array(
            (self.values.numpy(), self.columns.numpy(), self.row_offsets.numpy()), shape=self.shape
        )

    def select_rows(self, rows: Tensor) -> SparseMatrix:
        """The given rows, in the given order."""
        return SparseMatrix.from_scipy(self.to_scipy()[rows.numpy()])

    def with_values(self, values: Tensor) -> Self:
        """The same pattern holding other values; the sorted transpose is shared."""
        self._transposed()
        other = copy(self)
        other.values, other._transposed_values = values, None
        return other

    def to(self, device: torch.device | str) -> Self:
        """The same matrix on another device, its transpose with it, which is sorted there."""
        if torch.device(device) == self.values.device == self.columns.device:
            return self
        other = copy(self)
        if self._transpose is None:
            other.pattern = Pattern(self.row_offsets.to(device), self.columns.to(device))
        pattern, order = other._transposed()
        other.pattern, other.values = self.pattern.to(device), self.values.to(device)
        other._transpose = (pattern.to(device), order.to(device))
        other._transposed_values = None
        other.own = None if self.own is None else self.own.to(device)
        return other

    @property
    def row_offsets(self) -> Tensor:
        """Start of each row in ``columns``, ``[rows + 1]``."""
        return self.pattern.row_offsets

    @property
    def columns(self) -> Tensor:
        """Column of each stored entry."""
        return self.pattern.columns

    @property
    def model_starts(self) -> Tensor | None:
        """Where each model's entries start; see :class:`~crossgcn.graph.StackedMatrix`."""
        return None

    def size(self, dim: int) -> int:
        """Length of one dimension, as a tensor would answer."""
        return self.shape[dim]

    @property
    def nonzeros(self) -> int:
        """How many entries are stored."""
        return self.values.numel()

    @property
    def rows(self) -> Tensor:
        """Row of each stored entry, in ascending order."""
        numbers = torch.arange(self.pattern.num_rows, device=self.columns.device)
        return numbers.repeat_interleave(self.row_offsets.diff(), output_size=self.nonzeros)

    def own_rows(self, dense: Tensor) -> Tensor:
        """What the rows' own nodes have in a matrix with a row per column of this one."""
        return dense if self.own is None else dense[self.own]

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _SparseDenseProduct.apply(dense, self)  # type: ignore[no-untyped-call]
        return product

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.nonzeros} nonzeros)"

    def _multiply(self, dense: Tensor) -> Tensor:
        if dense.shape[:-1] != self.shape[1:]:
            raise ValueError(
                f"cannot multiply {self!r} by {tuple(dense.shape)}: {self.shape[1]} rows are needed"
            )
        return row_sums(self.pattern, self.values, dense)

    def _multiply_transposed(self, dense: Tensor) -> Tensor:
        pattern, order = self._transposed()
        if self._transposed_values is None:
            self._transposed_values = self.values[order]
        return row_sums(pattern, self._transposed_values, dense)

    def _transposed(self) -> tuple[Pattern, Tensor]:
        """The pattern of the transpose, and where its values stand in ours."""
        if self._transpose is None:
            self._transpose = _transpose(self.pattern, self.shape[1])
        return self._transpose


def _transpose(pattern: Pattern, num_columns: int) -> tuple[Pattern, Tensor]:
    columns = pattern.columns
    numbers = torch.arange(pattern.num_rows, device=columns.device)
    rows = torch.repeat_interleave(numbers, pattern.row_offsets.diff())
    order = torch.argsort(columns, stable=True)
    offsets = columns.new_zeros(num_columns + 1)
    offsets[1:] = torch.bincount(columns, minlength=num_columns).cumsum(0)
    return Pattern(offsets, rows[order]), order


class _SparseDenseProduct(torch.autograd.Function):
    """``S @ B`` with the gradient of ``B`` through the kept transpose."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix._multiply(dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None
        return ctx.matrix._multiply_transposed(gradient), None
