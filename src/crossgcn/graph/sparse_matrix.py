"""A constant sparse matrix with its transpose kept at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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
    """

    def __init__(
        self, row_offsets: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> None:
        self.row_offsets = row_offsets
        self.columns = columns
        self.values = values
        self.shape = shape
        self._transpose: tuple[Tensor, Tensor, Tensor] | None = None

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

    def with_values(self, values: Tensor) -> SparseMatrix:
        """The same pattern holding other values; the sorted transpose is shared."""
        other = SparseMatrix(self.row_offsets, self.columns, values, self.shape)
        other._transpose = self._transposed_pattern()
        return other

    def size(self, dim: int) -> int:
        """Length of one dimension, as a tensor would answer."""
        return self.shape[dim]

    @property
    def nonzeros(self) -> int:
        """How many entries are stored."""
        return self.values.numel()

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _SparseDenseProduct.apply(dense, self)  # type: ignore[no-untyped-call]
        return product

    def __repr__(self) -> str:
        return f"SparseMatrix({self.shape[0]} × {self.shape[1]}, {self.nonzeros} nonzeros)"

    def _multiply(self, dense: Tensor) -> Tensor:
        return _row_sums(self.row_offsets, self.columns, self.values, dense)

    def _multiply_transposed(self, dense: Tensor) -> Tensor:
        offsets, columns, order = self._transposed_pattern()
        return _row_sums(offsets, columns, self.values[order], dense)

    def _transposed_pattern(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row offsets and columns of the transpose, and where its values stand in ours."""
        if self._transpose is None:
            lengths = self.row_offsets.diff()
            rows = torch.repeat_interleave(torch.arange(self.shape[0]), lengths)
            order = torch.argsort(self.columns, stable=True)
            offsets = torch.zeros(self.shape[1] + 1, dtype=torch.long)
            offsets[1:] = torch.bincount(self.columns, minlength=self.shape[1]).cumsum(0)
            self._transpose = (offsets, rows[order], order)
        return self._transpose


def _row_sums(offsets: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """Sum dense rows with weights, one sum per sparse row.

    That is what an embedding bag computes, row by row and in storage order.
    """
    return torch.nn.functional.embedding_bag(
        columns,
        dense.contiguous(),
        offsets,
        mode="sum",
        per_sample_weights=values.to(dense.dtype),
        include_last_offset=True,
    )


class _SparseDenseProduct(torch.autograd.Function):
    """``S @ B`` with the gradient of ``B`` through the kept transpose."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        if dense.size(0) != matrix.shape[1]:
            raise ValueError(
                f"cannot multiply {matrix!r} by {tuple(dense.shape)}: "
                f"{matrix.shape[1]} rows are needed"
            )
        ctx.matrix = matrix
        return matrix._multiply(dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None
        return ctx.matrix._multiply_transposed(gradient), None
