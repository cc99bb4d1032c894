"""The cross networks of DCN (Wang et al., 2017) and DCN-v2 (Wang et al., 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import FeatureCrossing, draw
from crossgcn.layers.other_crossings.entries import DenseRows, Entries, EntryCrossing


class CrossNetwork(FeatureCrossing):
    r"""K-1 cross layers of DCN, and a linear read-out.

    .. math::
        \mathbf{x}_{l+1} = \mathbf{x}_0\,(\mathbf{w}_l^\top\mathbf{x}_l) + \mathbf{b}_l
        + \mathbf{x}_l, \qquad \mathbf{z} = \mathbf{R}\,\mathbf{x}_{K-1} + \mathbf{b}

    A layer only scales and shifts the row: :math:`\mathbf{x}_l = s_l\mathbf{x}_0 + \mathbf{c}_l`.
    So it is enough to compute K-1 inner products and one number per row and layer:

    .. math::
        s_{l+1} = s_l + s_l\,\mathbf{w}_l^\top\mathbf{x}_0 + \mathbf{w}_l^\top\mathbf{c}_l, \qquad
        \mathbf{c}_{l+1} = \mathbf{c}_l + \mathbf{b}_l, \qquad
        \mathbf{z} = s_{K-1}\,\mathbf{R}\mathbf{x}_0 + \mathbf{R}\,\mathbf{c}_{K-1} + \mathbf{b}

    Work and parameters are :math:`D(E + K)`. All outputs share one scale :math:`s`, so there is
    not a separate cross per output unit.

    Biases start at 0, :math:`\mathbf{R}` by Glorot's rule, and :math:`\mathbf{w}_l` with variance
    :math:`1/(D(K-1))`: for features of mean square one, the mean square of the scale is then
    :math:`(1 + \frac{1}{K-1})^{K-1} < e` for every order.

    Args:
        cross_bias: Use :math:`\mathbf{b}_l`.

    Attributes:
        read_out: :math:`\mathbf{R}`, ``[out_channels, in_channels]``.
        cross_weight: All :math:`\mathbf{w}_l`, ``[order - 1, in_channels]``.
        cross_bias: All :math:`\mathbf{b}_l` in a row, ``[(order - 1) * in_channels]``, or none.
    """

    read_out: nn.Parameter
    cross_weight: nn.Parameter
    cross_bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        cross_bias: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order, bias)
        self.add_parameters(
            read_out=(out_channels, in_channels),
            cross_weight=(order - 1, in_channels),
            cross_bias=((order - 1) * in_channels,) if cross_bias else None,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.read_out)
        draw(self.cross_weight, 1 / (self.in_channels * (self.order - 1)))

    @property
    def num_projections(self) -> int:
        """Width of the linear part."""
        return self.out_channels + self.order - 1

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Compute read-out and inner products, ``[..., rows, out_channels + order - 1]``."""
        return x @ torch.cat([self.read_out, self.cross_weight], dim=-2).mT

    def combine(self, projections: Tensor) -> Tensor:
        """Scale and shift the read-out, without adding the bias."""
        read, inner = projections.tensor_split([self.out_channels], dim=-1)
        products = inner.unbind(-1)
        scale = torch.ones_like(products[0])
        if self.cross_bias is None:
            for product in products:
                scale = scale + scale * product
            return scale.unsqueeze(-1) * read

        by_layer = torch.unflatten(self.cross_bias, -1, (self.order - 1, self.in_channels))
        shifts = by_layer.cumsum(-2)
        before = torch.cat([torch.zeros_like(shifts[..., :1, :]), shifts[..., :-1, :]], dim=-2)
        shifted = (self.cross_weight * before).sum(-1, keepdim=True).unbind(-2)
        for product, constant in zip(products, shifted, strict=True):
            scale = scale + scale * product + constant
        return scale.unsqueeze(-1) * read + shifts[..., -1:, :] @ self.read_out.mT


