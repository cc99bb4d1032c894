"""Attention to neighbours: GAT and GATv2."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.kernels.ops import attend
from crossgcn.kernels.plain import softmax_mean
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class GraphAttention(NodeAggregation):
    r"""A mean over a node and its neighbours whose weights depend on both ends (GAT).

    .. math:: \mathbf{z}_i = \sum_j a_{ij}\mathbf{x}_j, \qquad
        a_{ij} \propto w_{ij} \exp\bigl(\mathrm{LeakyReLU}
        (\mathbf{s}^{\top}\mathbf{x}_j + \mathbf{t}^{\top}\mathbf{x}_i)\bigr)

    Each head has an equal share of the channels. An edge of weight 2 counts as two edges. An
    isolated node keeps its own vector.

    Args:
        heads: Must divide ``channels``; by default up to 8 heads of at least 4 channels.
        negative_slope: Of the LeakyReLU.
    """

    vectors_per_edge = 3

    def __init__(
        self, channels: int, *, heads: int | None = None, negative_slope: float = 0.2
    ) -> None:
        super().__init__(channels)
        if heads is None:
            heads = gcd(channels, 8)
            while heads > 1 and channels // heads < 4:
                heads //= 2
        if heads < 1 or channels % heads != 0:
            raise BadInput(
                f"heads={heads} does not divide {channels} channels: give a number that does, "
                "or leave heads out"
            )
        self.heads = heads
        self.negative_slope = negative_slope
        self._make_parameters(heads, channels // heads)
        self.reset_parameters()

    def _make_parameters(self, heads: int, width: int) -> None:
        self.for_source = nn.Parameter(torch.empty(heads, width))
        self.for_target = nn.Parameter(torch.empty(heads, width))

    def reset_parameters(self) -> None:
        """Draw all parameters by Glorot's rule."""
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; a row without edges is zero."""
        (hop,) = hops
        by_head = x.view(-1, self.heads, self.channels // self.heads)
        sent = by_head.index_select(0, hop.columns)
        source = (by_head * self.for_source).sum(dim=-1).index_select(0, hop.columns)
        target = hop.own_rows((by_head * self.for_target).sum(dim=-1))[hop.rows]
        scores = functional.leaky_relu(source + target, self.negative_slope)
        return softmax_mean(scores, hop.values, sent, hop.rows, hop.shape[0])


class GraphAttentionV2(GraphAttention):
    r"""Attention that can rank neighbours differently for each node (GATv2).

    .. math:: a_{ij} \propto w_{ij} \exp\bigl(\mathbf{s}^{\top}\,
        \mathrm{LeakyReLU}(\mathbf{x}_j + \mathbf{x}_i)\bigr)

    Both ends share one feature transform, as GATv2's option ``share_weights``.
    """

    def _make_parameters(self, heads: int, width: int) -> None:
        self.attention = nn.Parameter(torch.empty(heads, width))

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; a row without edges is zero."""
        (hop,) = hops
        own = hop.own_rows(x)
        return attend(hop.pattern, hop.values, x, own, self.attention, self.negative_slope)
