"""Constant matrices that models multiply with: sparse, dense on a GPU, and stacked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from crossgcn.errors import WorkFailed
from crossgcn.kernels import Draws, Pattern, add_rows, has_triton, may_use_kernels, row_sums

if TYPE_CHECKING:
    from crossgcn.kernels.gpu.products import Precision


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

    Attributes:
        own: In a block of a graph, the column of each row's own node, ``[rows]``; ``None``
            if row ``i`` and column ``i`` are the same node.
    """

    own: Tensor | None = None
    models: int | None = None
    """Number of models that are stacked; see :class:`ModelBatchMatrix`."""

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
        values = add_rows(weights.new_zeros(keys.size(0)), place, weights)
        rows, columns = keys // num_nodes, keys % num_nodes
        counts = add_rows(rows.new_zeros(num_nodes + 1), rows + 1, torch.ones_like(rows))
        matrix = cls(counts.cumsum(0), columns, values, (num_nodes, num_nodes))
        if not may_use_kernels(edge_index):
            matrix.pattern = Pattern(matrix.row_offsets, columns, rows)
        return matrix

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
        other.own = None if self.own is None else self.own.to(device)
        return other

    @property
    def row_offsets(self) -> Tensor:
        """Start of each row in ``columns``, ``[rows + 1]``."""
        return self.pattern.row_offsets

    @property
    def columns(self) -> Tensor:
        """Column of each entry, ``[nonzeros]``."""
        return self.pattern.columns

    @property
    def model_starts(self) -> Tensor | None:
        """Offsets of each model's entries; ``None`` for a single model."""
        return None

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

    def own_rows(self, dense: Tensor) -> Tensor:
        """Select the rows of ``dense``, one per column of this matrix, that belong to its rows."""
        return dense if self.own is None else dense[self.own]

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _multiply(dense, self, False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.nonzeros} nonzeros)"

    def _multiply(self, dense: Tensor) -> Tensor:
        self._check_rows_of(dense)
        product = row_sums(self.pattern, self.values, dense.flatten(0, -2))
        return product.view(*self._stacked(self.shape[0]), dense.size(-1))

    def _check_rows_of(self, dense: Tensor) -> None:
        if dense.shape[:-1] != self._stacked(self.shape[1]):
            models, needed = "", f"{self.shape[1]} rows are"
            if self.models is not None:
                models = f" of {self.models} models"
                needed = f"[{self.models}, {self.shape[1]}, ...] is"
            raise ValueError(
                f"cannot multiply {self!r}{models} by {tuple(dense.shape)}: {needed} needed"
            )

    def multiply_transposed(self, dense: Tensor) -> Tensor:
        """Multiply the transpose by a dense matrix."""
        pattern, order = self._transposed()
        if self._transposed_values is None:
            self._transposed_values = self.values[order]
        product = row_sums(pattern, self._transposed_values, dense.flatten(0, -2))
        return product.view(*self._stacked(self.shape[1]), dense.size(-1))

    def _stacked(self, length: int) -> tuple[int, ...]:
        return (length,) if self.models is None else (self.models, length)

    def _transposed(self) -> tuple[Pattern, Tensor]:
        """Return the pattern of the transpose and the order of its values."""
        if self._transpose is None:
            num_columns = (self.models or 1) * self.shape[1]
            order = torch.argsort(self.columns, stable=True)
            offsets = self.columns.new_zeros(num_columns + 1)
            offsets[1:] = torch.bincount(self.columns, minlength=num_columns).cumsum(0)
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
    flat = dense if matrix.models is None else dense.flatten(0, -2)
    sent = flat.index_select(0, read) * matrix.values.to(dense.dtype).unsqueeze(-1)
    out = add_rows(flat.new_zeros((matrix.models or 1) * length, flat.size(-1)), written, sent)
    return out if matrix.models is None else out.view(*matrix._stacked(length), -1)


