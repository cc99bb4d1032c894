"""What every way of joining neighbours has in common."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from crossgcn.graph import EdgeKind, SparseMatrix


class NodeAggregation(nn.Module):
    """Joins what the nodes around a node send, over one hop or several.

    It sees vectors and edges, never what the vectors mean, so any of these goes with any
    feature transformation.

    Args:
        channels: Width of the vectors, which it keeps.

    Attributes:
        name: What it is called in :data:`~crossgcn.layers.aggregation.AGGREGATIONS`.
        propagations: The edges it asks for, one kind per hop.
        linear: Whether it commutes with a linear map of the vectors, so that sparse features
            may be projected before they are aggregated.
        stackable: Whether it also joins ``[models, nodes, channels]`` over stacked edges.
        capturable: Whether its steps can be recorded as a CUDA graph: none waits for a
            number that the GPU computes.
        vectors_per_edge: How many vectors it keeps of each edge for its gradient, roughly;
            none where it multiplies with the matrix of the edges.
        weighs_messages: Whether weights multiply single messages, of which no sum is made: where
            some of the neighbours stand for all, these must not weigh more for it.
    """

    name: str = ""
    propagations: tuple[EdgeKind, ...] = ("self-loops",)
    linear: bool = False
    stackable: bool = False
    capturable: bool = True
    vectors_per_edge: int = 0
    weighs_messages: bool = False

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.name = self.name or type(self).__name__

    def reset_parameters(self) -> None:
        """Draw all parameters anew; most have none."""

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate.

        Args:
            x: What each node sends, ``[nodes, channels]``; a row per column of the first hop.
            hops: The edges of each hop, a row per target; ``own_rows`` of one says what its
                targets have themselves.

        Returns:
            A row per target of the last hop.
        """
        raise NotImplementedError

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return str(self.channels)


def weigh_messages(x: Tensor, hop: SparseMatrix) -> Tensor:
    """The vector of each edge's source times the edge's weight, as PyG's layers send it.

    Returns:
        ``[nonzeros, channels]``, in the order of ``hop.rows``.
    """
    return x.index_select(0, hop.columns) * hop.values.to(x.dtype).unsqueeze(-1)
