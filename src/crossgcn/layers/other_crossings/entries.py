"""Crossings of single features: operations on the stored entries of sparse rows, and HOFM.

The operations have gradients of values and operands. :class:`~crossgcn.graph.SparseMatrix` holds
constants; here only its pattern is used. No product is made dense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import FeatureCrossing, draw, is_dense

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


class HigherOrderFM(EntryCrossing):
    r"""A factorisation machine of order K for each output unit.

    .. math::
        z_e = \mathbf{w}_e^\top\mathbf{x} + \sum_{k=2}^{K}\sum_{s=1}^{r}
        A_k(\mathbf{p}^k_{es} \odot \mathbf{x}) + b_e, \qquad
        A_k(\mathbf{u}) = \sum_{d_1 < \dots < d_k} u_{d_1} \cdots u_{d_k}

    The ANOVA kernel :math:`A_k` multiplies k *different* features. Newton's identities compute it
    from power sums,

    .. math::
        A_k = \frac{1}{k}\sum_{t=1}^{k} (-1)^{t+1} A_{k-t}\,S_t, \qquad
        S_t = \sum_d (p_d x_d)^t

    and powers of a sparse row are as sparse as the row. There are :math:`DE(1 + (K-1)r)` parameters
    and :math:`E + Er(K+2)(K-1)/2` products per feature, since order k needs k power sums of its
    own factors.

    Newton's identities subtract, so the error is relative to :math:`|S_1|^k` and not to
    :math:`A_k`: a row with fewer than k features has crosses of order k that are zero up to
    rounding. Powers are not linear in a row, so the linear part is the dense row itself.

    :math:`\mathbf{w}` starts by Glorot's rule and factors with variance :math:`1/D`, those of
    order k divided by :math:`((K-1)r)^{1/2k}`: for features of mean square one, all crosses
    together have a mean square of at most 1/2.

    Args:
        rank: r, factor vectors for each output unit and order.

    Attributes:
        weight: All :math:`\mathbf{w}_e`, ``[out_channels, in_channels]``.
        factors: All :math:`\mathbf{p}^k_{es}`, ``[order - 1, out_channels, rank, in_channels]``.
    """

    weight: nn.Parameter
    factors: nn.Parameter

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        rank: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order, bias)
        self.rank = check_count("rank", rank)
        self.add_parameters(
            weight=(out_channels, in_channels),
            factors=(order - 1, out_channels, rank, in_channels),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.weight)
        terms = (self.order - 1) * self.rank
        for order, factors in enumerate(self.factors.detach(), 2):
            draw(factors, terms ** (-1 / order) / self.in_channels)

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        sums = self.order * (self.order - 1) // 2
        return self.out_channels * (1 + 3 * self.rank * sums), self.order

    def combine(self, projections: Tensor | SparseMatrix) -> Tensor:
        """Add the linear map and the ANOVA kernels of all orders, without the bias."""
        x = projections
        laid_out = self.factors.movedim(-1, -4)
        first = torch.cat([self.weight.mT, laid_out.flatten(-3)], dim=-1)
        out, sums = (x @ first).tensor_split([self.out_channels], dim=-1)
        # Sums of power t are needed for orders from max(2, t) on.
        power_sums = [torch.unflatten(sums, -1, laid_out.shape[-3:])]
        for power in range(2, self.order + 1):
            needed = laid_out[..., power - 2 :, :, :]
            raised = x.with_values(x.values**power) if isinstance(x, SparseMatrix) else x**power
            product = raised @ needed.pow(power).flatten(-3)
            power_sums.append(torch.unflatten(product, -1, needed.shape[-3:]))

        kernels = [torch.ones_like(power_sums[0]), power_sums[0]]
        for degree in range(2, self.order + 1):
            orders = self.order - degree + 1
            terms = [
                (-1) ** (power + 1)
                * kernels[degree - power][..., -orders:, :, :]
                * power_sums[power - 1][..., -orders:, :, :]
                for power in range(1, degree + 1)
            ]
            kernels.append(torch.stack(terms).sum(0) / degree)
            out = out + kernels[degree][..., 0, :, :].sum(-1)
        return out
