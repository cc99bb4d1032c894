"""What came out of a table: small enough to keep, whole enough to judge everything from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from scipy.special import stdtr

from crossgcn.experiments.statistics import PairedDifference, paired_difference
from crossgcn.reproduction.collect import read_model, write_model
from crossgcn.reproduction.items import Frozen
from research.findings.tables import FindingsTable


class CandidateRecord(Frozen):
    """Settings that validation chose from; their test accuracy was never computed.

    Attributes:
        settings: What sets it apart.
        validation_mean: Mean accuracy over the splits of the choice; none where it diverged.
    """

    settings: Mapping[str, Any]
    validation_mean: float | None


class Measured(Frozen):
    """One configuration over all its splits.

    Attributes:
        settings: What was trained.
        device: ``cpu`` or ``cuda``.
        test_accuracy: Fractions, one per split (per seed where all splits are one).
        validation_accuracy: Likewise, at the selected epochs.
        best_epoch: The selected epochs.
        num_training_sets: How many different ones; 1 where all nodes train.
        parameters: Numbers that are trained.
        seconds: Of all splits together, the choice of settings not counted.
        chosen: The settings that validation chose.
        candidates: What it chose from.
        failure: Why there is no accuracy.
    """

    settings: Mapping[str, Any]
    device: str
    test_accuracy: tuple[float, ...] = ()
    validation_accuracy: tuple[float, ...] = ()
    best_epoch: tuple[int, ...] = ()
    num_training_sets: int = 0
    parameters: int | None = None
    seconds: float | None = None
    chosen: Mapping[str, Any] = Field(default_factory=dict)
    candidates: tuple[CandidateRecord, ...] = ()
    failure: str | None = None


class CellRecord(Measured):
    """What was measured, and where it stands.

    Attributes:
        row: Label of its row.
        column: Label of its column.
        trials: From how many settings a search chose these, where one did.
    """

    row: str
    column: str
    trials: int | None = None


class FindingsRecord(Frozen):
    """Everything that was found for a table.

    Attributes:
        table: Its name.
        cells: Those that were measured, in the table's order.
        missing: Those that were not, row and column each.
        environments: Versions, threads, commit and machine of the runs, each once.
    """

    table: str
    cells: tuple[CellRecord, ...]
    missing: tuple[tuple[str, str], ...] = ()
    environments: tuple[Mapping[str, Any], ...] = ()

    def find(self, row: str, column: str) -> CellRecord | None:
        """The cell at a place, if it was measured and came to an end."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column) and cell.test_accuracy:
                return cell
        return None


def write_record(path: Path, record: FindingsRecord) -> None:
    """Write a record as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_model(path, record)


def read_record(path: Path) -> FindingsRecord:
    """Read a record."""
    return read_model(path, FindingsRecord, "the record of a table", "measure")


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