class CrossNetworkV2(EntryCrossing):
    r"""K-1 cross layers of DCN-v2, and a linear read-out.

    .. math::
        \mathbf{x}_{l+1} = \mathbf{x}_0 \odot (\mathbf{W}_l\mathbf{x}_l + \mathbf{b}_l)
        + \mathbf{x}_l, \qquad \mathbf{z} = \mathbf{R}\,\mathbf{x}_{K-1} + \mathbf{b}

    :math:`\mathbf{W}_l` is a full matrix, :math:`D^2` parameters for each order, or with
    ``rank`` a product :math:`\mathbf{U}_l\mathbf{V}_l^\top`, :math:`2Dr` of them.

    Every :math:`\mathbf{x}_l` is :math:`\mathbf{x}_0 \odot \mathbf{m}_l` with
    :math:`\mathbf{m}_{l+1} = \mathbf{m}_l + \mathbf{W}_l\mathbf{x}_l + \mathbf{b}_l`, so it is
    zero where :math:`\mathbf{x}_0` is. For sparse rows :math:`\mathbf{m}_l` is computed for stored
    entries only, with work :math:`r` for each, or as much as its row has entries for a full matrix.
    The gradient of a full matrix has :math:`D^2` numbers in any case.

    Biases start at 0, :math:`\mathbf{R}` by Glorot's rule, and entries of :math:`\mathbf{W}_l`
    with variance :math:`1/(D(K-1))`, so that for features of mean square one all layers together
    add about as much as the input has.

    Args:
        rank: Of each :math:`\mathbf{W}_l`; ``None`` for full matrices, which are smaller if there
            are fewer features than twice the rank.
        cross_bias: Use :math:`\mathbf{b}_l`.

    Attributes:
        read_out: :math:`\mathbf{R}`, ``[out_channels, in_channels]``.
        cross_weight: All :math:`\mathbf{W}_l`, ``[order - 1, in_channels, in_channels]``, or none.
        down_weight: All :math:`\mathbf{V}_l^\top`, ``[order - 1, rank, in_channels]``, or none.
        up_weight: All :math:`\mathbf{U}_l`, ``[order - 1, in_channels, rank]``, or none.
        cross_bias: All :math:`\mathbf{b}_l` in a row, ``[(order - 1) * in_channels]``, or none.
    """

    read_out: nn.Parameter
    cross_weight: nn.Parameter | None
    down_weight: nn.Parameter | None
    up_weight: nn.Parameter | None
    cross_bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        rank: int | None = 32,
        cross_bias: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order, bias)
        self.rank = rank
        full = rank is None
        width = in_channels if rank is None else check_count("rank", rank)
        self.add_parameters(
            read_out=(out_channels, in_channels),
            cross_weight=(order - 1, in_channels, in_channels) if full else None,
            down_weight=None if full else (order - 1, width, in_channels),
            up_weight=None if full else (order - 1, in_channels, width),
            cross_bias=((order - 1) * in_channels,) if cross_bias else None,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.read_out)
        share = 1 / (self.order - 1)
        if self.cross_weight is not None:
            draw(self.cross_weight, share / self.in_channels)
        if self.down_weight is not None and self.up_weight is not None:
            draw(self.down_weight, 1 / self.in_channels)
            draw(self.up_weight, share / self.up_weight.size(-1))

    @property
    def capturable(self) -> bool:
        """Not with full matrices, which group rows by their length."""
        return self.rank is not None

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        layers = self.order - 1
        return self.out_channels + layers * (self.rank or 0), 1 + 3 * layers

    def combine(self, projections: Tensor | SparseMatrix) -> Tensor:
        """Cross rows and read them out, without adding the bias."""
        rows = (
            Entries(projections)
            if isinstance(projections, SparseMatrix)
            else DenseRows(projections)
        )
        x = rows.values.to(self.read_out.dtype)
        factor = torch.ones_like(x)
        for weights, shift in self._layers():
            state = x * factor
            if len(weights) == 1:
                factor = factor + rows.pair_sums(state, weights[0])
            else:
                down, up = weights
                factor = factor + rows.inner_products(rows.row_sums(state, down.mT), up)
            if shift is not None:
                factor = factor + rows.of_columns(shift)
        return rows.row_sums(x * factor, self.read_out.mT)

    def _layers(self) -> Iterator[tuple[Sequence[Tensor], Tensor | None]]:
        """Yield each layer's full matrix or its two factors, and its bias."""
        weights = (self.cross_weight, self.down_weight, self.up_weight)
        matrices = zip(*(each.unbind(-3) for each in weights if each is not None), strict=True)
        shifts: Sequence[Tensor | None] = [None] * (self.order - 1)
        if self.cross_bias is not None:
            shape = (self.order - 1, self.in_channels)
            shifts = torch.unflatten(self.cross_bias, -1, shape).unbind(-2)
        return zip(matrices, shifts, strict=True)