class _SparseDenseProduct(torch.autograd.Function):
    """``S @ B`` or its transpose, with the gradient of ``B``."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix, transposed: bool) -> Tensor:
        ctx.matrix, ctx.transposed = matrix, transposed
        return matrix.multiply_transposed(dense) if transposed else matrix._multiply(dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return _multiply(gradient, ctx.matrix, not ctx.transposed), None, None


def make_rows(rows: int, width: int, dtype: torch.dtype, folder: Path | None) -> Tensor:
    """Return zeros, in memory or, given a folder, in a temporary memory-mapped file."""
    if folder is None or rows * width == 0:
        return torch.zeros(rows, width, dtype=dtype)
    num_bytes = rows * width * dtype.itemsize
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".rows", dir=folder)
        try:
            # Allocate now: a disk that is full when a page is written back kills the process.
            os.posix_fallocate(descriptor, 0, num_bytes)
            mapped = torch.from_file(name, shared=True, size=rows * width, dtype=dtype)
        finally:
            os.close(descriptor)
            Path(name).unlink()
    except OSError as error:
        raise WorkFailed(
            f"{folder}: cannot keep {num_bytes / 2**30:.1f} GiB of hidden values there "
            f"({error.strerror or error}): free some room, or name another folder"
        ) from error
    return mapped.view(rows, width)


class DenseFeatures:
    """Dense features ``[1, rows, features]`` of one model on a GPU with Triton, to multiply by.

    Dropout, and a ReLU, happen while the product is computed. Products in 32 bits are as exact as
    PyTorch's and faster; see :mod:`crossgcn.kernels.gpu.halves`.

    Args:
        x: A constant, or hidden features with a gradient; see :meth:`can_hold`.
    """

    def __init__(self, x: Tensor) -> None:
        from crossgcn.kernels.gpu.halves import halve, pad_rows

        self.shape, self._x = x.shape, x
        self._shrink: Tensor | None = None
        if not x.requires_grad:
            self._x = pad_rows(x[0]).unsqueeze(0)
            self._shrink = halve(self._x[0], exact=False).shrink
        self._draws: Draws | None = None
        self._p = 0.0
        self._activate = False

    @staticmethod
    def can_hold(x: object) -> TypeGuard[Tensor]:
        """Whether this class can hold such features: under autocast, only without a gradient."""
        return (
            isinstance(x, Tensor)
            and x.is_cuda
            and x.dtype == torch.float32
            and x.dim() == 3
            and x.size(0) == 1
            and has_triton()
            and may_use_kernels(x)
            and not (x.requires_grad and torch.is_autocast_enabled("cuda"))
        )

    @property
    def device(self) -> torch.device:
        """Device of the features."""
        return self._x.device

    def size(self, dim: int) -> int:
        """Return the length of one dimension, as ``Tensor.size`` does."""
        return self.shape[dim]

    def drop(self, draws: Draws, p: float, activate: bool = False) -> DenseFeatures:
        """Return the features with dropout, after a ReLU if asked for."""
        other = copy(self)
        other._draws, other._p, other._activate = draws, p, activate
        return other

    def __matmul__(self, weight: Tensor) -> Tensor:
        return self.cross(weight)

    def cross(
        self,
        weight: Tensor,
        order_weights: Tensor | None = None,
        *crossing: bool,
        sum_by: SparseMatrix | None = None,
    ) -> Tensor:
        """Multiply by all projections, and cross them if there are order weights.

        Args:
            weight: ``[1, features, order * channels]``.
            order_weights: ``[1, order]``.
            *crossing: ``release`` and ``first_is_one`` of :func:`crossgcn.kernels.cross`.
            sum_by: Return the product of this matrix and the result; a matrix of one model.
        """
        how = (self._draws, self._p, _precision_of_products(), self._activate, self._shrink)
        product: Tensor = _FeatureProduct.apply(  # type: ignore[no-untyped-call]
            weight, self._x, order_weights, how, crossing, sum_by
        )
        return product


class _FeatureProduct(torch.autograd.Function):
    """``drop(X) @ W``, crossed or not, with the gradients of ``W``, ``X`` and order weights."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        x: Tensor,
        order_weights: Tensor | None,
        how: tuple[Any, ...],
        crossing: tuple[bool, ...],
        sum_by: SparseMatrix | None,
    ) -> Tensor:
        from crossgcn.kernels import gpu
        from crossgcn.kernels.gpu.products import DroppedProduct

        ctx.product, ctx.crossing = DroppedProduct(x[0], *how), crossing
        ctx.sum_by = sum_by
        out: Tensor = ctx.product.project(weight[0]).unsqueeze(0)
        if order_weights is not None:
            ctx.save_for_backward(out, order_weights)
            if sum_by is not None:
                sum_by._check_rows_of(out)
                crossed = gpu.cross_to_sum(out, order_weights, *crossing)
                return gpu.row_sums(sum_by.pattern, sum_by.values, crossed).unsqueeze(0)
            out = gpu.cross(out, order_weights, *crossing)
        return out if sum_by is None else sum_by._multiply(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.sum_by is not None:
            gradient = ctx.sum_by.multiply_transposed(gradient)
        along: Any = gradient[0]
        for_orders: Tensor | None = None
        if ctx.saved_tensors:
            from crossgcn.kernels import gpu

            release, *first_is_one = ctx.crossing
            how = (release, ctx.needs_input_grad[2], *first_is_one)
            along, for_orders = gpu.cross_backward_to_multiply(
                gradient, *ctx.saved_tensors, *how, exact=ctx.product.precision == "fp32"
            )
        for_weight, for_x = ctx.product.backward(along, ctx.needs_input_grad[1])
        if for_x is not None:
            for_x = for_x.unsqueeze(0)
        return for_weight.float().unsqueeze(0), for_x, for_orders, None, None, None


def _precision_of_products() -> Precision:
    """Return the precision that PyTorch's products have now."""
    if torch.is_autocast_enabled("cuda"):
        return "bf16"
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"


ModelInputs = tuple[Tensor | SparseMatrix | DenseFeatures, tuple[SparseMatrix, ...]]
"""What a model is called with: features, and one matrix per hop."""


class ModelBatchMatrix(SparseMatrix):
    """One matrix per model, which multiplies ``[models, columns, width]`` in one product.

    The matrices form a block-diagonal matrix, padded to the shape of the largest with empty rows
    and columns, so each sum is the same as for a model alone. A single matrix is not copied.
    """

    models: int

    def __init__(self, matrices: Sequence[SparseMatrix]) -> None:
        first, self.models = matrices[0], len(matrices)
        rows, columns = (max(matrix.shape[dim] for matrix in matrices) for dim in (0, 1))
        if self.models == 1:
            super().__init__(first.row_offsets, first.columns, first.values, first.shape)
            self._transpose = first._transpose
            self._starts = first.row_offsets[[0, -1]]
        else:
            lengths = torch.zeros(self.models, rows, dtype=torch.long)
            for length, matrix in zip(lengths, matrices, strict=True):
                length[: matrix.shape[0]] = matrix.row_offsets.diff()
            offsets = torch.zeros(rows * self.models + 1, dtype=torch.long)
            offsets[1:] = lengths.flatten().cumsum(0)
            super().__init__(
                offsets,
                torch.cat([matrix.columns + columns * r for r, matrix in enumerate(matrices)]),
                torch.cat([matrix.values for matrix in matrices]),
                (rows, columns),
            )
            self._starts = offsets[::rows].clone()
        if any(matrix.own is not None for matrix in matrices):
            own = [
                torch.arange(matrix.shape[0]) if matrix.own is None else matrix.own
                for matrix in matrices
            ]
            self.own = pad_sequence(own, batch_first=True)

    @property
    def model_starts(self) -> Tensor:
        """Offsets of each model's entries, ``[models + 1]``."""
        self._starts = self._starts.to(self.values.device)
        return self._starts

    def own_rows(self, dense: Tensor) -> Tensor:
        """Select, for each model, the rows that belong to the rows of its matrix."""
        return dense if self.own is None else dense.take_along_dim(self.own.unsqueeze(-1), dim=-2)


def stack_inputs(inputs: Sequence[ModelInputs]) -> ModelInputs:
    """Stack the inputs of several models, from :meth:`~crossgcn.graph.PreparedGraph.view`.

    Returns:
        Features, dense ``[models, rows, features]`` or stacked sparse, and stacked blocks.
        Models with fewer rows are padded with zeros or empty rows.
    """
    sparse = [x for x, _ in inputs if isinstance(x, SparseMatrix)]
    dense = [x for x, _ in inputs if isinstance(x, Tensor)]
    x: Tensor | SparseMatrix
    if sparse:
        x = ModelBatchMatrix(sparse)
    else:
        x = dense[0].unsqueeze(0) if len(dense) == 1 else pad_sequence(dense, batch_first=True)
    layers = zip(*(blocks for _, blocks in inputs), strict=True)
    return x, tuple(ModelBatchMatrix(blocks) for blocks in layers)
