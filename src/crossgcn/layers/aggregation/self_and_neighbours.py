"""GraphSAGE's split of a node's own vector and its neighbours'."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class SelfAndNeighbours(NodeAggregation):
    r"""A node's own vector and what its neighbours join to, each mapped on its own.

    .. math:: \mathbf{z}_i = \mathbf{S}\mathbf{x}_i + \mathbf{N}\,
        \mathrm{join}\{\mathbf{x}_j : j \in \mathcal{N}(i) \setminus i\}

    Both maps start as the identity. An isolated node has its own part alone.

    Args:
        join: How neighbours are joined, over one hop; its edges' own weights count.
    """

    propagations = ("neighbours",)

    def __init__(self, join: NodeAggregation) -> None:
        super().__init__(join.channels)
        if join.propagations != ("self-loops",):
            raise BadInput(
                f"{type(join).__name__} weighs edges with the node among its neighbours, which "
                "'sage' keeps apart: use join='mean', 'sum', 'max' or 'lstm'"
            )
        self.join = join
        self.stackable = join.stackable
        self.weighs_messages = join.weighs_messages
        self.own_map = nn.Parameter(torch.empty(self.channels, self.channels))
        self.neighbour_map = nn.Parameter(torch.empty(self.channels, self.channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Both maps to the identity."""
        nn.init.eye_(self.own_map)
        nn.init.eye_(self.neighbour_map)
        self.join.reset_parameters()

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Map both parts and add them."""
        own = hops[0].own_rows(x)
        joined: Tensor = self.join(x, hops)
        return own @ self.own_map.mT + joined @ self.neighbour_map.mT
