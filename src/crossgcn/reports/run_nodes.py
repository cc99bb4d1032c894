"""Nodes with their predictions, and how each prediction adds up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["NodeView", "Role", "Step"]

Role = Literal["train", "validation", "test", "unlabelled", "other"]


@dataclass(frozen=True)
class Step:
    """One bar of a waterfall.

    Attributes:
        label: The feature or cross.
        contribution: What it adds to the logit.
    """

    label: str
    contribution: float


@dataclass(frozen=True)
class NodeView:
    """One node, what was predicted for it, and why.

    Attributes:
        id: As the user's table has it.
        true_class: Position among the classes; none where nobody knows.
        predicted_class: Position among the classes.
        probability: Of the predicted class.
        role: What the node was used for by the model shown.
        start: The bias: the logit of the predicted class before any feature counts.
        steps: What was added, the strongest first; the page adds the rest as one bar.
        total: The logit.
    """

    id: str
    true_class: int | None
    predicted_class: int
    probability: float
    role: Role
    start: float
    steps: tuple[Step, ...]
    total: float

    @property
    def rest(self) -> float:
        """All that the steps leave out, so that every waterfall ends at its logit."""
        return self.total - self.start - math.fsum(step.contribution for step in self.steps)
