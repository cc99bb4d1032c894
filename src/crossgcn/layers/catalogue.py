"""Aggregations, order aggregations and feature transforms by name.

To add one, write its class in a file of its own and add one line to a table here
(``docs/extending.md`` shows each). Commands, error messages, ``explain`` and tests read these
tables. This module does not import torch, because the command line lists the names.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from crossgcn.layers.aggregation import NodeAggregation
    from crossgcn.layers.feature_transform import FeatureTransform
    from crossgcn.layers.orders import OrderAggregator, OrderSum

OrderWeights = str | Sequence[float]
"""A name of :data:`ORDER_AGGREGATIONS`, or one fixed weight per order."""


@dataclass(frozen=True)
class Part:
    """A class, or a function that makes an object, by name.

    Attributes:
        target: ``"module:name"``, imported when first used.
        description: Half a line for people who choose by name.
        settings: Keyword arguments that are always passed, and that users cannot change.
        has_order: For a transform, whether its ``order`` has an effect.
    """

    target: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    has_order: bool = True

    def load(self) -> Any:
        """Import the class or function."""
        return import_target(self.target)

    def options(self) -> dict[str, Any] | None:
        """Return users' keyword arguments and defaults; ``None`` if it takes any."""
        parameters = inspect.signature(self.load()).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return None
        return {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in self.settings
        }


def describe_options(module: object) -> list[str]:
    """Return ``name=value`` for the keyword options that a module keeps as attributes."""
    parameters = inspect.signature(type(module)).parameters.values()
    kept = vars(module)
    return [
        f"{parameter.name}={kept[parameter.name]!r}"
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in kept
    ]


def import_target(target: str) -> Any:
    """Import what ``"module:name"`` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


_ONE_HOP = "crossgcn.layers.aggregation.one_hop"
_PYG = "crossgcn.layers.aggregation"
_HOPS = "crossgcn.layers.aggregation.several_hops"

AGGREGATIONS: dict[str, Part] = {
    "gcn": Part(f"{_ONE_HOP}:GCNSum", "sum over normalised edges (GCN)"),
    "sum": Part(f"{_ONE_HOP}:GCNSum", "the same, by PyG's name"),
    **{
        name: Part(f"{_PYG}:LayerMessages", description, {"reduce": name})
        for name, description in {
            "mean": "mean of the messages, as in PyG",
            "max": "maximum of the messages",
            "min": "minimum of the messages",
            "mul": "product of the messages",
            "median": "median of the messages",
            "std": "their standard deviation",
            "var": "their variance",
            "softmax": "their softmax-weighted mean",
            "powermean": "their power mean",
            "variance-preserving": "their sum over the root of their number",
        }.items()
    },
    "raw-sum": Part(f"{_ONE_HOP}:NeighbourSum", "sum over a node and its neighbours"),
    "raw-mean": Part(f"{_ONE_HOP}:NeighbourMean", "mean over a node and its neighbours"),
    **{
        f"raw-{name}": Part(
            f"{_PYG}:make_plain", f"{what} over a node and its neighbours", {"reduce": name}
        )
        for name, what in (
            *(("max", "maximum"), ("min", "minimum")),
            *(("mul", "product"), ("median", "median")),
        )
    },
    "raw-softmax": Part(
        f"{_PYG}:make_softmax", "softmax-weighted mean of them, learned temperature"
    ),
    "attentional": Part(f"{_PYG}:make_attentional", "mean weighted by a score of each neighbour"),
    "deep-sets": Part(f"{_PYG}:make_deep_sets", "perceptron of the sum of perceptrons"),
    "multi": Part(f"{_PYG}:make_multi", "mean, maximum and standard deviation, projected"),
    "lstm": Part(f"{_ONE_HOP}:RecurrentAggregation", "LSTM over neighbours", {"cell": "lstm"}),
    "gru": Part(f"{_ONE_HOP}:RecurrentAggregation", "GRU over neighbours", {"cell": "gru"}),
    "gat": Part(f"{_ONE_HOP}:GraphAttention", "attention to neighbours (GAT)"),
    "gatv2": Part(f"{_ONE_HOP}:GraphAttentionV2", "dynamic attention to neighbours (GATv2)"),
    "sage": Part(
        f"{_ONE_HOP}:make_sage", "own vector and mean of neighbours, mapped apart (GraphSAGE)"
    ),
    "sage-max": Part(f"{_ONE_HOP}:make_sage", "the same with the maximum", {"join": "max"}),
    "sage-lstm": Part(f"{_ONE_HOP}:make_sage", "the same with an LSTM", {"join": "lstm"}),
    "appnp": Part(f"{_HOPS}:PersonalisedPageRank", "personalised PageRank, ten steps (APPNP)"),
    "mixhop": Part(f"{_HOPS}:MixHop", "zero to two hops, each with its own map (MixHop)"),
    "cheb": Part(f"{_HOPS}:Chebyshev", "Chebyshev polynomials of the Laplacian (ChebNet)"),
    "pairs": Part(f"{_ONE_HOP}:NeighbourPairs", "mean product of all pairs of neighbours"),
    "gcn-pairs": Part(f"{_ONE_HOP}:GCNAndPairs", "GCN's sum and gated products of neighbours"),
    "random-propagation": Part(f"{_HOPS}:RandomPropagation", "mean of hops with node drop (GRAND)"),
}
"""How neighbours are joined.

