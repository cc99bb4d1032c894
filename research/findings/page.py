"""Render tables of findings as Markdown, for ``docs/findings.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from crossgcn.experiments.statistics import summarise
from crossgcn.reports.format import markdown_table, with_spread
from research.findings.records import (
    CellRecord,
    Comparison,
    FindingsRecord,
    Outcome,
    compare_rows,
    expected_false_alarms,
)
from research.findings.tables import Column, FindingsTable, SearchRecord

_NAMED_ONE_BY_ONE = 3


def table_verdict(table: FindingsTable, record: FindingsRecord) -> str:
    """Return the verdict of a table: counts first, then column by column."""
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
    """State the number of each outcome, and the number expected by chance."""
    better, worse, equal = (len(_of(comparisons, o)) for o in ("better", "worse", "no difference"))
    number = len(comparisons)
    called = "comparison" if number == 1 else "comparisons"
    return (
        f"{better} better, {worse} worse, {equal} without a difference, in {number} {called}. Were "
        f"there no differences at all, about {expected_false_alarms(comparisons):.1f} of {number} "
        "would still be called one."
    )


def range_of_gains(comparisons: Sequence[Comparison], outcome: Outcome) -> str:
    """State where and by how many points rows are better or worse; a dash for nowhere."""
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
    """Format accuracies as ``mean ± sd``, in percent."""
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
    """List every item if they are few, otherwise the smallest and the largest."""
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
    """State whether the row that validation selects reaches a target."""
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
    """Return the measurements of a column, sorted by validation accuracy, best first."""
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


Tables = Sequence[tuple[FindingsTable, FindingsRecord | None]]

_SAME_FOR_ALL = ("dataset", "model", "splits", "num_splits", "train", "seed")


def findings_overview(tables: Tables) -> str:
    """Render one line per table, and the total number expected by chance."""
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
    """Render a table with its verdict, or a note that it was not measured.

    Args:
        record: Its record, if measured.
        figure: Path of the figure of its differences.
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
    """Return the number of splits, or of seeds where the training nodes are always the same."""
    cells = [cell for cell in record.cells if cell.column == column.label and cell.test_accuracy]
    if not cells:
        return ""
    number = max(len(cell.test_accuracy) for cell in cells)
    unit = "seed" if cells[0].num_training_sets == 1 < number else "split"
    return f"{number} {unit}{'s' * (number > 1)}"


def _costs(table: FindingsTable, record: FindingsRecord) -> str:
    """Render all parameter counts, and the seconds of the device that trained most cells."""
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
    """Render the settings that validation selected, and the number of candidates."""
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


def search_in_brief(search: SearchRecord | None) -> str:
    """Render the number of settings tried per graph, and whether models had equally many."""
    if search is None:
        return "Not searched yet."
    counts: dict[str, dict[str, int]] = {}
    for row in search.rows:
        here = counts.setdefault(row.dataset, {})
        here[row.model] = here.get(row.model, 0) + 1
    models = list(dict.fromkeys(row.model for row in search.rows))
    uneven = [
        f"{dataset} ({', '.join(f'{model} {here.get(model, 0)}' for model in models)})"
        for dataset, here in counts.items()
        if len({here.get(model, 0) for model in models}) > 1
    ]
    tried = ", ".join(f"{max(here.values())} on {dataset}" for dataset, here in counts.items())
    said = f"Settings tried, as many for both models of a graph: {tried}."
    if uneven:
        said = (
            f"Settings tried: {tried}, but **not as many for each model** on {', '.join(uneven)}."
        )
    failed = sum(row.validation_mean is None for row in search.rows)
    return said + (f" {failed} of {len(search.rows)} trainings diverged." if failed else "")
