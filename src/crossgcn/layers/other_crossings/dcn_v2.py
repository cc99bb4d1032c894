"""The cross network of DCN-v2 (Wang et al., 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import FeatureCrossing, draw, is_dense
from crossgcn.layers.other_crossings.entries import Entries


class CrossNetworkV2(FeatureCrossing):
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
        in_channels: Features per row.
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        rank: Of each :math:`\mathbf{W}_l`; ``None`` for full matrices, which are smaller if there
            are fewer features than twice the rank.
        cross_bias: Use :math:`\mathbf{b}_l`.
        bias: Add :math:`\mathbf{b}`.

    Attributes:
        read_out: :math:`\mathbf{R}`, ``[out_channels, in_channels]``.
        cross_weight: All :math:`\mathbf{W}_l`, ``[order - 1, in_channels, in_channels]``, or none.
        down_weight: All :math:`\mathbf{V}_l^\top`, ``[order - 1, rank, in_channels]``, or none.
        up_weight: All :math:`\mathbf{U}_l`, ``[order - 1, in_channels, rank]``, or none.
        cross_bias: All :math:`\mathbf{b}_l` in a row, ``[(order - 1) * in_channels]``, or none.
    """

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
        self.rank = None if rank is None else check_count("rank", rank)
        layers = self.num_layers = self.order - 1
        full, product = layers and rank is None, layers and rank is not None
        self.read_out = nn.Parameter(torch.empty(out_channels, in_channels))
        for name, wanted, shape in (
            ("cross_weight", full, (layers, in_channels, in_channels)),
            ("down_weight", product, (layers, rank or 0, in_channels)),
            ("up_weight", product, (layers, in_channels, rank or 0)),
            ("cross_bias", layers and cross_bias, (layers * in_channels,)),
        ):
            self.register_parameter(name, nn.Parameter(torch.empty(shape)) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.read_out)
        share = 1 / max(1, self.num_layers)
        draw(self.cross_weight, share / self.in_channels)
        draw(self.down_weight, 1 / self.in_channels)
        draw(self.up_weight, share / (self.rank or 1))
        if self.cross_bias is not None:
            nn.init.zeros_(self.cross_bias)

    @property
    def num_projections(self) -> int:
        """Width of the linear part: all features, unless the order is 1."""
        return self.in_channels if self.num_layers else self.out_channels

    @property
    def capturable(self) -> bool:
        """Not with full matrices, which group rows by their length."""
        return self.cross_weight is None

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        return self.out_channels + self.num_layers * (self.rank or 0), 1 + 3 * self.num_layers

    def transform(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform without adding the bias; sparse rows stay sparse."""
        if is_dense(x) or self.num_layers == 0:
            return self.combine(self.project(x))
        return self._cross_entries(Entries(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Return dense rows as they are; of order 1, apply the read-out."""
        return x @ self.read_out.mT if self.num_layers == 0 else self._every_feature(x)

    def combine(self, projections: Tensor) -> Tensor:
        """Cross dense rows and read them out, without adding the bias."""
        if self.num_layers == 0:
            return projections
        x, factor = projections, torch.ones_like(projections)
        for full, down, up, shift in self._layers():
            state = x * factor
            if full is not None:
                factor = factor + state @ full.mT
            elif down is not None and up is not None:
                factor = factor + state @ down.mT @ up.mT
            if shift is not None:
                factor = factor + shift.unsqueeze(-2)
        return (x * factor) @ self.read_out.mT

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return f"{super().extra_repr()}, rank={self.rank}"

    def _cross_entries(self, entries: Entries) -> Tensor:
        """Cross the entries of sparse rows and read them out."""
        values = entries.matrix.values.to(self.read_out.dtype)
        factor = torch.ones_like(values)
        for full, down, up, shift in self._layers():
            state = values * factor
            if full is not None:
                factor = factor + entries.pair_sums(state, full)
            elif down is not None and up is not None:
                factor = factor + entries.inner_products(entries.row_sums(state, down.mT), up)
            if shift is not None:
                factor = factor + entries.of_columns(shift)
        return entries.row_sums(values * factor, self.read_out.mT)

    def _layers(self) -> Iterator[tuple[Tensor | None, ...]]:
        """Yield each layer's full matrix, its two factors, and its bias, or ``None``."""
        biases: Tensor | None = self.cross_bias
        if biases is not None:
            biases = torch.unflatten(biases, -1, (self.num_layers, self.in_channels))
        weights = (self.cross_weight, self.down_weight, self.up_weight)
        parts = [self._by_layer(weight, -3) for weight in weights]
        return zip(*parts, self._by_layer(biases, -2), strict=True)

    def _by_layer(self, weights: Tensor | None, dim: int) -> Sequence[Tensor | None]:
        return [None] * self.num_layers if weights is None else weights.unbind(dim)