``gcn`` to ``variance-preserving`` mean what they mean in PyG's ``GCNConv``: they work on the edges
that the layer's ``normalize`` and ``add_self_loops`` describe. All others weight edges in their own
way.
"""

_ORDERS = "crossgcn.layers.orders"

ORDER_AGGREGATIONS: dict[str, Part] = {
    "fixed": Part(f"{_ORDERS}:FixedSum", "sum of the orders"),
    "learned": Part(f"{_ORDERS}:LearnedSum", "trained weights from 1, with weight decay"),
    "gated": Part(f"{_ORDERS}:GatedSum", "trained weights from 0, without weight decay"),
    "mean": Part(f"{_ORDERS}:MeanOfOrders", "mean of the orders"),
    "per-unit": Part(f"{_ORDERS}:WeightsPerUnit", "gated weights for each output unit"),
    "attention": Part(f"{_ORDERS}:AttentionOverOrders", "attention of each row to its orders"),
    "concat": Part(f"{_ORDERS}:ConcatenatedOrders", "linear map of the concatenated orders"),
    "lstm": Part(f"{_ORDERS}:LSTMOverOrders", "LSTM over the orders"),
}
"""How the orders of a cross-feature transform become one vector (``order_weights``)."""

_CROSS = "crossgcn.layers.cross_feature_transform"
_OTHERS = "crossgcn.layers.other_crossings"

TRANSFORMS: dict[str, Part] = {
    "cross": Part(f"{_CROSS}:CrossFeatureTransform", "the paper's cross-feature transform"),
    "linear": Part(f"{_CROSS}:make_linear", "linear map", has_order=False),
    "mlp": Part(f"{_CROSS}:MLPTransform", "perceptron with one hidden layer", has_order=False),
    "dcn": Part(f"{_OTHERS}.dcn:CrossNetwork", "cross network (DCN)"),
    "dcn-v2": Part(f"{_OTHERS}.dcn:CrossNetworkV2", "cross network of matrices (DCN-v2)"),
    "cin": Part(f"{_OTHERS}.cin:CompressedInteractionNetwork", "xDeepFM's interaction network"),
    "hofm": Part(f"{_OTHERS}.entries:HigherOrderFM", "higher-order factorisation machine"),
}
"""What transforms the features of a node (``transform``)."""

ONLY_OF_CROSS: Mapping[str, str] = {
    "order_weights": "gated",
    "first_order": "paper",
    "scaling": "none",
}
"""Layer options that only ``transform="cross"`` has, with their defaults."""


def find_part(kind: str, name: str, table: Mapping[str, Part]) -> Part:
    """Return a table's entry, or raise :class:`BadInput` with the names that are close."""
    if name not in table:
        raise unknown_name(kind, str(name), table)
    return table[name]


def make_aggregation(name: str, channels: int, **settings: Any) -> NodeAggregation:
    """Build the aggregation of that name for vectors of a width."""
    part = find_part("aggregation", name, AGGREGATIONS)
    _check_options(f"aggregation {name!r}", part, settings)
    aggregation: NodeAggregation = part.load()(channels, **settings, **part.settings)
    aggregation.name = name
    return aggregation


@cache
def linear_aggregations() -> tuple[str, ...]:
    """Return the names of aggregations that commute with a linear map."""
    import torch

    with torch.random.fork_rng(devices=[]):
        return tuple(name for name in AGGREGATIONS if make_aggregation(name, 1).linear)


def make_order_aggregation(
    spec: OrderWeights, order: int, channels: int
) -> OrderSum | OrderAggregator:
    """Build the order aggregation that ``order_weights`` of a layer names.

    A single order needs no aggregation, unless its class says that it changes a single order.
    """
    from crossgcn.layers.orders import FixedSum, GivenSum, OrderSum

    if not isinstance(spec, str):
        return GivenSum(spec, order)
    known = {**ORDER_AGGREGATIONS, f"a list of {order} numbers": None}
    if spec not in ORDER_AGGREGATIONS:
        raise unknown_name("order_weights", spec, known)
    part = ORDER_AGGREGATIONS[spec].load()
    if issubclass(part, OrderSum):
        summed: OrderSum = part(order)
        return summed
    if order == 1 and not part.changes_a_single_order:
        return FixedSum(order)
    aggregator: OrderAggregator = part(order, channels)
    return aggregator


def make_transform(
    name: str, in_channels: int, out_channels: int, order: int = 2, **settings: Any
) -> FeatureTransform:
    """Build the feature transform of that name, without a bias: a graph convolution has its own.

    ``linear`` and ``mlp`` ignore ``order``; all others of order 1 are ``linear``.
    """
    part = find_part("transform", name, TRANSFORMS)
    _check_options(f"the transform {name!r}", part, settings, hidden=("bias",))
    if order == 1 and part.has_order and name != "cross":
        part, settings = TRANSFORMS["linear"], {}
    make = part.load()
    if "bias" in inspect.signature(make).parameters:
        settings["bias"] = False
    transform: FeatureTransform = make(in_channels, out_channels, order, **settings)
    return transform


def _check_options(
    what: str, part: Part, settings: Mapping[str, Any], hidden: Sequence[str] = ()
) -> None:
    options = part.options()
    if options is None:
        return
    known = [option for option in options if option not in hidden]
    for setting in settings:
        if setting not in known:
            raise BadInput(
                f"{what} has no setting {setting!r}: it has {', '.join(known) or 'none'}"
            )
