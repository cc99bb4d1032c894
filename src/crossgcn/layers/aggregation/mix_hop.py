"""Several distances at once, each with a map of its own (MixHop)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class MixHop(NodeAggregation):
    r"""Powers of the adjacency side by side, projected to one vector.

    .. math:: \mathbf{Z} = \sum_{p} \hat{\mathbf{A}}^{p}\mathbf{X}\mathbf{M}_p^{\top}

    Which is the concatenation of all powers, projected to the width of one. It starts as
    their mean. An isolated node's powers are all its own vector.

    Args:
        channels: Width of the vectors.
        powers: Which powers, 0 for the node itself; the highest is at least 1.
    """

    stackable = True

    def __init__(self, channels: int, *, powers: Sequence[int] = (0, 1, 2)) -> None:
        super().__init__(channels)
        self.powers = tuple(sorted(set(powers)))
        if not self.powers or self.powers[0] < 0 or self.powers[-1] < 1:
            raise BadInput(
                f"powers are whole numbers from 0, one of them at least 1; got {list(powers)}"
            )
        one_hop: tuple[EdgeKind] = ("gcn",)
        self.propagations = one_hop * self.powers[-1]
        self.maps = nn.Parameter(torch.empty(len(self.powers), channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All maps to the same part of the identity."""
        with torch.no_grad():
            self.maps.copy_(torch.eye(self.channels) / len(self.powers))

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Add up what comes from each distance."""
        reached, total = x, self._map(0, x)
        for power, hop in enumerate(hops, start=1):
            reached = hop @ reached
            mapped = self._map(power, reached)
            earlier = None if total is None else hop.own_rows(total)
            total = mapped if earlier is None else earlier if mapped is None else earlier + mapped
        assert total is not None
        return total

    def _map(self, power: int, reached: Tensor) -> Tensor | None:
        """What a distance adds; nothing where it is not among the powers."""
        if power not in self.powers:
            return None
        return reached @ self.maps[..., self.powers.index(power), :, :].mT

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return f"{self.channels}, powers={list(self.powers)}"
