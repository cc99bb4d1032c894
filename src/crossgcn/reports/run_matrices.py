"""Tables whose cells are shaded by what they hold: classes by classes, fields by fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from crossgcn.reports.run_crosses import FieldStrengths
from crossgcn.reports.run_scores import Confusion
from crossgcn.reports.run_words import number, percent, shorten

__all__ = ["Cell", "Matrix", "confusion_matrix", "field_matrix"]


@dataclass(frozen=True)
class Cell:
    """One square.

    Attributes:
        text: What it says.
        shade: How dark it is, from 0 to 1.
        tone: Which colour: mistakes look unlike what is right.
        title: The whole story, for who points at it.
    """

    text: str
    shade: float
    tone: Literal["plus", "minus"]
    title: str

    @property
    def deep(self) -> bool:
        """Whether dark text would be hard to read on it."""
        return self.shade > 0.55


@dataclass(frozen=True)
class Matrix:
    """A square table with the same names on both sides.

    Attributes:
        names: Shortened.
        rows: Of cells.
        left_out: How many rows and columns are not shown.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left_out: int

    @property
    def upright(self) -> bool:
        """Whether the names over the columns are short and few enough to lie flat."""
        return len(self.names) <= 8 and max(map(len, self.names), default=0) <= 10


def confusion_matrix(confusion: Confusion, most: int) -> Matrix:
    """How often each class was taken for each; shades are shares of the true class.

    Args:
        confusion: The counts.
        most: How many classes to show; those with the most test nodes are kept, in their order.
    """
    support = [sum(row) for row in confusion.counts]
    kept = sorted(_greatest(support, most))
    names = [shorten(name) for name in confusion.classes]

    def make_cell(true: int, predicted: int) -> Cell:
        count = confusion.counts[true][predicted]
        share = count / support[true] if support[true] else 0.0
        return Cell(
            number(count) if count else "",
            round(share, 3),
            "plus" if true == predicted else "minus",
            f"{names[true]} taken for {names[predicted]}: {number(count)} ({percent(share)})",
        )

    return _build(names, kept, make_cell)


def field_matrix(strengths: FieldStrengths, most: int) -> Matrix:
    """How strongly fields are crossed, in hundredths of the strongest; the strongest first.

    Args:
        strengths: Of all fields.
        most: How many to show.
    """
    kept = _greatest([sum(row) for row in strengths.values], most)
    greatest = max((value for row in strengths.values for value in row), default=0.0)
    names = [shorten(name) for name in strengths.fields]

    def make_cell(one: int, other: int) -> Cell:
        value = strengths.values[one][other]
        share = value / greatest if greatest > 0 else 0.0
        text = f"{100 * share:.0f}"
        title = f"{names[one]} & {names[other]}: {value:.4g}"
        return Cell("" if text == "0" else text, round(share, 3), "plus", title)

    return _build(names, kept, make_cell)


def _greatest(values: Sequence[float], most: int) -> list[int]:
    """Where the greatest are, the greatest first; of equals the first."""
    return sorted(range(len(values)), key=lambda i: -values[i])[:most]


def _build(
    names: Sequence[str], kept: Sequence[int], make_cell: Callable[[int, int], Cell]
) -> Matrix:
    return Matrix(
        tuple(names[i] for i in kept),
        tuple(tuple(make_cell(i, j) for j in kept) for i in kept),
        len(names) - len(kept),
    )
