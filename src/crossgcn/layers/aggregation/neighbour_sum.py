"""Weighted sums and means over a node and its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from crossgcn.graph import SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation


class NeighbourSum(NodeAggregation):
    r"""The sum over a node and its neighbours, :math:`\sum_j w_{ij}\mathbf{x}_j`.

    Edges have their own weights, and a node counts itself with weight 1 unless it has a
    self-loop. An isolated node keeps its own vector.

    Args:
        channels: Width of the vectors.
    """

    linear = True
    stackable = True

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Sum."""
        return hops[0] @ x


class GCNSum(NeighbourSum):
    r"""GCN's sum :math:`\hat{\mathbf{A}}\mathbf{X}`, weighed by the degrees of both ends.

    Args:
        channels: Width of the vectors.
    """

    propagations = ("gcn",)


class NeighbourMean(NodeAggregation):
    r"""The mean over a node and its neighbours, as heavy as their edges.

    .. math:: \mathbf{z}_i = \sum_j w_{ij}\mathbf{x}_j \Big/ \sum_j |w_{ij}|

    An isolated node keeps its own vector.

    Args:
        channels: Width of the vectors.
    """

    linear = True
    stackable = True

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average; a row without any edge is zero."""
        (hop,) = hops
        weights = sum_of_weights(hop.with_values(hop.values.abs()), x)
        return (hop @ x) / weights.masked_fill(weights == 0, 1.0)


def sum_of_weights(hop: SparseMatrix, x: Tensor) -> Tensor:
    """The weights of each row, added up: ``[..., rows, 1]``.

    Args:
        hop: The edges.
        x: What is sent along them, for its dimensions and precision.
    """
    return hop @ x.new_ones((*x.shape[:-1], 1))
