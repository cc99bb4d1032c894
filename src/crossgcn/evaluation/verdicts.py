"""Ours beside the paper's number: how far apart, and whether that is a disagreement."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from crossgcn.evaluation.item_results import CellResult, ItemResult
from crossgcn.evaluation.items import Item
from crossgcn.evaluation.statistics import PairedDifference, Summary, paired_difference, summarise

__all__ = ["Verdict", "VerdictName", "baseline_of", "judge_cell", "measured", "paired_with"]

VerdictName = Literal[
    "within one sd",
    "outside",
    "not reproducible as described",
    "the same",
    "differs",
    "not judged",
]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What a cell says about the paper's number.

    Attributes:
        name: What it counts as; ``within one sd`` also where a tolerance
            stands in for a deviation that is not printed.
        difference: Ours minus the paper's, in the paper's unit.
        words: The name as shown: ``within 2 points`` where that is the tolerance.
        reasons: Why ours is not the same; empty when it is.
    """

    name: VerdictName
    difference: float
    words: str
    reasons: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The words and the reasons, on one line."""
        return f"{self.words}: {' '.join(self.reasons)}" if self.reasons else self.words


def measured(cell: CellResult) -> Summary | None:
    """Ours in the paper's unit: percent, seconds of an epoch, or the statistic itself."""
    if cell.statistics is not None:
        return Summary(cell.statistics["value"], None, 1)
    if cell.timing is not None:
        seconds = cell.timing.get("mean")
        return None if seconds is None else Summary(float(seconds), cell.timing.get("sd"), 1)
    if cell.test_accuracy:
        return summarise([100 * accuracy for accuracy in cell.test_accuracy])
    return None


def paired_with(cell: CellResult, other: CellResult | None) -> PairedDifference | None:
    """Difference of two cells split by split, in points; none without the same splits."""
    if other is None or not cell.test_accuracy:
        return None
    if len(cell.test_accuracy) != len(other.test_accuracy):
        return None
    return paired_difference(
        [100 * accuracy for accuracy in cell.test_accuracy],
        [100 * accuracy for accuracy in other.test_accuracy],
    )


def baseline_of(cell: CellResult, result: ItemResult) -> CellResult | None:
    """The cell of the row it is compared with, in the same panel and column."""
    if cell.compare_with is None:
        return None
    return result.find(cell.panel, cell.compare_with, cell.column)


def judge_cell(cell: CellResult, item: Item) -> Verdict | None:
    """Compare a cell with the paper's number; none where either is missing.

    Within the paper's standard deviation (or the tolerance that stands in for it)
    is agreement. Beyond it, an item that the paper does not describe well enough
    to be run again is no disagreement but not reproducible; any other is.

    Args:
        cell: What was measured.
        item: The table or figure it belongs to.
    """
    ours = measured(cell)
    if cell.paper is None or ours is None:
        return None
    difference = ours.mean - cell.paper.mean
    allowed = cell.paper.allowed
    own = () if cell.reason is None else (cell.reason,)
    if any(row.made_to_match for row in item.rows if row.label == cell.row):
        return Verdict("not judged", difference, "not judged", ("Generated to have this size.",))
    if cell.statistics is not None:
        same = _as_printed(ours.mean, cell.paper.mean) or abs(difference) <= (allowed or 0.0)
        return (
            Verdict("the same", difference, "the same")
            if same
            else Verdict("differs", difference, "differs", own)
        )
    if allowed is not None and abs(difference) <= allowed + _ROUNDING:
        unit = "s" if cell.timing is not None else " point" if allowed == 1 else " points"
        words = "within one sd" if cell.paper.sd is not None else f"within {allowed:g}{unit}"
        return Verdict("within one sd", difference, words)
    if item.not_reproducible is not None:
        name: VerdictName = "not reproducible as described"
        return Verdict(name, difference, name, (item.not_reproducible, *own))
    if allowed is None:
        return Verdict(
            "not judged", difference, "not judged", ("The paper prints no deviation.", *own)
        )
    return Verdict("outside", difference, "outside", own)


def _as_printed(ours: float, paper: float) -> bool:
    """Whether ours, rounded to the digits the paper prints, is the paper's number."""
    digits = Decimal(repr(paper)).normalize().as_tuple().exponent
    return isinstance(digits, int) and round(ours, max(-digits, 0)) == paper
