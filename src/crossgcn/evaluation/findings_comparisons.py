"""Rows against their twins, split by split: which differences are more than chance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Literal

from scipy.special import stdtr

from crossgcn.evaluation.findings_records import FindingsRecord
from crossgcn.evaluation.findings_tables import FindingsTable
from crossgcn.evaluation.statistics import PairedDifference, paired_difference

__all__ = [
    "THRESHOLD",
    "Comparison",
    "Outcome",
    "compare_rows",
    "expected_false_alarms",
    "judge_difference",
]

Outcome = Literal["better", "worse", "no difference"]

THRESHOLD = 2.0
"""How many standard errors from zero a difference counts as one."""


@dataclass(frozen=True)
class Comparison:
    """Two rows of a table in one column.

    Attributes:
        row: What is looked at.
        column: Where.
        against: What it is compared with.
        is_twin: Whether that is its twin, or another row.
        difference: Paired over splits, in points.
    """

    row: str
    column: str
    against: str
    is_twin: bool
    difference: PairedDifference

    @property
    def outcome(self) -> Outcome:
        """What the difference is called."""
        return judge_difference(self.difference)


def compare_rows(table: FindingsTable, record: FindingsRecord) -> list[Comparison]:
    """Every comparison of a table that both sides were measured for, row by row."""
    found = []
    for row in table.rows:
        for against in row.against:
            for column in table.columns:
                ours = record.find(row.label, column.label)
                other = record.find(against, column.label)
                if ours is None or other is None:
                    continue
                difference = paired_difference(
                    [100 * accuracy for accuracy in ours.test_accuracy],
                    [100 * accuracy for accuracy in other.test_accuracy],
                )
                is_twin = against == row.twin
                found.append(Comparison(row.label, column.label, against, is_twin, difference))
    return found


def judge_difference(difference: PairedDifference) -> Outcome:
    """Better or worse where the mean is more than two standard errors from zero.

    A single split shows no difference, however large.
    """
    error = difference.standard_error
    if error is None or abs(difference.mean) <= THRESHOLD * error:
        return "no difference"
    return "better" if difference.mean > 0 else "worse"


def expected_false_alarms(comparisons: Iterable[Comparison]) -> float:
    r"""How many of them would be called a difference if nothing differed at all.

    The sum over comparisons of :math:`P(|t_{n-1}| > 2)`, with :math:`n` splits each: 6 in 100
    for 20 splits, 8 in 100 for 10.
    """
    counts = [comparison.difference.count for comparison in comparisons]
    return fsum(2 * float(stdtr(count - 1, -THRESHOLD)) for count in counts if count > 1)
