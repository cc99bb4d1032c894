"""Crosses between the neighbours of a node, all pairs in linear time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.graph import ModelBatchMatrix, SparseMatrix
from crossgcn.layers.aggregation.neighbour_sum import sum_of_weights
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class NeighbourPairs(NodeAggregation):
    r"""The mean product of two different neighbours' vectors, element by element.

    .. math:: \mathbf{z}_i = \frac{1}{s_i}\,
        \frac{\sum_{j<k} w_j w_k\, \mathbf{x}_j \odot \mathbf{x}_k}
        {\sum_{j<k} |w_j w_k|}, \qquad
        \sum_{j<k} \mathbf{m}_j \odot \mathbf{m}_k = \tfrac{1}{2}\Bigl[
        \bigl(\textstyle\sum_j \mathbf{m}_j\bigr)^2 - \textstyle\sum_j \mathbf{m}_j^2\Bigr]

    with GCN's weights :math:`w` and :math:`\mathbf{m}_j = w_j\mathbf{x}_j`. The square of
    the sum holds all pairs, so two sparse products are enough. A mean does not grow with
    the number of pairs: a node of thousands of neighbours is as large as one of two.

    Products of small numbers are smaller still, and several layers of them vanish. So a
    node's products are divided by :math:`s_i`, the root of the mean square of all numbers
    that reach it: vectors twice as large give a result twice as large, as with a sum.
    Where there is no pair, as at an isolated node, the result is zero.

    Args:
        channels: Width of the vectors.
        own: Whether the node itself is one of its neighbours.
    """

    propagations = ("gcn",)
    stackable = True

    def __init__(self, channels: int, *, own: bool = True) -> None:
        super().__init__(channels)
        self.own = own

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Multiply all pairs and average."""
        hop = hops[0] if self.own else _without_own(hops[0])
        # A leaf of a heavy node has a pair whose weight is lost in a half's few digits.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self._mean_of_pairs(wide, hop).to(x.dtype)

    def _mean_of_pairs(self, x: Tensor, hop: SparseMatrix) -> Tensor:
        limits = torch.finfo(x.dtype)
        squared = hop.with_values(hop.values.square())
        unsigned = hop.with_values(hop.values.abs())
        weights = sum_of_weights(unsigned, x)
        pairs = weights.square() - sum_of_weights(squared, x)
        # What rounding leaves of a difference of equals is no pair.
        none = pairs <= 16 * limits.eps * weights.square()
        products = (hop @ x).square() - squared @ x.square()
        mean = products / pairs.masked_fill(none, 1.0)
        # Over the channels it was made for: a layer may be padded with empty ones.
        squares = unsigned @ x.square().sum(dim=-1, keepdim=True) / self.channels
        size = (squares / weights.masked_fill(none, 1.0) + limits.tiny).sqrt()
        return (mean / size).masked_fill(none, 0.0)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return f"{self.channels}, own={self.own}"


class GCNAndPairs(NeighbourPairs):
    r"""GCN's sum and, as far as they pay, the crosses between neighbours.

    .. math:: \mathbf{z}_i = \sum_j w_j\mathbf{x}_j + \gamma\,\mathbf{z}_i^{\mathrm{pairs}}

    The gate :math:`\gamma` is trained from 0 and not decayed: training starts as with
    GCN's sum alone.

    Args:
        channels: Width of the vectors.
        own: Whether the node itself is part of pairs; it is always part of the sum.
    """

    def __init__(self, channels: int, *, own: bool = True) -> None:
        super().__init__(channels, own=own)
        self.gate = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        """Close the gate."""
        nn.init.zeros_(self.gate)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Sum, and add what comes through the gate."""
        return hops[0] @ x + self.gate[..., None, None] * super().forward(x, hops)


def _without_own(hop: SparseMatrix) -> SparseMatrix:
    """The same edges, those from a node to itself with no weight."""
    rows, columns = hop.shape
    device = hop.columns.device
    own = torch.arange(rows, device=device) if hop.own is None else hop.own
    if isinstance(hop, ModelBatchMatrix):
        starts = columns * torch.arange(hop.models, device=device).unsqueeze(-1)
        own = (own + starts).flatten()
    return hop.with_values(hop.values.masked_fill(hop.columns == own[hop.rows], 0.0))
