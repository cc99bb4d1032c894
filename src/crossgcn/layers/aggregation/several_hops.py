"""Aggregations over several hops: APPNP, MixHop, ChebNet and GRAND."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers.aggregation import NodeAggregation
from crossgcn.layers.feature_transform import SITES_PER_DRAW, FeatureDropout

_GCN: tuple[EdgeKind] = ("gcn",)
_SYMMETRIC: tuple[EdgeKind] = ("symmetric",)
_NODE_SITE = SITES_PER_DRAW - 1
"""The dropout site of node drop; layers count theirs from 0."""


class PersonalisedPageRank(NodeAggregation):
    r"""Personalised PageRank, which returns to a node's own vector in every step (APPNP).

    .. math:: \mathbf{Z}^{(t+1)} = (1-\beta)\,\hat{\mathbf{A}}\mathbf{Z}^{(t)}
        + \beta\mathbf{X}, \qquad \mathbf{Z}^{(0)} = \mathbf{X}

    Args:
        hops: Number of steps, at least 1.
        teleport: :math:`\beta`.
    """

    linear = True
    stackable = True

    def __init__(self, channels: int, *, hops: int = 10, teleport: float = 0.1) -> None:
        super().__init__(channels)
        if not 0.0 <= teleport <= 1.0:
            raise BadInput(f"teleport must be from 0 to 1; got {teleport}")
        self.hops = check_count("hops", hops)
        self.propagations = _GCN * hops
        self.teleport = teleport

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Propagate over all hops."""
        own = reached = x
        for hop in hops:
            own = hop.own_rows(own)
            reached = (1.0 - self.teleport) * (hop @ reached) + self.teleport * own
        return reached


class MixHop(NodeAggregation):
    r"""A sum of linear maps of several powers of the adjacency (MixHop).

    .. math:: \mathbf{Z} = \sum_{p} \hat{\mathbf{A}}^{p}\mathbf{X}\mathbf{M}_p^{\top}

    This is a projection of the concatenated powers. It starts as their mean.

    Args:
        powers: The powers; 0 is the node itself, and the highest is at least 1.
    """

    stackable = True

    def __init__(self, channels: int, *, powers: Sequence[int] = (0, 1, 2)) -> None:
        super().__init__(channels)
        self.powers = tuple(sorted(set(powers)))
        if not self.powers or self.powers[0] < 0 or self.powers[-1] < 1:
            raise BadInput(
                f"powers must be whole numbers from 0, one of them at least 1; got {list(powers)}"
            )
        self.propagations = _GCN * self.powers[-1]
        self.maps = nn.Parameter(torch.empty(len(self.powers), channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the maps to equal fractions of the identity."""
        with torch.no_grad():
            self.maps.copy_(torch.eye(self.channels) / len(self.powers))

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Sum the mapped powers."""
        maps = dict(zip(self.powers, self.maps.mT.unbind(-3), strict=True))
        reached = x
        total = x @ maps[0] if 0 in maps else None
        for power, hop in enumerate(hops, start=1):
            reached = hop @ reached
            total = None if total is None else hop.own_rows(total)
            if power in maps:
                mapped = reached @ maps[power]
                total = mapped if total is None else total + mapped
        assert total is not None
        return total


class Chebyshev(NodeAggregation):
    r"""A learned polynomial of the graph's Laplacian (ChebNet).

    .. math:: \mathbf{Z} = \sum_{t=0}^{T} T_t(\tilde{\mathbf{L}})\mathbf{X}
        \mathbf{\Theta}_t^{\top}, \qquad
        \tilde{\mathbf{L}} = -\mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}, \qquad
        T_t = 2\tilde{\mathbf{L}}T_{t-1} - T_{t-2},\ T_1 = \tilde{\mathbf{L}},\ T_0 = \mathbf{I}

    The largest eigenvalue is assumed to be 2, its upper bound. The filter starts as
    :math:`\frac{1}{2}(\mathbf{I} - \tilde{\mathbf{L}})`: half a node's own vector and half
    its neighbours'.

    Args:
        hops: :math:`T`, at least 1.
    """

    stackable = True

    def __init__(self, channels: int, *, hops: int = 2) -> None:
        super().__init__(channels)
        self.hops = check_count("hops", hops)
        self.propagations = _SYMMETRIC * hops
        self.maps = nn.Parameter(torch.empty(hops + 1, channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the first two maps to half the identity and its negative, the others to zero."""
        half = 0.5 * torch.eye(self.channels)
        with torch.no_grad():
            self.maps.zero_()
            self.maps[0], self.maps[1] = half, -half

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Sum the mapped polynomials."""
        first, *others = self.maps.mT.unbind(-3)
        total = x @ first
        before = last = x
        for degree, (hop, mapped) in enumerate(zip(hops, others, strict=True), start=1):
            following = -(hop @ last)
            if degree > 1:
                following = 2.0 * following - hop.own_rows(before)
            before, last = hop.own_rows(last), following
            total = hop.own_rows(total) + last @ mapped
        return total


class RandomPropagation(NodeAggregation):
    r"""The mean of several hops, with random node drop in training (GRAND).

    .. math:: \bar{\mathbf{X}} = \frac{1}{P+1}\sum_{p=0}^{P}
        \hat{\mathbf{A}}^{p}\,\mathrm{diag}(\boldsymbol{\epsilon})\,\mathbf{X}, \qquad
        \epsilon_i \sim \mathrm{Bernoulli}(1-\delta)\,/\,(1-\delta)

    In training, a dropped node sends nothing. In evaluation no node is dropped.

    Args:
        hops: :math:`P`, at least 1.
        node_drop: :math:`\delta`, the probability of dropping a node.
    """

    name = "random-propagation"
    linear = True
    stackable = True

    def __init__(self, channels: int, *, hops: int = 8, node_drop: float = 0.5) -> None:
        super().__init__(channels)
        self.hops = check_count("hops", hops)
        self.propagations = _GCN * hops
        self.node_drop = node_drop
        self.node_dropout = FeatureDropout(node_drop)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average over all hops, zero included."""
        if self.training and self.node_dropout.p > 0:
            nodes = torch.ones_like(x[..., :1]).contiguous()
            x = x * self.node_dropout(nodes, site=_NODE_SITE)
        total = reached = x
        for hop in hops:
            reached = hop @ reached
            total = hop.own_rows(total) + reached
        return total / (len(hops) + 1)
