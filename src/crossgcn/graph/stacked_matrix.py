"""Several sparse matrices as one, for models that are trained together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crossgcn.graph.dense_features import DenseFeatures
from crossgcn.graph.sparse_matrix import SparseMatrix, _transpose
from crossgcn.kernels import Pattern, row_sums

__all__ = ["StackedMatrix", "stack_inputs"]

Inputs = tuple[Tensor | SparseMatrix | DenseFeatures, tuple[SparseMatrix, ...]]


class StackedMatrix(SparseMatrix):
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
        x = StackedMatrix(sparse)
    else:
        x = dense[0].unsqueeze(0) if len(dense) == 1 else pad_sequence(dense, batch_first=True)
    layers = zip(*(blocks for _, blocks in inputs), strict=True)
    return x, tuple(StackedMatrix(blocks) for blocks in layers)
