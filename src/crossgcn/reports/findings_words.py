"""What a table of findings says, in sentences that are computed from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from crossgcn.evaluation.findings_comparisons import (
    Comparison,
    Outcome,
    compare_rows,
    expected_false_alarms,
)
from crossgcn.evaluation.findings_records import CellRecord, FindingsRecord
from crossgcn.evaluation.findings_tables import Column, FindingsTable
from crossgcn.evaluation.statistics import summarise
from crossgcn.reports.tables import with_spread

__all__ = ["count_sentence", "mean_and_spread", "range_of_gains", "table_verdict"]

_NAMED_ONE_BY_ONE = 3


def table_verdict(table: FindingsTable, record: FindingsRecord) -> str:
    """The verdict of a table: counts first, then column by column."""
    comparisons = compare_rows(table, record)
    twins = [comparison for comparison in comparisons if comparison.is_twin]
    others = [comparison for comparison in comparisons if not comparison.is_twin]
    parts = []
    if twins:
        lines = [_column_line(column, twins) for column in table.columns]
        parts += [f"**Against the twin**: {count_sentence(twins)}", _bullets(lines)]
    if others:
        lines = [_column_line(column, others) for column in table.columns]
        parts += [f"**Against other rows**: {count_sentence(others)}", _bullets(lines)]
    best = [_best_on_validation(column, table, record) for column in table.columns]
    if any(best):
        named = "; ".join(filter(None, best))
        parts.append(f"**Best on validation nodes**, with its test accuracy: {named}.")
    targets = [_target_line(column, table, record) for column in table.columns]
    if any(targets):
        parts += ["**To be reached**:", _bullets(targets)]
    parts.append(_bullets(list(_gaps(record))))
    return "\n\n".join(part for part in parts if part)


def count_sentence(comparisons: Sequence[Comparison]) -> str:
    """How many came out which way, and how many would by chance."""
    better, worse, equal = (len(_of(comparisons, o)) for o in ("better", "worse", "no difference"))
    number = len(comparisons)
    called = "comparison" if number == 1 else "comparisons"
    return (
        f"{better} better, {worse} worse, {equal} without a difference, in {number} {called}. Were "
        f"there no differences at all, about {expected_false_alarms(comparisons):.1f} of {number} "
        "would still be called one."
    )


def range_of_gains(comparisons: Sequence[Comparison], outcome: Outcome) -> str:
    """Where and by how many points rows are better, or worse; a dash for nowhere."""
    texts = []
    for column in dict.fromkeys(comparison.column for comparison in comparisons):
        here = [comparison for comparison in comparisons if comparison.column == column]
        found = [comparison.difference.mean for comparison in _of(here, outcome)]
        if found:
            low, high = f"{min(found):+z.1f}", f"{max(found):+z.1f}"
            points = low if low == high else f"{low} to {high}"
            texts.append(f"{column} {len(found)} of {len(here)} ({points})")
    return "; ".join(texts) or "—"


def mean_and_spread(accuracies: Sequence[float]) -> str:
    """Accuracies as ``mean ± sd``, in percent."""
    summary = summarise([100 * accuracy for accuracy in accuracies])
    return with_spread(summary.mean, summary.sd)


def _column_line(column: Column, comparisons: Sequence[Comparison]) -> str:
    here = [comparison for comparison in comparisons if comparison.column == column.label]
    if not here:
        return ""
    outcomes: tuple[Outcome, ...] = ("better", "worse")
    parts = [_named(_of(here, outcome), outcome, len(here)) for outcome in outcomes]
    said = "; ".join(filter(None, parts)) or f"no difference in any of {len(here)}"
    return f"{column.label}: {said}"


def _named(found: Sequence[Comparison], outcome: Outcome, number: int) -> str:
    """Each by name where they are few, else the least and the most of them."""
    if not found:
        return ""
    ranked = sorted(found, key=lambda comparison: -abs(comparison.difference.mean))
    if len(found) <= _NAMED_ONE_BY_ONE:
        return f"{outcome}: {', '.join(map(_with_points, ranked))}"
    most, least = _with_points(ranked[0]), _with_points(ranked[-1])
    return f"{len(found)} of {number} {outcome}, from {least} to {most}"


def _with_points(comparison: Comparison) -> str:
    pair = "" if comparison.is_twin else f" against *{comparison.against}*"
    return f"*{comparison.row}*{pair} {comparison.difference.mean:+z.1f}"


def _best_on_validation(column: Column, table: FindingsTable, record: FindingsRecord) -> str:
    ranked = _by_validation(column, table, record)
    if not ranked:
        return ""
    return f"{column.label} *{ranked[0].row}* ({mean_and_spread(ranked[0].test_accuracy)})"


def _target_line(column: Column, table: FindingsTable, record: FindingsRecord) -> str:
    """Whether the row that validation would take reaches a target; others only by the way."""
    ranked = _by_validation(column, table, record)
    if column.target is None or not ranked:
        return ""
    best, *others = ranked
    verdict = "reached" if _reaches(best, column.target) else "not reached"
    said = f"{verdict} by the best on validation nodes, {_with_mean(best)}"
    also = [_with_mean(cell) for cell in others if _reaches(cell, column.target)]
    if also:
        said += f"; {'also' if verdict == 'reached' else 'though'} by {', '.join(also)}"
    return f"{column.label}, {column.target:g}: {said}"


def _by_validation(
    column: Column, table: FindingsTable, record: FindingsRecord
) -> list[CellRecord]:
    """What was measured in a column, the best on validation nodes first."""
    cells = [record.find(row.label, column.label) for row in table.rows]
    measured = [cell for cell in cells if cell is not None]
    return sorted(measured, key=lambda cell: -fmean(cell.validation_accuracy))


def _reaches(cell: CellRecord, target: float) -> bool:
    return 100 * fmean(cell.test_accuracy) >= target


def _with_mean(cell: CellRecord) -> str:
    return f"*{cell.row}* ({100 * fmean(cell.test_accuracy):.2f})"


def _gaps(record: FindingsRecord) -> Iterator[str]:
    failed = [cell for cell in record.cells if cell.failure is not None]
    yield from (f"{cell.row}, {cell.column}: failed ({cell.failure})" for cell in failed)
    missing: dict[str, list[str]] = {}
    for row, column in record.missing:
        missing.setdefault(row, []).append(column)
    if missing:
        named = "; ".join(f"*{row}* on {', '.join(where)}" for row, where in missing.items())
        yield f"not measured: {named}"


def _of(comparisons: Sequence[Comparison], outcome: Outcome) -> list[Comparison]:
    return [comparison for comparison in comparisons if comparison.outcome == outcome]


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines if line)
