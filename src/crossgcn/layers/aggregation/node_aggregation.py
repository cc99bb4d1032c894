"""The base class of aggregations."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers.catalogue import describe_options
from crossgcn.layers.feature_transform import reset_parameters


class NodeAggregation(nn.Module):
    """Aggregate the vectors of a node's neighbours, over one hop or several.

    Any aggregation works with any feature transform. Subclasses implement :meth:`forward`; to
    have a name, they need a line in :data:`~crossgcn.layers.catalogue.AGGREGATIONS`.

    Attributes:
        name: Its name in that table.
        channels: Width of the vectors, in and out.
        propagations: The kind of edges of each hop, see :data:`~crossgcn.graph.EDGE_RULES`.
        linear: Whether it commutes with a linear map of the vectors. Sparse features are then
            projected before they are aggregated.
        is_sum: Whether it is the product with the matrix of one hop; ``explain`` reads these.
        stackable: Whether it also takes ``[models, nodes, channels]`` with stacked edges.
        capturable: Whether a CUDA graph can record it: it never waits for a number from the GPU.
        vectors_per_edge: Estimate of how many vectors per edge it keeps for backward.
        weighs_messages: Whether edge weights multiply messages that are not summed. Sampled
            neighbours then keep their weights instead of standing for all neighbours.
    """

    name: str = ""
    propagations: tuple[EdgeKind, ...] = ("self-loops",)
    linear: bool = False
    is_sum: bool = False
    stackable: bool = False
    capturable: bool = True
    vectors_per_edge: int = 0
    weighs_messages: bool = False

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.name = self.name or type(self).__name__

    def reset_parameters(self) -> None:
        """Draw all parameters; by default, set own ones to 0 and draw those of submodules."""
        reset_parameters(self)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate vectors ``[nodes, channels]`` into a row per target of the last hop.

        Nodes are the columns of the first hop. ``hop.own_rows(x)`` selects the vectors of a hop's
        targets.
        """
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return ", ".join([str(self.channels), *describe_options(self)])


def weigh_messages(x: Tensor, hop: SparseMatrix) -> Tensor:
    """Return the vector of each edge's source times the edge's weight, ``[edges, channels]``."""
    return x.index_select(0, hop.columns) * hop.values.to(x.dtype).unsqueeze(-1)
