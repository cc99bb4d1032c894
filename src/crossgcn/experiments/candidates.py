"""The models that ``compare`` trains on tables. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison.

    Attributes:
        preset: ``None`` for the majority class, which learns nothing.
        settings: Model settings; ``order`` is the order of the first layer, the other layers
            do not cross.
        matched: Choose the width such that the model has as many parameters as
            :data:`MATCHED`.
        products: How the model responds to combined features: not at all, by multiplying
            them (``"crosses"``), or by a perceptron that may learn to.
    """

    description: str
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    matched: bool = False
    products: Literal["none", "crosses", "perceptron"] = "none"


CANDIDATES: Mapping[str, Candidate] = {
    "majority": Candidate("always the commonest class"),
    "logistic-regression": Candidate(
        "each node's own features, weighed and added", "mlp", {"num_layers": 1}
    ),
    "mlp": Candidate(
        "a perceptron on each node's own features, as large as cross-gcn-2",
        "mlp",
        {"num_layers": 2},
        matched=True,
        products="perceptron",
    ),
    "cross-gcn-1": Candidate(
        "ours with its crosses taken out (K = 1), a GCN", "cross-gcn", {"order": 1}
    ),
    "gcn": Candidate("a GCN as large as cross-gcn-2", "gcn", matched=True),
    "cross-gcn-2": Candidate(
        "ours, with products of two features (K = 2)",
        "cross-gcn",
        {"order": 2},
        products="crosses",
    ),
    "cross-gcn-3": Candidate(
        "ours, with products of up to three (K = 3)",
        "cross-gcn",
        {"order": 3},
        products="crosses",
    ),
    "gin": Candidate(
        "a perceptron where ours has crosses, as large as cross-gcn-2",
        "gin",
        {"aggregate_first": False},
        matched=True,
        products="perceptron",
    ),
}
"""Ordered from the easiest to interpret to the hardest."""

MATCHED = "cross-gcn-2"

TRIALS: tuple[Mapping[str, float], ...] = (
    {"dropout": 0.2, "weight_decay": 5e-4},
    {"dropout": 0.5, "weight_decay": 5e-4},
    {"dropout": 0.2, "weight_decay": 5e-3},
    {"dropout": 0.5, "weight_decay": 5e-3},
)
"""The settings tried for every model; validation accuracy chooses one per split."""

DEFAULT_TRIALS = 2
"""How many of :data:`TRIALS` are tried by default."""
