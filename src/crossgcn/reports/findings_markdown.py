"""Tables of findings as Markdown, for the page that says what helps and what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from crossgcn.evaluation.findings_comparisons import Comparison, compare_rows
from crossgcn.evaluation.findings_records import CellRecord, FindingsRecord
from crossgcn.evaluation.findings_tables import Column, FindingsTable
from crossgcn.reports.findings_words import (
    count_sentence,
    mean_and_spread,
    range_of_gains,
    table_verdict,
)
from crossgcn.reports.markdown import markdown_table

__all__ = ["findings_markdown", "findings_overview"]

Tables = Sequence[tuple[FindingsTable, FindingsRecord | None]]

_SAME_FOR_ALL = ("dataset", "model", "splits", "num_splits", "train", "seed")


def findings_overview(tables: Tables) -> str:
    """One line for each table, and how many differences chance alone would give them all."""
    rows, every = [], []
    for table, record in tables:
        if record is None:
            rows.append([f"{table.title}: {table.compares}", "not measured yet", "", "", ""])
            continue
        twins = [comparison for comparison in compare_rows(table, record) if comparison.is_twin]
        every += twins
        equal = sum(comparison.outcome == "no difference" for comparison in twins)
        rows.append(
            [
                f"{table.title}: {table.compares}",
                str(len(twins)),
                range_of_gains(twins, "better"),
                range_of_gains(twins, "worse"),
                str(equal),
            ]
        )
    header = ["what is compared", "comparisons", "better (points)", "worse (points)", "neither"]
    total = f"\n\nAll tables together: {count_sentence(every)}" if every else ""
    return markdown_table(header, rows) + total


def findings_markdown(
    table: FindingsTable, record: FindingsRecord | None, *, figure: str = ""
) -> str:
    """A table with its verdict, or the word that it was not measured.

    Args:
        table: What is compared.
        record: What was measured.
        figure: Address of the drawing of its differences.
    """
    if record is None:
        return "Not measured yet."
    parts = [table_verdict(table, record), _accuracies(table, record)]
    if table.costs:
        parts.append(_costs(table, record))
    if figure:
        parts.append(f"![Paired differences: {table.compares}]({figure})")
    parts += [_choices(record), _environments(record)]
    return "\n\n".join(part for part in parts if part)


def _accuracies(table: FindingsTable, record: FindingsRecord) -> str:
    columns = [column for column in table.columns if _count(column, record)]
    found: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in compare_rows(table, record):
        found.setdefault((comparison.row, comparison.column), []).append(comparison)
    rows = []
    for row in table.rows:
        cells = [record.find(row.label, column.label) for column in columns]
        texts = [
            _accuracy(cell, found.get((row.label, column.label), []))
            for cell, column in zip(cells, columns, strict=True)
        ]
        pairs = "".join(f"<br>− {other}" for other in row.against)
        rows.append([f"{row.label}{pairs}", *texts])
    for name, values in (
        ("the paper's best", [column.paper_best for column in columns]),
        ("to be reached", [column.target for column in columns]),
    ):
        if any(value is not None for value in values):
            rows.append([f"*{name}*", *("" if v is None else f"{v:.1f}" for v in values)])
    header = [f"{column.label}<br>{_count(column, record)}" for column in columns]
    return markdown_table(["model", *header], rows)


def _accuracy(cell: CellRecord | None, comparisons: Sequence[Comparison]) -> str:
    if cell is None:
        return "—"
    lines = [mean_and_spread(cell.test_accuracy)]
    for comparison in comparisons:
        difference = comparison.difference
        error = difference.standard_error
        text = f"{difference.mean:+z.2f}" + ("" if error is None else f" ± {error:.2f}")
        lines.append(text if comparison.outcome == "no difference" else f"**{text}**")
    return "<br>".join(lines)


def _count(column: Column, record: FindingsRecord) -> str:
    """Over how many splits, or seeds where all nodes train."""
    cells = [cell for cell in record.cells if cell.column == column.label and cell.test_accuracy]
    if not cells:
        return ""
    number = max(len(cell.test_accuracy) for cell in cells)
    unit = "seed" if cells[0].num_training_sets == 1 < number else "split"
    return f"{number} {unit}{'s' * (number > 1)}"


def _costs(table: FindingsTable, record: FindingsRecord) -> str:
    """Parameters everywhere, but seconds of one kind of device only: where most were trained."""
    columns = [column for column in table.columns if _count(column, record)]
    devices = Counter(cell.device for cell in record.cells if cell.seconds is not None)
    if not devices:
        return ""
    device = devices.most_common(1)[0][0]
    rows = []
    for row in table.rows:
        cells = [record.find(row.label, column.label) for column in columns]
        rows.append([row.label, *(_cost(cell, device) for cell in cells)])
    place = "a GPU" if device == "cuda" else "a CPU"
    what = f"parameters, seconds for all splits on {place}"
    return markdown_table([what, *(column.label for column in columns)], rows)


def _cost(cell: CellRecord | None, device: str) -> str:
    if cell is None or cell.parameters is None or cell.seconds is None:
        return "—"
    seconds = f"{cell.seconds:.1f} s" if cell.device == device else "—"
    return f"{cell.parameters:,}<br>{seconds}"


def _choices(record: FindingsRecord) -> str:
    """The settings that validation chose, and from how many."""
    rows = []
    for cell in record.cells:
        number = cell.trials if cell.trials is not None else len(cell.candidates)
        if number and cell.failure is None:
            chosen = _searched(cell) if cell.trials is not None else cell.chosen
            rows.append([cell.row, cell.column, str(number), _settings(chosen)])
    if not rows:
        return ""
    table = markdown_table(["model", "where", "chosen from", "settings"], rows)
    return f"<details><summary>Settings that validation chose</summary>\n\n{table}\n\n</details>"


def _searched(cell: CellRecord) -> dict[str, Any]:
    return {
        name: value
        for name, value in cell.settings.items()
        if value is not None and name not in _SAME_FOR_ALL
    }


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _environments(record: FindingsRecord) -> str:
    lines = list(dict.fromkeys(map(_environment, record.environments)))
    return f"Measured on {'; '.join(lines)}." if lines else ""


def _environment(environment: Mapping[str, Any]) -> str:
    place = environment.get("gpu") or f"a CPU, {_threads(environment)}"
    commit = str(environment.get("commit") or "unknown")[:10]
    return f"{place}, torch {environment['versions']['torch']}, commit {commit}"


def _threads(environment: Mapping[str, Any]) -> str:
    number = environment["threads"]
    return f"{number} thread{'s' * (number > 1)} a run"
