"""Ways of joining neighbours, by name; see :func:`make_aggregation`."""

from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
from crossgcn.layers.aggregation.pyg_aggregation import PyGAggregation
from crossgcn.layers.aggregation.random_propagation import RandomPropagation
from crossgcn.layers.aggregation.registry import AGGREGATIONS, linear_aggregations, make_aggregation

__all__ = [
    "AGGREGATIONS",
    "NodeAggregation",
    "PyGAggregation",
    "RandomPropagation",
    "linear_aggregations",
    "make_aggregation",
]
