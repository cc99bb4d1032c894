"""PyG's ``Aggregation`` modules as ways of joining neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, cast

from torch import Tensor, nn
from torch_geometric.nn import aggr

from crossgcn.errors import unknown_name
from crossgcn.graph import SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation, weigh_messages


class PyGAggregation(NodeAggregation):
    r"""A PyG ``Aggregation`` over the messages :math:`w_{ij}\mathbf{x}_j` of each node.

    A node is among its neighbours, with weight 1 unless it has a self-loop, so an isolated
    node's result is that of its own vector alone: the vector itself for a maximum or a
    median, zero for a variance. Edge weights multiply messages before they are joined,
    whatever joins them, as in PyG's own layers.

    Args:
        channels: Width of the vectors.
        module: Joins the rows of a matrix by an index, and keeps their width.
        linear: Whether it is a weighted sum.
    """

    capturable = False
    vectors_per_edge = 4
    weighs_messages = True

    def __init__(self, channels: int, module: Any, *, linear: bool = False) -> None:
        super().__init__(channels)
        self.module = module
        self.linear = linear

    def reset_parameters(self) -> None:
        """Draw the module's parameters anew."""
        self.module.reset_parameters()

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Join; a row without any edge is what the module makes of an empty set."""
        (hop,) = hops
        messages = weigh_messages(x, hop)
        return cast(Tensor, self.module(messages, hop.rows, dim_size=hop.shape[0]))


def _wrap(build: Callable[..., Any], *, linear: bool = False) -> Callable[..., NodeAggregation]:
    @wraps(build)
    def make(channels: int, **settings: Any) -> NodeAggregation:
        return PyGAggregation(channels, build(channels, **settings), linear=linear)

    return make


def _build_plain(kind: Callable[[], Any], channels: int) -> Any:
    """One that needs to know nothing; the partial that holds ``kind`` has no settings."""
    return kind()


def _build_softmax(
    channels: int, *, t: float = 1.0, learn: bool = True, per_channel: bool = False
) -> Any:
    width = channels if learn and per_channel else 1
    return aggr.SoftmaxAggregation(t=t, learn=learn, channels=width)


def _build_power_mean(
    channels: int, *, p: float = 1.0, learn: bool = True, per_channel: bool = False
) -> Any:
    width = channels if learn and per_channel else 1
    return aggr.PowerMeanAggregation(p=p, learn=learn, channels=width)


def _build_attentional(channels: int) -> Any:
    # Without bias: a softmax does not see what is added to all its arguments.
    return aggr.AttentionalAggregation(nn.Linear(channels, 1, bias=False))


def _build_deep_sets(channels: int) -> Any:
    inner = nn.Sequential(nn.Linear(channels, channels), nn.ReLU())
    return aggr.DeepSetsAggregation(inner, nn.Linear(channels, channels, bias=False))


def _build_multi(channels: int, *, parts: Sequence[str] = ("mean", "max", "std")) -> Any:
    for part in parts:
        if part not in _PLAIN:
            raise unknown_name("part of 'multi'", part, _PLAIN)
    return aggr.MultiAggregation(
        [_PLAIN[part]() for part in parts],
        mode="proj",
        mode_kwargs={"in_channels": channels, "out_channels": channels, "bias": False},
    )


_PLAIN: Mapping[str, Callable[[], Any]] = {
    "max": aggr.MaxAggregation,
    "min": aggr.MinAggregation,
    "mean": aggr.MeanAggregation,
    "median": aggr.MedianAggregation,
    "mul": aggr.MulAggregation,
    "std": aggr.StdAggregation,
    "sum": aggr.SumAggregation,
    "var": aggr.VarAggregation,
    "variance-preserving": aggr.VariancePreservingAggregation,
}

PYG_AGGREGATIONS: Mapping[str, Callable[..., NodeAggregation]] = {
    **{
        name: _wrap(partial(_build_plain, kind), linear=name == "variance-preserving")
        for name, kind in _PLAIN.items()
        if name not in ("mean", "sum")
    },
    "softmax": _wrap(_build_softmax),
    "powermean": _wrap(_build_power_mean),
    "attentional": _wrap(_build_attentional),
    "deep-sets": _wrap(_build_deep_sets),
    "multi": _wrap(_build_multi),
}
"""Those of PyG's that keep the width and depend on a node's neighbours alone, by name.

``softmax`` and ``powermean`` learn their exponent unless told otherwise. ``powermean`` sees
the positive part of what is sent, up to 100, as PyG's does; ``mul`` multiplies all of a
node's neighbours, which no number holds where they are many. Left out are those that change
the width, that give every node the room of the heaviest one, or whose result for a node depends
on the others of its batch; ``lstm`` and ``gru`` are therefore our own.
"""
