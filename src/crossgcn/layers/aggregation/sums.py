"""Sums and means over a node and its neighbours, and GraphSAGE's split of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
from crossgcn.layers.catalogue import AGGREGATIONS, make_aggregation


class NeighbourSum(NodeAggregation):
    r"""The sum over a node and its neighbours, :math:`\sum_j w_{ij}\mathbf{x}_j`.

    Edges have their own weights. A node without a self-loop gets one of weight 1.
    """

    linear = True
    is_sum = True
    stackable = True

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Multiply by the matrix of edges."""
        return hops[0] @ x


class GCNSum(NeighbourSum):
    r"""GCN's sum :math:`\hat{\mathbf{A}}\mathbf{X}` over normalised edges."""

    propagations = ("gcn",)


class NeighbourMean(NodeAggregation):
    r"""The weighted mean over a node and its neighbours.

    .. math:: \mathbf{z}_i = \sum_j w_{ij}\mathbf{x}_j \Big/ \sum_j |w_{ij}|

    A node without a self-loop gets one of weight 1, so an isolated node keeps its own vector.
    """

    linear = True
    stackable = True

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average; a row without edges is zero."""
        (hop,) = hops
        weights = sum_of_weights(hop.with_values(hop.values.abs()), x)
        return (hop @ x) / weights.masked_fill(weights == 0, 1.0)


def sum_of_weights(hop: SparseMatrix, x: Tensor) -> Tensor:
    """Sum the weights of each row, ``[..., rows, 1]``, with the dimensions and dtype of ``x``."""
    return hop @ x.new_ones((*x.shape[:-1], 1))


class SelfAndNeighbours(NodeAggregation):
    r"""A node's own vector and the aggregate of its neighbours, mapped separately (GraphSAGE).

    .. math:: \mathbf{z}_i = \mathbf{S}\mathbf{x}_i + \mathbf{N}\,
        \mathrm{join}\{\mathbf{x}_j : j \in \mathcal{N}(i) \setminus i\}

    Both maps start as the identity. An isolated node has its own part alone.

    Args:
        join: The aggregation of the neighbours, over one hop of edges with their own weights.
    """

    propagations = ("neighbours",)

    def __init__(self, join: NodeAggregation) -> None:
        super().__init__(join.channels)
        if join.propagations != ("self-loops",):
            raise BadInput(
                f"{type(join).__name__} needs normalised edges or several hops, which 'sage' does "
                "not have: use join='mean', 'sum', 'max' or 'lstm'"
            )
        self.join = join
        self.stackable = join.stackable
        self.weighs_messages = join.weighs_messages
        self.own_map = nn.Parameter(torch.empty(self.channels, self.channels))
        self.neighbour_map = nn.Parameter(torch.empty(self.channels, self.channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set both maps to the identity."""
        nn.init.eye_(self.own_map)
        nn.init.eye_(self.neighbour_map)
        self.join.reset_parameters()

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Map both parts and add them."""
        own = hops[0].own_rows(x)
        joined: Tensor = self.join(x, hops)
        return own @ self.own_map.mT + joined @ self.neighbour_map.mT


def make_sage(channels: int, *, join: str = "mean", **settings: Any) -> SelfAndNeighbours:
    """Make GraphSAGE's aggregation; ``join="mean"`` is ``"raw-mean"`` of the neighbours."""
    name = f"raw-{join}" if f"raw-{join}" in AGGREGATIONS else join
    return SelfAndNeighbours(make_aggregation(name, channels, **settings))
