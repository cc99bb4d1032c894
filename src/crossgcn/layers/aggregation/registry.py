"""From a name to a way of joining neighbours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch

from crossgcn.errors import BadInput, unknown_name
from crossgcn.layers.aggregation.attention import GraphAttention, GraphAttentionV2
from crossgcn.layers.aggregation.chebyshev import Chebyshev
from crossgcn.layers.aggregation.mix_hop import MixHop
from crossgcn.layers.aggregation.neighbour_pairs import GCNAndPairs, NeighbourPairs
from crossgcn.layers.aggregation.neighbour_sum import GCNSum, NeighbourMean, NeighbourSum
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
from crossgcn.layers.aggregation.personalised_pagerank import PersonalisedPageRank
from crossgcn.layers.aggregation.pyg_aggregation import PYG_AGGREGATIONS
from crossgcn.layers.aggregation.random_propagation import RandomPropagation
from crossgcn.layers.aggregation.recurrent import GRUOverNeighbours, LSTMOverNeighbours
from crossgcn.layers.aggregation.self_and_neighbours import SelfAndNeighbours


def make_aggregation(name: str, channels: int, **settings: Any) -> NodeAggregation:
    """Build the aggregation of that name.

    Args:
        name: One of :data:`AGGREGATIONS`.
        channels: Width of what is aggregated.
        **settings: Its own arguments.
    """
    if name not in AGGREGATIONS:
        raise unknown_name("aggregation", name, AGGREGATIONS)
    build = AGGREGATIONS[name]
    known = _settings_of(build)
    for setting in settings:
        if known is not None and setting not in known:
            raise BadInput(
                f"aggregation {name!r} has no setting {setting!r}: it has "
                f"{', '.join(known) or 'none'}"
            )
    made = build(channels, **settings)
    made.name = name
    return made


@cache
def linear_aggregations() -> tuple[str, ...]:
    """Names of those that commute with a projection, which may then come first."""
    with torch.random.fork_rng(devices=[]):
        return tuple(name for name in AGGREGATIONS if make_aggregation(name, 1).linear)


def _settings_of(build: Callable[..., NodeAggregation]) -> list[str] | None:
    """Names of its arguments; ``None`` where it hands further ones on."""
    fixed = build.keywords if isinstance(build, partial) else {}
    parameters = inspect.signature(build).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in fixed
    ]


def _make_split(channels: int, *, join: str = "mean", **settings: Any) -> NodeAggregation:
    """GraphSAGE's, with its neighbours joined by another aggregation and that one's settings."""
    return SelfAndNeighbours(make_aggregation(join, channels, **settings))


AGGREGATIONS: Mapping[str, Callable[..., NodeAggregation]] = {
    "gcn": GCNSum,
    "sum": NeighbourSum,
    "mean": NeighbourMean,
    **PYG_AGGREGATIONS,
    "lstm": LSTMOverNeighbours,
    "gru": GRUOverNeighbours,
    "gat": GraphAttention,
    "gatv2": GraphAttentionV2,
    "sage": _make_split,
    "sage-max": partial(_make_split, join="max"),
    "sage-lstm": partial(_make_split, join="lstm"),
    "appnp": PersonalisedPageRank,
    "mixhop": MixHop,
    "cheb": Chebyshev,
    "pairs": NeighbourPairs,
    "gcn-pairs": GCNAndPairs,
    "random-propagation": RandomPropagation,
}
