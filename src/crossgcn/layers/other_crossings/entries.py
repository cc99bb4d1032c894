"""Operations on the stored entries of sparse rows, with gradients of values and operands.

:class:`~crossgcn.graph.SparseMatrix` holds constants; here only its pattern is used. No product
is made dense.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        numbers = torch.arange(pattern.num_rows, device=self.columns.device)
        self.rows = numbers.repeat_interleave(
            pattern.row_offsets.diff(), output_size=self.columns.numel()
        )

    def row_sums(self, values: Tensor, dense: Tensor) -> Tensor:
        """Multiply the matrix of these values, one per entry, by ``[..., columns, width]``."""
        product: Tensor = _RowSums.apply(values, dense, self)  # type: ignore[no-untyped-call]
        return product

    def inner_products(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        """Compute ``by_row @ by_column.mT`` at the entries, one number each."""
        products: Tensor = _InnerProducts.apply(  # type: ignore[no-untyped-call]
            by_row, by_column, self
        )
        return products

    def of_columns(self, vector: Tensor) -> Tensor:
        """Return the element of ``[..., columns]`` for each entry's column."""
        return vector.flatten().index_select(0, self.columns)

    def pair_sums(self, values: Tensor, weight: Tensor) -> Tensor:
        """Compute the matrix of these values times ``weight.mT`` at the entries."""
        sums: Tensor = _PairSums.apply(values, weight, self)  # type: ignore[no-untyped-call]
        return sums

    def _with_values(self, values: Tensor) -> SparseMatrix:
        return self.matrix.with_values(values.detach().contiguous())

    def _gathered_products(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        by_row, by_column = by_row.flatten(0, -2), by_column.flatten(0, -2)
        step = max(1, self._most_gathered // by_row.size(-1))
        pieces = zip(torch.split(self.rows, step), torch.split(self.columns, step), strict=True)
        products = [
            by_row.index_select(0, rows).mul_(by_column.index_select(0, columns)).sum(-1)
            for rows, columns in pieces
        ]
        return torch.cat(products)

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


class _RowSums(torch.autograd.Function):
    """:meth:`Entries.row_sums` with both gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, entries: Entries) -> Tensor:
        ctx.save_for_backward(values, dense)
        ctx.entries = entries
        return entries._with_values(values)._multiply(dense.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, dense = ctx.saved_tensors
        entries: Entries = ctx.entries
        grad_values = grad_dense = None
        gradient = gradient.contiguous()
        if ctx.needs_input_grad[0]:
            grad_values = entries._gathered_products(gradient, dense)
        if ctx.needs_input_grad[1]:
            grad_dense = entries._with_values(values)._multiply_transposed(gradient)
        return grad_values, grad_dense, None


class _InnerProducts(torch.autograd.Function):
    """:meth:`Entries.inner_products` with both gradients."""

    @staticmethod
    def forward(ctx: Any, by_row: Tensor, by_column: Tensor, entries: Entries) -> Tensor:
        ctx.save_for_backward(by_row, by_column)
        ctx.entries = entries
        return entries._gathered_products(by_row, by_column)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        by_row, by_column = ctx.saved_tensors
        weighted = ctx.entries._with_values(gradient)
        grad_row = grad_column = None
        if ctx.needs_input_grad[0]:
            grad_row = weighted._multiply(by_column.contiguous())
        if ctx.needs_input_grad[1]:
            grad_column = weighted._multiply_transposed(by_row.contiguous())
        return grad_row, grad_column, None


class _PairSums(torch.autograd.Function):
    """:meth:`Entries.pair_sums` with both gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, entries: Entries) -> Tensor:
        ctx.save_for_backward(values, weight)
        ctx.entries = entries
        flat, sums = weight.flatten(), torch.zeros_like(values)
        for numbers, there in entries._row_blocks():
            weights = _gather(flat, entries._places(numbers, weight.size(-1)))
            given = (values[numbers] * there).unsqueeze(2)
            sums[numbers[there]] = (weights @ given).squeeze(2)[there]
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, weight = ctx.saved_tensors
        entries: Entries = ctx.entries
        grad_values = torch.zeros_like(values) if ctx.needs_input_grad[0] else None
        grad_weight = values.new_zeros(weight.numel()) if ctx.needs_input_grad[1] else None
        flat = weight.flatten()
        for numbers, there in entries._row_blocks():
            places = entries._places(numbers, weight.size(-1))
            slope = (gradient[numbers] * there).unsqueeze(2)
            if grad_values is not None:
                grad_values[numbers[there]] = (_gather(flat, places).mT @ slope).squeeze(2)[there]
            if grad_weight is not None:
                products = slope * (values[numbers] * there).unsqueeze(1)
                grad_weight.index_add_(0, places.flatten(), products.flatten())
        return grad_values, None if grad_weight is None else grad_weight.view_as(weight), None


def _gather(flat: Tensor, places: Tensor) -> Tensor:
    return flat.index_select(0, places.flatten()).view_as(places)
