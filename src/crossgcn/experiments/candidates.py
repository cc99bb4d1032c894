"""The models that ``compare`` trains on tables. Nothing here imports torch or scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Columns = Literal["none", "own", "hops", "graph"]


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison.

    Attributes:
        description: Half a line.
        columns: What the model reads: nothing, a node's own columns, also those of its
            neighbourhood (:class:`~crossgcn.graph.hops.HopColumns`), or the graph itself.
        preset: A network of :data:`~crossgcn.models.catalogue.PRESETS`.
        estimator: Otherwise, a model of :mod:`~crossgcn.experiments.sklearn_models`.
        settings: Settings that make the network this model.
        training: Further settings, which users may override.
        glass_box: Whether a score is an exact sum of named terms.
        twin: The same model without crosses.
        cost: Seconds of one run on ``facebook100/Amherst41``, from which the time is estimated
            before the model was measured.
        by_name: Left out unless it is named, because it takes too long.
    """

    description: str
    columns: Columns
    preset: str | None = None
    estimator: Literal["constant", "boosting", "ebm"] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    glass_box: bool = False
    twin: str | None = None
    cost: float = 1.0
    by_name: bool = False

    @property
    def trials(self) -> tuple[Mapping[str, float], ...]:
        """The settings to choose from on the validation nodes, the most promising first."""
        return TRIALS[self.estimator or ("hops" if self.columns == "hops" else "network")]


# Attention takes several times as long per epoch as other layers: fewer units, and fewer but
# larger steps, which also score better on the validation nodes of facebook100/Amherst41.
_ATTENTION = {"hidden_channels": 16, "epochs": 100, "patience": 20, "learning_rate": 0.03}
# Our layer maps a node and its neighbours after one shared projection, GraphSAGE before it: twice
# the units hold the two projections of GraphSAGE with 32.
_SAGE = {"hidden_channels": 64}

CONSTANT = "majority-or-mean"

CANDIDATES: Mapping[str, Candidate] = {
    CONSTANT: Candidate(
        "always the commonest class, or the mean",
        "none",
        estimator="constant",
        glass_box=True,
        cost=0.0,
    ),
    "linear": Candidate(
        "own columns, weighted and added",
        "own",
        "mlp",
        settings={"num_layers": 1},
        glass_box=True,
        cost=0.3,
    ),
    "cross-hops-1": Candidate(
        "own and neighbours' columns, weighted and added",
        "hops",
        "cross-hops",
        settings={"order": 1},
        glass_box=True,
        cost=1.5,
    ),
    "cross-hops-2": Candidate(
        "own and neighbours' columns and products of two",
        "hops",
        "cross-hops",
        settings={"order": 2},
        glass_box=True,
        twin="cross-hops-1",
        cost=2.0,
    ),
    "cross-hops-3": Candidate(
        "own and neighbours' columns and products of up to three",
        "hops",
        "cross-hops",
        settings={"order": 3},
        glass_box=True,
        twin="cross-hops-1",
        cost=3.0,
    ),
    "ebm": Candidate(
        "explainable boosting, own columns",
        "own",
        estimator="ebm",
        glass_box=True,
        cost=50.0,
        by_name=True,
    ),
    "ebm-hops": Candidate(
        "explainable boosting, own and neighbours' columns",
        "hops",
        estimator="ebm",
        glass_box=True,
        cost=170.0,
        by_name=True,
    ),
    "gcn": Candidate("graph convolution", "graph", "gcn", glass_box=True, cost=0.8),
    "cross-gcn-2": Candidate(
        "graph convolution with products of two columns",
        "graph",
        "cross-gcn",
        settings={"order": 2},
        glass_box=True,
        twin="gcn",
        cost=1.0,
    ),
    "boosting": Candidate("gradient boosting, own columns", "own", estimator="boosting", cost=1.0),
    "boosting-hops": Candidate(
        "gradient boosting, own and neighbours' columns", "hops", estimator="boosting", cost=5.0
    ),
    "perceptron": Candidate("one hidden layer, own columns", "own", "mlp", cost=0.2),
    "perceptron-hops": Candidate(
        "one hidden layer, own and neighbours' columns", "hops", "mlp-hops", cost=2.0
    ),
    "sage": Candidate(
        "GraphSAGE",
        "graph",
        "cross-gcn",
        settings={"order": 1, "aggr": "sage"},
        training=_SAGE,
        cost=1.5,
    ),
    "gatv2": Candidate(
        "graph attention",
        "graph",
        "cross-gcn",
        settings={"order": 1, "aggr": "gatv2"},
        training=_ATTENTION,
        cost=3.0,
    ),
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
