"""The crosses a model learned, as the report of a run shows them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClassCrosses", "CrossView", "FieldStrengths", "TermView"]


@dataclass(frozen=True)
class CrossView:
    """Features that count together, beyond what each counts alone.

    Attributes:
        name: As users read it: ``gender=female & age=[20, 25)``.
        members: The features.
        strength: Weight times how often it occurs, with its sign.
        weight: What one occurrence adds to the class's score.
        support: How many nodes have it.
        stability: Share of the splits whose model has it among its strongest, with the same sign.
        accuracy_drop: Accuracy lost without it, as a fraction; negative for a gain.
    """

    name: str
    members: tuple[str, ...]
    strength: float
    weight: float
    support: int
    stability: float | None = None
    accuracy_drop: float | None = None


@dataclass(frozen=True)
class TermView:
    """One feature by itself.

    Attributes:
        name: The feature.
        strength: Weight times how often it occurs, with its sign.
        weight: What one occurrence adds to the class's score.
        support: How many nodes have it.
    """

    name: str
    strength: float
    weight: float
    support: int


@dataclass(frozen=True)
class ClassCrosses:
    """What speaks for and against one class.

    Attributes:
        class_name: Which.
        crosses: The strongest first; empty for a model without crosses.
        terms: Single features, the strongest first.
    """

    class_name: str
    crosses: tuple[CrossView, ...]
    terms: tuple[TermView, ...]


@dataclass(frozen=True)
class FieldStrengths:
    """How strongly each two columns of the table are crossed.

    Attributes:
        fields: Columns of the table.
        values: Sums of the absolute strengths of pairs between two fields; symmetric.
    """

    fields: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
