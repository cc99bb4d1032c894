"""The models that are compared on a user's tables, and the trials that tune each of them.

Nothing here imports torch: the command line lists these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison.

    Attributes:
        description: What it is, in half a line.
        preset: The model; none for the majority class, which learns nothing.
        settings: Of the model; ``order`` is that of its first layer, the others do not cross.
        matched: Whether its width is chosen so that it has as many parameters as
            :data:`MATCHED`.
        products: Whether it can answer to features in combination: ``"none"``, ``"crosses"``,
            which multiplies them, or ``"perceptron"``, which may learn to.
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
"""From the simplest to read to the hardest: what a perceptron has learned has no name."""

MATCHED = "cross-gcn-2"

TRIALS: tuple[Mapping[str, float], ...] = (
    {"dropout": 0.2, "weight_decay": 5e-4},
    {"dropout": 0.5, "weight_decay": 5e-4},
    {"dropout": 0.2, "weight_decay": 5e-3},
    {"dropout": 0.5, "weight_decay": 5e-3},
)
"""What every model is tuned over, the best by validation accuracy in each split."""

DEFAULT_TRIALS = 2
"""How many of them, the first, unless told otherwise."""
