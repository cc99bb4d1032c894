"""The models that ``compare`` trains on tables. Nothing here imports torch or scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from crossgcn.models.catalogue import first_layer_crosses, get_preset, has_orders
from crossgcn.training.config import RunConfig

Columns = Literal["none", "own", "hops", "graph"]

COST_NODES = 2235


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison.

    Attributes:
        columns: What the model reads: nothing, a node's own columns, also those of its
            neighbourhood (:class:`~crossgcn.graph.hops.HopColumns`), or the graph itself.
        preset: A network of :data:`~crossgcn.models.catalogue.PRESETS`.
        estimator: Otherwise, a model of :mod:`~crossgcn.experiments.sklearn_models`.
        settings: Settings that make the network this model.
        glass_box: Whether a score is an exact sum of named terms.
        twin: The same model without crosses.
        cost: Seconds of one run on ``facebook100/Amherst41``, of :data:`COST_NODES` nodes, from
            which the time is estimated before the model was measured.
        by_name: Left out unless it is named, because it takes too long.
    """

    description: str
    columns: Columns
    preset: str | None = None
    estimator: Literal["constant", "boosting", "ebm"] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    glass_box: bool = False
    twin: str | None = None
    cost: float = 1.0
    by_name: bool = False

    @property
    def trials(self) -> tuple[Mapping[str, float], ...]:
        """The settings to choose from on the validation nodes, the most promising first."""
        return TRIALS[self.estimator or ("hops" if self.columns == "hops" else "network")]


def _glass(
    description: str,
    columns: Columns,
    preset: str,
    cost: float,
    twin: str | None = None,
    **settings: Any,
) -> Candidate:
    """Return a network whose scores are sums of named terms."""
    return Candidate(
        description, columns, preset, settings=settings, glass_box=True, twin=twin, cost=cost
    )


CONSTANT, _LINEAR_HOPS = "majority-or-mean", "cross-hops-1"
_OWN, _ALL = "own columns", "own and neighbours' columns"
_SLOW_GLASS: dict[str, Any] = {"estimator": "ebm", "glass_box": True, "by_name": True}

CANDIDATES: Mapping[str, Candidate] = {
    CONSTANT: Candidate(
        "always the commonest class, or the mean", "none", None, "constant", glass_box=True, cost=0
    ),
    "linear": _glass(f"{_OWN}, weighted and added", "own", "mlp", 0.3, num_layers=1),
    _LINEAR_HOPS: _glass(f"{_ALL}, weighted and added", "hops", "cross-hops", 1.5, order=1),
    "cross-hops-2": _glass(
        f"{_ALL} and products of two", "hops", "cross-hops", 2.0, _LINEAR_HOPS, order=2
    ),
    "cross-hops-3": _glass(
        f"{_ALL} and products of up to three", "hops", "cross-hops", 3.0, _LINEAR_HOPS, order=3
    ),
    "ebm": Candidate(f"explainable boosting, {_OWN}", "own", cost=50.0, **_SLOW_GLASS),
    "ebm-hops": Candidate(f"explainable boosting, {_ALL}", "hops", cost=170.0, **_SLOW_GLASS),
    "gcn": _glass("graph convolution", "graph", "gcn", 0.8),
    "cross-gcn-2": _glass(
        "graph convolution with products of two columns", "graph", "cross-gcn", 1.0, "gcn", order=2
    ),
    "boosting": Candidate(f"gradient boosting, {_OWN}", "own", estimator="boosting"),
    "boosting-hops": Candidate(
        f"gradient boosting, {_ALL}", "hops", estimator="boosting", cost=5.0
    ),
    "perceptron": Candidate(f"one hidden layer, {_OWN}", "own", "mlp", cost=0.2),
    "perceptron-hops": Candidate(f"one hidden layer, {_ALL}", "hops", "mlp-hops", cost=2.0),
}
"""Glass boxes first, each kind from the simplest to the most complex."""

TRIALS: Mapping[str, tuple[Mapping[str, float], ...]] = {
    "constant": ({},) * 4,
    "network": (
        {"dropout": 0.0, "weight_decay": 0.0},
        {"dropout": 0.5, "weight_decay": 1e-4},
        {"dropout": 0.2, "weight_decay": 1e-3},
        {"dropout": 0.0, "weight_decay": 1e-2},
    ),
    "hops": (
        {"dropout": 0.1, "weight_decay": 1e-2},  # good for few columns
        {"dropout": 0.5, "weight_decay": 1e-3},  # good for many
        {"dropout": 0.0, "weight_decay": 0.0},
        {"dropout": 0.2, "weight_decay": 1e-3},
    ),
    "boosting": (
        {"learning_rate": 0.1, "max_leaf_nodes": 15},
        {"learning_rate": 0.05, "max_leaf_nodes": 31},
        {"learning_rate": 0.1, "max_leaf_nodes": 7},
        {"learning_rate": 0.1, "max_leaf_nodes": 3},
    ),
    "ebm": (
        {"interactions": 10, "learning_rate": 0.04},
        {"interactions": 0, "learning_rate": 0.04},
        {"interactions": 30, "learning_rate": 0.04},
        {"interactions": 10, "learning_rate": 0.01},
    ),
}
"""The settings tried for every kind of model; the validation nodes choose one per split."""

MOST_TRIALS = len(TRIALS["network"])
DEFAULT_TRIALS = 2
"""How many of the trials are made by default."""


def cross_in_first_layer(config: RunConfig) -> RunConfig:
    """Give ``--order K`` to the first layer only, unless orders were given per layer.

    Crosses are then products of a table's columns, never of hidden units.
    """
    if not has_orders(config.model) or isinstance(config.order, tuple):
        return config
    order = 2 if config.order is None else config.order
    if get_preset(config.model).inputs == "hops":  # it has one layer, and one order
        return config.model_copy(update={"order": order})
    return config.model_copy(update={"order": first_layer_crosses(order, config.num_layers)})
