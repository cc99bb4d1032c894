"""Records of findings tables, from which every verdict can be recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from scipy.special import stdtr

from crossgcn.experiments.statistics import PairedDifference, paired_difference
from crossgcn.reproduction.items import Frozen
from crossgcn.reproduction.plan import read_model, write_model
from research.findings.tables import FindingsTable


class CandidateRecord(Frozen):
    """A candidate of the selection by validation; its test accuracy is never computed.

    Attributes:
        settings: Settings that distinguish the candidate.
        validation_mean: Mean accuracy over the selection splits; ``None`` if a run diverged.
    """

    settings: Mapping[str, Any]
    validation_mean: float | None


class Measured(Frozen):
    """One configuration over all its splits.

    Attributes:
        settings: Settings of the training.
        device: ``cpu`` or ``cuda``.
        test_accuracy: Fractions, one per split (per seed if there is only one split).
        validation_accuracy: Validation accuracies at the selected epochs.
        best_epoch: The selected epochs.
        num_training_sets: Number of distinct training sets; 1 if all nodes train.
        parameters: Number of trained parameters.
        seconds: Training time over all splits, without the selection of settings.
        chosen: The settings that validation selected.
        candidates: The candidates of that selection.
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
    """A measurement and its place in the table.

    Attributes:
        row: Label of its row.
        column: Label of its column.
        trials: Number of settings tried by the search that chose these settings, if any.
    """

    row: str
    column: str
    trials: int | None = None


class FindingsRecord(Frozen):
    """All measurements of a table.

    Attributes:
        table: Name of the table.
        cells: Measured cells, in the table's order.
        missing: Row and column of each cell that was not measured.
        environments: Distinct environments of the runs: versions, threads, commit and machine.
    """

    table: str
    cells: tuple[CellRecord, ...]
    missing: tuple[tuple[str, str], ...] = ()
    environments: tuple[Mapping[str, Any], ...] = ()

    def find(self, row: str, column: str) -> CellRecord | None:
        """Return the cell at a row and column, or ``None`` if it has no accuracy."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column) and cell.test_accuracy:
                return cell
        return None


def write_record(path: Path, record: FindingsRecord) -> None:
    """Write a record as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_model(path, record)


def read_record(path: Path) -> FindingsRecord:
    """Read a record."""
    return read_model(path, FindingsRecord, "the record of a table", "measure")


Outcome = Literal["better", "worse", "no difference"]

THRESHOLD = 2.0
"""A difference counts if it is more than this many standard errors from zero."""


@dataclass(frozen=True)
class Comparison:
    """Two rows of a table in one column.

    Attributes:
        row: The row under test.
        column: The column.
        against: The row to compare with.
        is_twin: Whether ``against`` is the baseline row of ``row``.
        difference: Paired difference over splits, in percentage points.
    """

    row: str
    column: str
    against: str
    is_twin: bool
    difference: PairedDifference

    @property
    def outcome(self) -> Outcome:
        """Return the name of the outcome."""
        return judge_difference(self.difference)


def compare_rows(table: FindingsTable, record: FindingsRecord) -> list[Comparison]:
    """Return every comparison of a table for which both sides were measured, row by row."""
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
    """Return better or worse if the mean is more than two standard errors from zero.

    A single split never counts as a difference.
    """
    error = difference.standard_error
    if error is None or abs(difference.mean) <= THRESHOLD * error:
        return "no difference"
    return "better" if difference.mean > 0 else "worse"


def expected_false_alarms(comparisons: Iterable[Comparison]) -> float:
    r"""Return the expected number of false positives if all true differences were zero.

    The sum over comparisons of :math:`P(|t_{n-1}| > 2)`, with :math:`n` splits each: 6 in 100
    for 20 splits, 8 in 100 for 10.
    """
    counts = [comparison.difference.count for comparison in comparisons]
    return fsum(2 * float(stdtr(count - 1, -THRESHOLD)) for count in counts if count > 1)
