"""From a name to a way of joining neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crossgcn.errors import unknown_name
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
from crossgcn.layers.aggregation.random_propagation import RandomPropagation

__all__ = ["AGGREGATIONS", "make_aggregation"]

AGGREGATIONS: Mapping[str, Callable[..., NodeAggregation]] = {
    "random-propagation": RandomPropagation,
}


def make_aggregation(name: str, channels: int, **settings: Any) -> NodeAggregation:
    """Build the aggregation of that name.

    Args:
        name: One of :data:`AGGREGATIONS`.
        channels: Width of what is aggregated.
        **settings: Its own arguments.
    """
    if name not in AGGREGATIONS:
        raise unknown_name("aggregation", name, AGGREGATIONS)
    return AGGREGATIONS[name](channels, **settings)
