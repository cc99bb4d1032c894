"""Operations on the stored entries of sparse rows, with gradients of values and operands.

:class:`~crossgcn.graph.SparseMatrix` holds constants; here only its pattern is used. No product
is made dense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import FeatureCrossing, is_dense

MOST_GATHERED = {"cpu": 2**16, "cuda": 2**24}
"""Numbers that are gathered at once: they fit a core's cache, or keep a GPU busy."""


def sparse_rows(x: Tensor | SparseMatrix) -> SparseMatrix:
    """Convert sparse rows to a :class:`~crossgcn.graph.SparseMatrix`."""
    if isinstance(x, SparseMatrix):
        return x
    if isinstance(x, Tensor) and x.layout == torch.sparse_csr:
        return SparseMatrix.from_torch(x)
    kind = f"layout {x.layout}" if isinstance(x, Tensor) else f"type {type(x).__name__}"
    raise BadInput(
        f"features of {kind} cannot be read entry by entry: pass a dense tensor, "
        "x.to_sparse_csr() or a SparseMatrix"
    )


class EntryCrossing(FeatureCrossing):
    """A crossing of single features: its linear part is the dense row itself.

    Subclasses implement :meth:`combine`, which also takes a :class:`~crossgcn.graph.SparseMatrix`.
    """

    @property
    def num_projections(self) -> int:
        """Width of the linear part: all features."""
        return self.in_channels

    def transform(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform without adding the bias; sparse rows stay sparse."""
        return self.combine(x if is_dense(x) else sparse_rows(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Return dense rows as they are."""
        if isinstance(x, Tensor) and is_dense(x):
            return x
        raise BadInput(
            f"{type(self).__name__} multiplies single features, so sparse rows cannot be projected "
            "to a few numbers and aggregated before it: use --transform-first "
            "(aggregate_first=False), --transform cross, or x.to_dense()"
        )

    def combine(self, projections: Tensor | SparseMatrix) -> Tensor:
        """Cross rows, without adding the bias."""
        raise NotImplementedError


class DenseRows:
    """The operations of :class:`Entries` on dense rows."""

    def __init__(self, x: Tensor) -> None:
        self.values = x

    def row_sums(self, values: Tensor, dense: Tensor) -> Tensor:
        """See :meth:`Entries.row_sums`."""
        return values @ dense

    def inner_products(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        """See :meth:`Entries.inner_products`."""
        return by_row @ by_column.mT

    def of_columns(self, vector: Tensor) -> Tensor:
        """See :meth:`Entries.of_columns`."""
        return vector.unsqueeze(-2)

    def pair_sums(self, values: Tensor, weight: Tensor) -> Tensor:
        """See :meth:`Entries.pair_sums`."""
        return values @ weight.mT


class Entries:
    """The stored entries of a sparse matrix, or of one matrix per model.

    Attributes:
        values: The given value of each entry.
        columns: Column of each entry, numbered consecutively over all models.
        rows: Row of each entry, numbered consecutively over all models.
    """

    def __init__(self, x: Tensor | SparseMatrix) -> None:
        self.matrix = sparse_rows(x)
        self.values = self.matrix.values
        pattern = self.matrix.pattern
        self.columns = pattern.columns
        self.rows = pattern.rows

    def row_sums(self, values: Tensor, dense: Tensor) -> Tensor:
        """Multiply the matrix of these values, one per entry, by ``[..., columns, width]``."""
        gradients = self._products, lambda slope, given: self._multiply_transposed(given, slope)
        return _differentiate(self._multiply, gradients, values, dense)

    def inner_products(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        """Compute ``by_row @ by_column.mT`` at the entries, one number each."""
        gradients = self._multiply, self._multiply_transposed
        return _differentiate(self._products, gradients, by_row, by_column)

    def pair_sums(self, values: Tensor, weight: Tensor) -> Tensor:
        """Compute the matrix of these values times ``weight.mT`` at the entries."""
        gradients = (
            partial(self._pair_sums, transposed=True),
            partial(self._pair_products, shape=weight.shape),
        )
        return _differentiate(self._pair_sums, gradients, values, weight)

    def of_columns(self, vector: Tensor) -> Tensor:
        """Return the element of ``[..., columns]`` for each entry's column."""
        return vector.flatten().index_select(0, self.columns)

    def _multiply(self, values: Tensor, dense: Tensor) -> Tensor:
        return self._with_values(values)._multiply(dense.contiguous())

    def _multiply_transposed(self, values: Tensor, dense: Tensor) -> Tensor:
        return self._with_values(values).multiply_transposed(dense.contiguous())

    def _with_values(self, values: Tensor) -> SparseMatrix:
        return self.matrix.with_values(values.detach().contiguous())

    def _products(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        by_row, by_column = by_row.flatten(0, -2), by_column.flatten(0, -2)
        step = max(1, self._most_gathered // by_row.size(-1))
        pieces = zip(torch.split(self.rows, step), torch.split(self.columns, step), strict=True)
        products = [
            by_row.index_select(0, rows).mul_(by_column.index_select(0, columns)).sum(-1)
            for rows, columns in pieces
        ]
        return torch.cat(products)

    def _pair_sums(self, values: Tensor, weight: Tensor, transposed: bool = False) -> Tensor:
        flat, sums = weight.flatten(), torch.zeros_like(values)
        for numbers, there in self._row_blocks():
            places = self._places(numbers, weight.size(-1))
            weights = flat.index_select(0, places.flatten()).view_as(places)
            given = (values[numbers] * there).unsqueeze(2)
            summed = (weights.mT if transposed else weights) @ given
            sums[numbers[there]] = summed.squeeze(2)[there]
        return sums

    def _pair_products(self, gradient: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
        """Compute the gradient of the weight of :meth:`pair_sums`."""
        grad_weight = values.new_zeros(shape.numel())
        for numbers, there in self._row_blocks():
            slope = (gradient[numbers] * there).unsqueeze(2)
            products = slope * (values[numbers] * there).unsqueeze(1)
            places = self._places(numbers, shape[-1])
            grad_weight.index_add_(0, places.flatten(), products.flatten())
        return grad_weight.view(shape)

    def _row_blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield groups of rows of similar length, whose pairs of entries fit into memory.

        A group is the positions of its entries, ``[rows, longest]``, and a mask of those that
        exist.
        """
        offsets = self.matrix.row_offsets.long()
        lengths, order = offsets.diff().sort(stable=True)
        sizes, end = lengths.tolist(), lengths.numel()
        while end > 0 and sizes[end - 1] > 0:
            longest = sizes[end - 1]
            begin = max(0, end - max(1, self._most_gathered // longest**2))
            within = torch.arange(longest, device=offsets.device)
            there = within < lengths[begin:end].unsqueeze(1)
            numbers = offsets[order[begin:end]].unsqueeze(1) + within
            yield numbers.clamp(max=self.columns.numel() - 1), there
            end = begin

    def _places(self, numbers: Tensor, width: int) -> Tensor:
        """Return the positions of the weights of all pairs, ``[rows, longest, longest]``."""
        columns = self.columns[numbers].long()
        return (columns * width).unsqueeze(2) + (columns % width).unsqueeze(1)

    @property
    def _most_gathered(self) -> int:
        return MOST_GATHERED.get(self.columns.device.type, MOST_GATHERED["cpu"])


Operation = Callable[[Tensor, Tensor], Tensor]


def _differentiate(
    operation: Operation, gradients: tuple[Operation, Operation], first: Tensor, second: Tensor
) -> Tensor:
    """Apply a bilinear operation.

    ``gradients`` compute the gradient of one operand from that of the result and the other one.
    """
    result: Tensor = _Bilinear.apply(operation, gradients, first, second)  # type: ignore[no-untyped-call]
    return result


class _Bilinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, operation: Operation, gradients: Any, first: Tensor, second: Tensor
    ) -> Tensor:
        ctx.save_for_backward(first, second)
        ctx.gradients = gradients
        return operation(first, second)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradient.contiguous()
        first, second = ctx.saved_tensors
        *_, needs_first, needs_second = ctx.needs_input_grad
        of_first, of_second = ctx.gradients
        return (
            None,
            None,
            of_first(gradient, second) if needs_first else None,
            of_second(gradient, first) if needs_second else None,
        )
