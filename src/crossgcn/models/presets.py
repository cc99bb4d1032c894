"""Whole models by name. Nothing here imports torch: the command line lists these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crossgcn.errors import unknown_name

TRANSFORM_NAMES = ("cross", "linear", "mlp", "dcn", "dcn-v2", "cin", "hofm")
"""What crosses features; see :mod:`crossgcn.layers.transforms`."""

WITHOUT_ORDER = frozenset({"linear", "mlp"})
"""Those of them that multiply nothing."""


@dataclass(frozen=True)
class Preset:
    """A model class with settings.

    Attributes:
        model: Name of the class.
        description: What it is, in half a line.
        settings: Arguments that make it this model; the user may override them.
        options: Which further settings it understands.
        training: Settings of :class:`~crossgcn.RunConfig` that suit it, where the paper's
            protocol is not what it was made for; the user may override these too.
        inputs: What it is given for each node: the data's features, or the
            node's embedding, learned from the graph alone before training.
    """

    model: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: frozenset[str] = frozenset({"bias"})
    inputs: Literal["features", "embedding"] = "features"
    training: Mapping[str, Any] = field(default_factory=dict)


_STACK_OPTIONS = frozenset({"bias", "aggr", "residual"})
_CROSS_OPTIONS = _STACK_OPTIONS | {
    "order",
    "order_weights",
    "first_order",
    "aggregate_first",
    "transform",
    "scaling",
}
_GRAND_OPTIONS = frozenset(
    {
        "bias",
        "aggregate_first",
        "scaling",
        "input_dropout",
        "hops",
        "node_drop",
        "draws",
        "consistency",
        "temperature",
        "warm_up",
    }
)

# NOTE[D3] The released models have no bias, so none of those compared with them has one
# either; only the paper's text adds it. A layer made by hand has one, as in PyG.
_NO_BIAS = {"bias": False}

# In the middle of what validation chose on the three citation graphs (docs/findings.md).
_GRAND_TRAINING = {
    "hidden_channels": 64,
    "dropout": 0.4,
    "epochs": 300,
    "learning_rate": 0.05,
    "weight_decay": 0.001,
}
_GRAND_SETTINGS = {"input_dropout": 0.2, "hops": 8, "node_drop": 0.5}

PRESETS: Mapping[str, Preset] = {
    "gcn": Preset(
        "GCN", "graph convolution without crosses (Kipf and Welling)", _NO_BIAS, _STACK_OPTIONS
    ),
    "gin": Preset(
        "GIN",
        "a perceptron as feature transformation, as the paper compares with",
        _NO_BIAS,
        options=frozenset({"bias", "aggregate_first"}),
    ),
    "mlp": Preset("MLP", "a perceptron that sees no graph", _NO_BIAS),
    "semi-emb": Preset(
        "SemiEmb",
        "a perceptron whose predictions should agree along edges (Laplacian regularisation)",
        {"laplacian_weight": 0.3, **_NO_BIAS},
        options=frozenset({"bias", "laplacian_weight"}),
    ),
    "deep-walk": Preset(
        "MLP",
        "a perceptron on DeepWalk's embeddings of the graph, which sees no features",
        _NO_BIAS,
        inputs="embedding",
    ),
    "cross-gcn": Preset(
        "CrossGCN",
        "ours: crosses grow from nothing where they pay (gated order weights)",
        {"order_weights": "gated", **_NO_BIAS},
        _CROSS_OPTIONS,
    ),
    "cross-gcn-release": Preset(
        "CrossGCN",
        "the authors' code, Cross-GCN: one trained order weight per layer",
        {"order_weights": "learned", "first_order": "release", **_NO_BIAS},
        _CROSS_OPTIONS,
    ),
    "cross-gcn-release-fix": Preset(
        "CrossGCN",
        "the authors' code, Cross-GCN_Fix: all order weights 1",
        {"order_weights": "fixed", "first_order": "release", **_NO_BIAS},
        _CROSS_OPTIONS,
    ),
    "cross-gcn-paper": Preset(
        "CrossGCN",
        "the paper's text: aggregate, then cross, trained order weights",
        {"order_weights": "learned", "aggregate_first": True},
        _CROSS_OPTIONS,
    ),
    "cross-gcn-paper-fix": Preset(
        "CrossGCN",
        "the paper's text with all order weights 1",
        {"order_weights": "fixed", "aggregate_first": True},
        _CROSS_OPTIONS,
    ),
    "cross-grand": Preset(
        "CrossGrand",
        "the recipe: crosses of randomly propagated features, draws made to agree",
        {"order_weights": "gated", **_GRAND_SETTINGS},
        _GRAND_OPTIONS | {"order", "order_weights", "first_order"},
        training=_GRAND_TRAINING,
    ),
    "grand": Preset(
        "CrossGrand",
        "the same recipe without crosses (GRAND)",
        {"order": 1, "order_weights": "fixed", **_GRAND_SETTINGS},
        _GRAND_OPTIONS,
        training=_GRAND_TRAINING,
    ),
}


def get_preset(name: str) -> Preset:
    """The preset of that name, or an error that suggests the nearest."""
    if name not in PRESETS:
        raise unknown_name("model", name, PRESETS)
    return PRESETS[name]


def has_orders(model: str, transform: str | Sequence[str] | None) -> bool:
    """Whether a model's layers have an order, or at least one of them."""
    names = {transform} if isinstance(transform, str) else set(transform or ("cross",))
    return "order" in get_preset(model).options and not names <= WITHOUT_ORDER


def first_layer_crosses(order: int, num_layers: int) -> tuple[int, ...]:
    """Orders of all layers, where the first has crosses and the others do not.

    So every cross is one of a table's own columns, and what a model says about a node is a
    sum over them (see :mod:`crossgcn.explanation`).
    """
    return (order, *[1] * (num_layers - 1))


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
