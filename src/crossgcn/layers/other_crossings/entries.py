"""Sparse rows whose entries are computed, and so pass gradients on.

:class:`~crossgcn.graph.SparseMatrix` holds constants. Here only its pattern counts: values
and dense operands come as tensors, and both get gradients. No product is made dense.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix

MOST_GATHERED = {"cpu": 2**16, "cuda": 2**24}
"""Numbers that are gathered at once: what a core's cache holds, or what keeps a GPU busy."""


def sparse_rows(x: Tensor | SparseMatrix) -> SparseMatrix:
    """Sparse rows of either kind, as a matrix with a pattern.

    Raises:
        BadInput: For anything else, with what to pass.
    """
    if isinstance(x, SparseMatrix):
        return x
    if isinstance(x, Tensor) and x.layout == torch.sparse_csr:
        return SparseMatrix.from_torch(x)
    kind = f"layout {x.layout}" if isinstance(x, Tensor) else f"type {type(x).__name__}"
    raise BadInput(
        f"features of {kind} cannot be read entry by entry: pass a dense tensor, "
        "x.to_sparse_csr() or a SparseMatrix"
    )


class Entries:
    """The stored entries of a sparse matrix, or of one per model.

    Args:
        x: ``torch.sparse_csr``, or a :class:`~crossgcn.graph.SparseMatrix`.

    Attributes:
        matrix: The pattern, with the values as they came.
        columns: Column of each entry; where there are several models, counted on over all.
        rows: Row of each entry, likewise.
    """

    def __init__(self, x: Tensor | SparseMatrix) -> None:
        self.matrix = sparse_rows(x)
        pattern = self.matrix.pattern
        self.columns = pattern.columns
        numbers = torch.arange(pattern.num_rows, device=self.columns.device)
        self.rows = numbers.repeat_interleave(
            pattern.row_offsets.diff(), output_size=self.columns.numel()
        )

    def row_sums(self, values: Tensor, dense: Tensor) -> Tensor:
        """The matrix with other values, times a dense one.

        Args:
            values: One per entry.
            dense: ``[..., columns, width]``.

        Returns:
            ``[..., rows, width]``.
        """
        product: Tensor = _RowSums.apply(values, dense, self)  # type: ignore[no-untyped-call]
        return product

    def inner_products(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        """For each entry, the inner product of its row's vector and its column's.

        Args:
            by_row: ``[..., rows, width]``.
            by_column: ``[..., columns, width]``.

        Returns:
            One number per entry: what a product of both holds where the matrix has entries.
        """
        products: Tensor = _InnerProducts.apply(  # type: ignore[no-untyped-call]
            by_row, by_column, self
        )
        return products

    def of_columns(self, vector: Tensor) -> Tensor:
        """For each entry, its column's number out of ``[..., columns]``."""
        return vector.flatten().index_select(0, self.columns)

    def pair_sums(self, values: Tensor, weight: Tensor) -> Tensor:
        """For each entry, the sum over all entries of its row, weighed by both columns.

        Args:
            values: One per entry.
            weight: ``[..., columns, columns]``: of the entry's column, and the other's.

        Returns:
            One number per entry: what a product with the weight holds where the matrix has
            entries, without the rest of it.
        """
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
        """Rows of about one length together, few enough that all their pairs can be gathered.

        Yields:
            Numbers of the rows' entries, ``[rows, longest]``, and which of them there are.
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
        """Where the weights of all pairs stand, ``[rows, longest, longest]``."""
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
        for_values = for_dense = None
        gradient = gradient.contiguous()
        if ctx.needs_input_grad[0]:
            for_values = entries._gathered_products(gradient, dense)
        if ctx.needs_input_grad[1]:
            for_dense = entries._with_values(values)._multiply_transposed(gradient)
        return for_values, for_dense, None


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
        for_row = for_column = None
        if ctx.needs_input_grad[0]:
            for_row = weighted._multiply(by_column.contiguous())
        if ctx.needs_input_grad[1]:
            for_column = weighted._multiply_transposed(by_row.contiguous())
        return for_row, for_column, None


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
        for_values = torch.zeros_like(values) if ctx.needs_input_grad[0] else None
        for_weight = values.new_zeros(weight.numel()) if ctx.needs_input_grad[1] else None
        flat = weight.flatten()
        for numbers, there in entries._row_blocks():
            places = entries._places(numbers, weight.size(-1))
            slope = (gradient[numbers] * there).unsqueeze(2)
            if for_values is not None:
                for_values[numbers[there]] = (_gather(flat, places).mT @ slope).squeeze(2)[there]
            if for_weight is not None:
                products = slope * (values[numbers] * there).unsqueeze(1)
                for_weight.index_add_(0, places.flatten(), products.flatten())
        return for_values, None if for_weight is None else for_weight.view_as(weight), None


def _gather(flat: Tensor, places: Tensor) -> Tensor:
    return flat.index_select(0, places.flatten()).view_as(places)
