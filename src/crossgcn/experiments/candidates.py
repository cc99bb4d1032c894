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
    """

    description: str
    columns: Columns
    preset: str | None = None
    estimator: Literal["constant", "boosting", "ebm"] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    glass_box: bool = False
    twin: str | None = None

    @property
    def trials(self) -> tuple[Mapping[str, float], ...]:
        """The settings to choose from on the validation nodes, the most promising first."""
        return TRIALS[self.estimator or "network"]


# Attention takes ten times as long per epoch as other layers: fewer units and epochs.
_ATTENTION = {"hidden_channels": 16, "epochs": 100, "patience": 20}

CANDIDATES: Mapping[str, Candidate] = {
    "majority-or-mean": Candidate(
        "always the commonest class, or the mean", "none", estimator="constant", glass_box=True
    ),
    "linear": Candidate(
        "own columns, weighted and added", "own", "mlp", settings={"num_layers": 1}, glass_box=True
    ),
    "cross-hops-1": Candidate(
        "own and neighbours' columns, weighted and added",
        "hops",
        "cross-hops",
        settings={"order": 1},
        glass_box=True,
    ),
    "cross-hops-2": Candidate(
        "own and neighbours' columns and products of two",
        "hops",
        "cross-hops",
        settings={"order": 2},
        glass_box=True,
        twin="cross-hops-1",
    ),
    "cross-hops-3": Candidate(
        "own and neighbours' columns and products of up to three",
        "hops",
        "cross-hops",
        settings={"order": 3},
        glass_box=True,
        twin="cross-hops-1",
    ),
    "ebm": Candidate("explainable boosting, own columns", "own", estimator="ebm", glass_box=True),
    "ebm-hops": Candidate(
        "explainable boosting, own and neighbours' columns",
        "hops",
        estimator="ebm",
        glass_box=True,
    ),
    "gcn": Candidate("graph convolution", "graph", "gcn", glass_box=True),
    "cross-gcn-2": Candidate(
        "graph convolution with products of two columns",
        "graph",
        "cross-gcn",
        settings={"order": 2},
        glass_box=True,
        twin="gcn",
    ),
    "boosting": Candidate("gradient boosting, own columns", "own", estimator="boosting"),
    "boosting-hops": Candidate(
        "gradient boosting, own and neighbours' columns", "hops", estimator="boosting"
    ),
    "perceptron": Candidate("one hidden layer, own columns", "own", "mlp"),
    "perceptron-hops": Candidate(
        "one hidden layer, own and neighbours' columns", "hops", "mlp-hops"
    ),
    "sage": Candidate("GraphSAGE", "graph", "cross-gcn", settings={"order": 1, "aggr": "sage"}),
    "gatv2": Candidate(
        "graph attention",
        "graph",
        "cross-gcn",
        settings={"order": 1, "aggr": "gatv2"},
        training=_ATTENTION,
    ),
}
"""Glass boxes first, each kind from the simplest to the most complex."""

TRIALS: Mapping[str, tuple[Mapping[str, float], ...]] = {
    "constant": ({},) * 4,
    "network": (
        {"dropout": 0.2, "weight_decay": 1e-3},
        {"dropout": 0.5, "weight_decay": 1e-3},
        {"dropout": 0.0, "weight_decay": 1e-2},
        {"dropout": 0.0, "weight_decay": 0.0},
    ),
    "boosting": (
        {"learning_rate": 0.1, "max_leaf_nodes": 7},
        {"learning_rate": 0.05, "max_leaf_nodes": 31},
        {"learning_rate": 0.1, "max_leaf_nodes": 3},
        {"learning_rate": 0.05, "max_leaf_nodes": 15},
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
