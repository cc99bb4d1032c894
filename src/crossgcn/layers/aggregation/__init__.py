"""Aggregations of neighbours, which the catalogue names: the base class, and those of PyG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import aggr

from crossgcn.errors import BadInput, unknown_name
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


class PyGAggregation(NodeAggregation):
    r"""A PyG ``Aggregation`` over the messages :math:`w_{ij}\mathbf{x}_j` of each node.

    Edges have their own weights, which multiply messages before they are aggregated, as in
    PyG's layers. A node without a self-loop gets one of weight 1.

    Args:
        module: Aggregates the rows of a matrix by an index, and keeps their width.
    """

    capturable = False
    vectors_per_edge = 4
    weighs_messages = True

    def __init__(self, channels: int, module: Any) -> None:
        super().__init__(channels)
        self.module = module

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; the module decides what a row without edges is."""
        if isinstance(self.module, aggr.MedianAggregation) and torch.compiler.is_exporting():
            raise BadInput(
                "aggr='median' cannot be exported, because PyG's median depends on whether there "
                "are messages: use aggr='mean' or 'softmax'"
            )
        (hop,) = hops
        messages = weigh_messages(x, hop)
        return cast(Tensor, self.module(messages, hop.rows, dim_size=hop.shape[0]))


class LayerMessages(NodeAggregation):
    r"""PyG's reduction of the messages of a graph convolution, if its edges come as a matrix.

    Unlike :class:`PyGAggregation`, it works on the edges that the layer's ``normalize`` and
    ``add_self_loops`` describe. For COO edges the layer calls PyG's ``propagate``, which gives
    the same numbers.

    Args:
        reduce: A name, such as ``"mean"`` or ``"max"``, or the ``Aggregation`` module of the layer,
            which owns its parameters.
        kind: The layer's edges.
    """

    vectors_per_edge = 4
    weighs_messages = True

    def __init__(self, channels: int, *, reduce: Any, kind: EdgeKind = "gcn") -> None:
        super().__init__(channels)
        module = _PLAIN[reduce]() if isinstance(reduce, str) else reduce
        self._module = (module,)  # in a tuple, so that it is no submodule of this one
        self.propagations = (kind,)
        self.linear = self.stackable = type(module) is aggr.MeanAggregation
        self.capturable = self.linear

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; the module decides what a row without edges is."""
        (hop,) = hops
        (module,) = self._module
        if self.linear:
            counts = hop.row_offsets.diff().clamp(min=1).to(x.dtype)
            return (hop @ x) / counts.view(*x.shape[:-2], hop.shape[0], 1)
        return cast(Tensor, module(weigh_messages(x, hop), hop.rows, dim_size=hop.shape[0]))


def make_plain(channels: int, *, reduce: str) -> PyGAggregation:
    """Make an aggregation without settings, such as a median."""
    return PyGAggregation(channels, _PLAIN[reduce]())


def make_softmax(
    channels: int, *, t: float = 1.0, learn: bool = True, per_channel: bool = False
) -> PyGAggregation:
    """Make a softmax-weighted mean with a learned inverse temperature."""
    width = channels if learn and per_channel else 1
    return PyGAggregation(channels, aggr.SoftmaxAggregation(t=t, learn=learn, channels=width))


def make_attentional(channels: int) -> PyGAggregation:
    """Make a mean weighted by a linear score of each neighbour."""
    # Without bias, because a softmax ignores what is added to all its arguments.
    score = nn.Linear(channels, 1, bias=False)
    return PyGAggregation(channels, aggr.AttentionalAggregation(score))


def make_deep_sets(channels: int) -> PyGAggregation:
    """Make a perceptron of the sum of perceptrons."""
    inner = nn.Sequential(nn.Linear(channels, channels), nn.ReLU())
    outer = nn.Linear(channels, channels, bias=False)
    return PyGAggregation(channels, aggr.DeepSetsAggregation(inner, outer))


def make_multi(channels: int, *, parts: Sequence[str] = ("mean", "max", "std")) -> PyGAggregation:
    """Make several aggregations whose results are projected to one vector."""
    for part in parts:
        if part not in _PLAIN:
            raise unknown_name("part of 'multi'", part, _PLAIN)
    module = aggr.MultiAggregation(
        [_PLAIN[part]() for part in parts],
        mode="proj",
        mode_kwargs={"in_channels": channels, "out_channels": channels, "bias": False},
    )
    return PyGAggregation(channels, module)


_PLAIN: Mapping[str, Callable[[], Any]] = {
    "max": aggr.MaxAggregation,
    "min": aggr.MinAggregation,
    "mean": aggr.MeanAggregation,
    "median": aggr.MedianAggregation,
    "mul": aggr.MulAggregation,
    "powermean": aggr.PowerMeanAggregation,
    "softmax": aggr.SoftmaxAggregation,
    "std": aggr.StdAggregation,
    "sum": aggr.SumAggregation,
    "var": aggr.VarAggregation,
    "variance-preserving": aggr.VariancePreservingAggregation,
}
"""PyG's aggregations without arguments.

PyG has others, which change the width, pad every node to the largest degree, or make a node's
result depend on other nodes of its batch. ``lstm`` and ``gru`` are therefore our own.
"""
