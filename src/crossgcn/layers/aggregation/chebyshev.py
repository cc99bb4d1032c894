"""Chebyshev polynomials of the graph's Laplacian."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class Chebyshev(NodeAggregation):
    r"""A learned filter of the graph's spectrum.

    .. math:: \mathbf{Z} = \sum_{t=0}^{T} T_t(\tilde{\mathbf{L}})\mathbf{X}
        \mathbf{\Theta}_t^{\top}, \qquad
        \tilde{\mathbf{L}} = -\mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}, \qquad
        T_t = 2\tilde{\mathbf{L}}T_{t-1} - T_{t-2},\ T_1 = \tilde{\mathbf{L}},\ T_0 = \mathbf{I}

    The Laplacian's largest eigenvalue is taken for 2, its bound. The filter starts as
    :math:`\frac{1}{2}(\mathbf{I} - \tilde{\mathbf{L}})`, half a node's own vector and half
    its neighbours'; an isolated node has no more than the first half.

    Args:
        channels: Width of the vectors.
        hops: :math:`T`, at least 1.
    """

    stackable = True

    def __init__(self, channels: int, *, hops: int = 2) -> None:
        super().__init__(channels)
        if hops < 1:
            raise BadInput(f"hops must be at least 1; got {hops}")
        one_hop: tuple[EdgeKind] = ("symmetric",)
        self.propagations = one_hop * hops
        self.maps = nn.Parameter(torch.empty(hops + 1, channels, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The first two maps to half the identity and minus that, the others to zero."""
        half = 0.5 * torch.eye(self.channels)
        with torch.no_grad():
            self.maps.zero_()
            self.maps[0], self.maps[1] = half, -half

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Add up the polynomials, each mapped on its own."""
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

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return f"{self.channels}, hops={len(self.propagations)}"
