"""Products of pairs of neighbours, all pairs in linear time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.graph import ModelBatchMatrix, SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
from crossgcn.layers.aggregation.sums import sum_of_weights


class NeighbourPairs(NodeAggregation):
    r"""The mean elementwise product of all pairs of neighbours.

    .. math:: \mathbf{z}_i = \frac{1}{s_i}\,
        \frac{\sum_{j<k} w_j w_k\, \mathbf{x}_j \odot \mathbf{x}_k}
        {\sum_{j<k} |w_j w_k|}, \qquad
        \sum_{j<k} \mathbf{m}_j \odot \mathbf{m}_k = \tfrac{1}{2}\Bigl[
        \bigl(\textstyle\sum_j \mathbf{m}_j\bigr)^2 - \textstyle\sum_j \mathbf{m}_j^2\Bigr]

    with GCN's weights :math:`w` and :math:`\mathbf{m}_j = w_j\mathbf{x}_j`. The square of
    the sum contains all pairs, so two sparse products are enough. A mean does not grow with
    the number of pairs.

    Products of small numbers are smaller still and would vanish over several layers. They are
    therefore divided by :math:`s_i`, the root mean square of all numbers that reach the node:
    the result is homogeneous of degree 1, as a sum is. Without a pair, as at an isolated node,
    the result is zero.

    Args:
        own: Whether the node itself counts as a neighbour.
    """

    propagations = ("gcn",)
    stackable = True

    def __init__(self, channels: int, *, own: bool = True) -> None:
        super().__init__(channels)
        self.own = own

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average the products of all pairs."""
        hop = hops[0] if self.own else _without_own(hops[0])
        # In half precision, the weight of a leaf's pair with a hub would be rounded to zero.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self._mean_of_pairs(wide, hop).to(x.dtype)

    def _mean_of_pairs(self, x: Tensor, hop: SparseMatrix) -> Tensor:
        limits = torch.finfo(x.dtype)
        squared = hop.with_values(hop.values.square())
        unsigned = hop.with_values(hop.values.abs())
        weights = sum_of_weights(unsigned, x)
        pairs = weights.square() - sum_of_weights(squared, x)
        # A difference within rounding error means that there is no pair.
        none = pairs <= 16 * limits.eps * weights.square()
        products = (hop @ x).square() - squared @ x.square()
        mean = products / pairs.masked_fill(none, 1.0)
        # self.channels and not x's width, because layers may be padded with zero channels.
        squares = unsigned @ x.square().sum(dim=-1, keepdim=True) / self.channels
        size = (squares / weights.masked_fill(none, 1.0) + limits.tiny).sqrt()
        return (mean / size).masked_fill(none, 0.0)


class GCNAndPairs(NeighbourPairs):
    r"""GCN's sum plus gated products of pairs of neighbours.

    .. math:: \mathbf{z}_i = \sum_j w_j\mathbf{x}_j + \gamma\,\mathbf{z}_i^{\mathrm{pairs}}

    The gate :math:`\gamma` is trained from 0 without weight decay, so training starts with
    GCN's sum alone.

    Args:
        own: Whether the node itself is in pairs; it is always in the sum.
    """

    def __init__(self, channels: int, *, own: bool = True) -> None:
        super().__init__(channels, own=own)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Add the sum and the gated products."""
        return hops[0] @ x + self.gate[..., None, None] * super().forward(x, hops)


def _without_own(hop: SparseMatrix) -> SparseMatrix:
    """Return the same edges with self-loops of weight 0."""
    rows, columns = hop.shape
    device = hop.columns.device
    own = torch.arange(rows, device=device) if hop.own is None else hop.own
    if isinstance(hop, ModelBatchMatrix):
        starts = columns * torch.arange(hop.models, device=device).unsqueeze(-1)
        own = (own + starts).flatten()
    return hop.with_values(hop.values.masked_fill(hop.columns == own[hop.rows], 0.0))
