"""Propagation that keeps returning to where it started (APPNP)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class PersonalisedPageRank(NodeAggregation):
    r"""Steps of personalised PageRank.

    .. math:: \mathbf{Z}^{(t+1)} = (1-\beta)\,\hat{\mathbf{A}}\mathbf{Z}^{(t)}
        + \beta\mathbf{X}, \qquad \mathbf{Z}^{(0)} = \mathbf{X}

    An isolated node keeps its own vector.

    Args:
        channels: Width of the vectors.
        hops: How many steps, at least 1.
        teleport: :math:`\beta`, the part that is a node's own in every step.
    """

    linear = True
    stackable = True

    def __init__(self, channels: int, *, hops: int = 10, teleport: float = 0.1) -> None:
        super().__init__(channels)
        if hops < 1:
            raise BadInput(f"hops must be at least 1; got {hops}")
        if not 0.0 <= teleport <= 1.0:
            raise BadInput(f"teleport is a part, from 0 to 1; got {teleport}")
        one_hop: tuple[EdgeKind] = ("gcn",)
        self.propagations = one_hop * hops
        self.teleport = teleport

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Take all steps."""
        own = reached = x
        for hop in hops:
            own = hop.own_rows(own)
            reached = (1.0 - self.teleport) * (hop @ reached) + self.teleport * own
        return reached

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return f"{self.channels}, hops={len(self.propagations)}, teleport={self.teleport}"
