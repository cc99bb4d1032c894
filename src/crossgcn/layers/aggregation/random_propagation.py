"""The mean of several hops, with whole nodes left out while training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
from crossgcn.layers.feature_dropout import SITES_PER_DRAW, FeatureDropout


class RandomPropagation(NodeAggregation):
    r"""Mixed-order propagation with random node drop (GRAND).

    .. math:: \bar{\mathbf{X}} = \frac{1}{P+1}\sum_{p=0}^{P}
        \hat{\mathbf{A}}^{p}\,\mathrm{diag}(\boldsymbol{\epsilon})\,\mathbf{X}, \qquad
        \epsilon_i \sim \mathrm{Bernoulli}(1-\delta)\,/\,(1-\delta)

    While training, a node drawn out sends nothing, so its prediction must come from its
    neighbours. Nothing is left out when scoring.

    Args:
        channels: Width of the vectors.
        hops: :math:`P`, at least 1.
        node_drop: :math:`\delta`, the probability of leaving a node out.
    """

    name = "random-propagation"
    linear = True
    stackable = True

    def __init__(self, channels: int, *, hops: int = 8, node_drop: float = 0.5) -> None:
        super().__init__(channels)
        if hops < 1:
            raise BadInput(f"hops must be at least 1; got {hops}")
        one_hop: tuple[EdgeKind] = ("gcn",)
        self.propagations = one_hop * hops
        self.node_dropout = FeatureDropout(node_drop)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average what comes from zero to all hops away."""
        if self.training and self.node_dropout.p > 0:
            nodes = torch.ones_like(x[..., :1]).contiguous()
            x = x * self.node_dropout(nodes, site=_SITE)
        total = reached = x
        for hop in hops:
            reached = hop @ reached
            total = hop.own_rows(total) + reached
        return total / (len(hops) + 1)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return f"{self.channels}, hops={len(self.propagations)}, node_drop={self.node_dropout.p}"


_SITE = SITES_PER_DRAW - 1
"""Which of a model's draws decides on nodes; layers count theirs from 0."""
