"""Ways of joining neighbours, in words. Nothing here imports torch: the command line lists these.

What they compute is in :mod:`crossgcn.layers.aggregation`.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["AGGREGATION_DESCRIPTIONS", "AGGREGATION_NAMES"]

AGGREGATION_DESCRIPTIONS: Mapping[str, str] = {
    "gcn": "the sum weighed by the degrees of both ends (GCN)",
    "sum": "the sum over a node and its neighbours",
    "mean": "their mean, as heavy as their edges",
    "max": "their largest, channel by channel",
    "min": "their smallest, channel by channel",
    "median": "the one in the middle, channel by channel",
    "mul": "the product of all of them",
    "std": "how far they spread",
    "var": "how far they spread, squared",
    "variance-preserving": "the sum over the root of their number",
    "softmax": "a mean that leans to the large ones, as far as it learns to",
    "powermean": "a power mean of what is positive, of a power that is learned",
    "attentional": "a mean weighed by each neighbour's own score",
    "deep-sets": "a perceptron of the sum of perceptrons",
    "multi": "several of these together, projected",
    "lstm": "an LSTM that reads one neighbour after another",
    "gru": "a GRU that reads one neighbour after another",
    "gat": "attention to neighbours (GAT)",
    "gatv2": "attention to neighbours that each node ranks anew (GATv2)",
    "sage": "a node's own vector and its neighbours' mean, each mapped apart (GraphSAGE)",
    "sage-max": "the same with their largest",
    "sage-lstm": "the same with an LSTM",
    "appnp": "personalised PageRank, ten steps (APPNP)",
    "mixhop": "zero to two hops, each with a map of its own (MixHop)",
    "cheb": "Chebyshev polynomials of the graph's Laplacian (ChebNet)",
    "pairs": "crosses between neighbours, the mean product of all pairs",
    "gcn-pairs": "GCN's sum, and crosses between neighbours as far as they pay",
    "random-propagation": "the mean of several hops, whole nodes dropped in training (GRAND)",
}

AGGREGATION_NAMES: tuple[str, ...] = tuple(AGGREGATION_DESCRIPTIONS)
