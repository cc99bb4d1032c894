"""A constant sparse matrix with its transpose kept at hand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from crossgcn.errors import WorkFailed
from crossgcn.kernels import Draws, Pattern, row_sums

if TYPE_CHECKING:
    from crossgcn.kernels.gpu.products import Precision


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
        """Where each model's entries start; see :class:`~crossgcn.graph.ModelBatchMatrix`."""
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


def make_rows(rows: int, width: int, dtype: torch.dtype, folder: Path | None) -> Tensor:
    """Zeros, ``[rows, width]``.

    Args:
        rows: How many.
        width: How wide.
        dtype: Of the entries.
        folder: Where to keep them in a file that is mapped into memory and gone when the tensor
            is; ``None`` for memory.
    """
    if folder is None or rows * width == 0:
        return torch.zeros(rows, width, dtype=dtype)
    num_bytes = rows * width * dtype.itemsize
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(".rows", dir=folder)
        try:
            # Room is taken now: a disk found full while a page is written back kills the process.
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
    """The constant features of one model, multiplied with weights by a GPU's tensor cores.

    What PyTorch multiplies in 32 bits is here the sum of three products of TF32, which is
    as exact (``tests/kernels/gpu_product_cases.py``) and faster. Which entries are dropped is drawn
    while they are read, so the dropped matrix need not be written. Needs Triton.

    Args:
        x: ``[1, rows, features]``; gets no gradient.
    """

    def __init__(self, x: Tensor) -> None:
        from crossgcn.kernels.gpu.products import pad_rows

        self.shape = x.shape
        self._x = pad_rows(x[0])
        self._draws: Draws | None = None
        self._p = 0.0

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self._x.device

    def size(self, dim: int) -> int:
        """Length of one dimension, as a tensor would answer."""
        return self.shape[dim]

    def drop(self, draws: Draws, p: float) -> DenseFeatures:
        """The same features, less those that are dropped."""
        other = copy(self)
        other._draws, other._p = draws, p
        return other

    def __matmul__(self, weight: Tensor) -> Tensor:
        product: Tensor = _FeatureProduct.apply(weight, self)  # type: ignore[no-untyped-call]
        return product


class _FeatureProduct(torch.autograd.Function):
    """``drop(X) @ W`` with the gradient of ``W``."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, features: DenseFeatures) -> Tensor:
        from crossgcn.kernels.gpu.products import DroppedProduct

        precision = _precision_of_products()
        product = DroppedProduct(features._x, features._draws, features._p, precision)
        ctx.product = product
        return product.project(weight[0]).unsqueeze(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        for_weight: Tensor = ctx.product.project_backward(gradient[0])
        return for_weight.float().unsqueeze(0), None


def _precision_of_products() -> Precision:
    """What PyTorch's own products would have now."""
    if torch.is_autocast_enabled("cuda"):
        return "bf16"
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "fp32"


Inputs = tuple[Tensor | SparseMatrix | DenseFeatures, tuple[SparseMatrix, ...]]


class ModelBatchMatrix(SparseMatrix):
    """One matrix per model, multiplied with ``[models, columns, width]`` in one product.

    They stand on the diagonal of one large matrix. All have the shape of the largest;
    what the others lack are empty rows and columns at their ends, so each sum is the
    same, in the same order, as in a product of that model alone.

    Args:
        matrices: One per model.
    """

    def __init__(self, matrices: Sequence[SparseMatrix]) -> None:
        if len(matrices) == 1:
            self._take_over(matrices[0])
            return
        rows = max(matrix.shape[0] for matrix in matrices)
        columns = max(matrix.shape[1] for matrix in matrices)
        lengths = [torch.zeros(rows, dtype=torch.long) for _ in matrices]
        for length, matrix in zip(lengths, matrices, strict=True):
            length[: matrix.shape[0]] = matrix.row_offsets.diff()
        offsets = torch.zeros(rows * len(matrices) + 1, dtype=torch.long)
        offsets[1:] = torch.cat(lengths).cumsum(0)
        super().__init__(
            offsets,
            torch.cat([matrix.columns + columns * r for r, matrix in enumerate(matrices)]),
            torch.cat([matrix.values for matrix in matrices]),
            (rows, columns),
        )
        self.models = len(matrices)
        self._starts = offsets[::rows].clone()
        if any(matrix.own is not None for matrix in matrices):
            own = [
                torch.arange(matrix.shape[0]) if matrix.own is None else matrix.own
                for matrix in matrices
            ]
            self.own = pad_sequence(own, batch_first=True)

    def _take_over(self, matrix: SparseMatrix) -> None:
        """Be one model's matrix: what it has is shared, not copied."""
        super().__init__(matrix.row_offsets, matrix.columns, matrix.values, matrix.shape)
        self.models = 1
        self._starts = matrix.row_offsets[[0, -1]]
        self._transpose = matrix._transpose
        self.own = None if matrix.own is None else matrix.own.unsqueeze(0)

    @property
    def model_starts(self) -> Tensor:
        """Where each model's entries start, and where the last one's end, ``[models + 1]``."""
        self._starts = self._starts.to(self.values.device)
        return self._starts

    def own_rows(self, dense: Tensor) -> Tensor:
        """As for one matrix, of each model."""
        return dense if self.own is None else dense.take_along_dim(self.own.unsqueeze(-1), dim=-2)

    def _multiply(self, dense: Tensor) -> Tensor:
        if dense.shape[:-1] != (self.models, self.shape[1]):
            raise ValueError(
                f"cannot multiply {self!r} of {self.models} models by {tuple(dense.shape)}: "
                f"[{self.models}, {self.shape[1]}, ...] is needed"
            )
        product = row_sums(self.pattern, self.values, dense.flatten(0, 1))
        return product.view(self.models, self.shape[0], -1)

    def _multiply_transposed(self, dense: Tensor) -> Tensor:
        product = super()._multiply_transposed(dense.flatten(0, 1))
        return product.view(self.models, self.shape[1], -1)

    def _transposed(self) -> tuple[Pattern, Tensor]:
        if self._transpose is None:
            self._transpose = _transpose(self.pattern, self.models * self.shape[1])
        return self._transpose


def stack_inputs(inputs: Sequence[Inputs]) -> Inputs:
    """What several models take, as what their stacked model takes.

    Args:
        inputs: One per model, from :meth:`~crossgcn.graph.PreparedGraph.view`.

    Returns:
        Features, dense ``[models, rows, features]`` or stacked sparse, and stacked blocks.
        Models with fewer rows than others have zeros, or nothing, in their last ones.
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
