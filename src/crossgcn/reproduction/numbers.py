"""The table of an item: the paper's numbers and ours side by side, as text and at the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crossgcn.experiments.statistics import Summary
from crossgcn.reports.format import with_spread
from crossgcn.reports.terminal.tables import number_columns
from crossgcn.reproduction.items import Cell, Item, PaperValue
from crossgcn.reproduction.plan import CellResult, ItemResult
from crossgcn.reproduction.verdicts import (
    Verdict,
    baseline_of,
    evaluate_claims,
    judge_cell,
    measured,
    paired_with,
)

_DASH = "—"
_STYLES = {
    **dict.fromkeys(("within one sd", "the same", "holds"), "green"),
    **dict.fromkeys(("not reproducible as described", "holds in part"), "yellow"),
    **dict.fromkeys(("outside", "differs", "does not hold"), "red"),
}


@dataclass(frozen=True)
class NumberLine:
    """One number of the paper and ours.

    Attributes:
        cells: Text of each column, the name first.
        marks: Numbers of its notes.
        run: Whether we have a number.
        interval: 95 % interval of the paired difference, if there is one.
    """

    cells: tuple[str, ...]
    verdict: Verdict | None
    marks: tuple[int, ...]
    run: bool
    interval: str = ""


@dataclass(frozen=True)
class NumberGroup:
    """Lines under one heading."""

    label: str
    lines: tuple[NumberLine, ...]


@dataclass(frozen=True)
class NumberTable:
    """All numbers of an item.

    Attributes:
        headers: Headers of the cells; a column for the verdict follows.
        notes: Reasons, numbered from 1 by the marks of the lines.
    """

    headers: tuple[str, ...]
    groups: tuple[NumberGroup, ...]
    notes: tuple[str, ...]

    @property
    def judged(self) -> bool:
        """Whether any line has a verdict."""
        return any(line.verdict is not None for group in self.groups for line in group.lines)

    @property
    def paired_column(self) -> int | None:
        """The column that the intervals belong to."""
        found = (i for i, header in enumerate(self.headers) if header.startswith("paired"))
        return next(found, None)


def number_table(item: Item, result: ItemResult) -> NumberTable:
    """Set the paper's numbers and ours side by side.

    Tables are grouped by column, to set models below each other, and figures by row. Empty
    columns are left out, and so are cells with neither a number of the paper nor one of ours.
    """
    by_column = item.kind == "table" or len(item.columns) == 1
    cells = [(cell, result.at(cell.place)) for cell in item.cells()]
    shown = [(cell, ours) for cell, ours in cells if cell.paper is not None or ours is not None]
    if by_column:
        columns = [column.label for column in item.columns]
        panels = [panel.label for panel in item.panels]
        shown.sort(key=lambda both: (panels.index(both[0].panel), columns.index(both[0].column)))
    counted = Counter(key for cell in result.cells for key in cell.chosen)
    main = counted.most_common(1)[0][0] if counted else ""
    notes: list[str] = []
    lines = []
    for cell, ours in shown:
        place = (cell.panel, cell.column if by_column else cell.row)
        name = cell.row if by_column else cell.column
        heading = " · ".join(part for part in place if part)
        lines.append((heading, _line(name, cell, ours, item, result, main, notes)))
    other = " or ".join(sorted({cell.compare_with for cell, _ in shown if cell.compare_with}))
    unit = {"statistics": "", "timing": ", s"}.get(item.kind, ", %")
    headers = (
        "" if by_column else item.x_label,
        f"paper{unit}",
        f"ours{unit}",
        "difference",
        f"times {other}" if item.kind == "timing" else f"paired to {other}",
        f"chosen {_readable(main)}",
    )
    kept = [
        index
        for index in range(len(headers))
        if index in (0, 2) or any(line.cells[index] != _DASH for _, line in lines)
    ]
    groups = tuple(
        NumberGroup(
            heading,
            tuple(replace(line, cells=tuple(line.cells[i] for i in kept)) for _, line in group),
        )
        for heading, group in groupby(lines, key=lambda line: line[0])
    )
    return NumberTable(tuple(headers[index] for index in kept), groups, tuple(notes))


def mean_text(value: Summary | PaperValue | None, item: Item) -> str:
    """Format a number without its deviation."""
    if value is None:
        return _DASH
    if item.kind == "statistics":
        return f"{value.mean:,.0f}" if value.mean == round(value.mean) else f"{value.mean:.3g}"
    return f"{value.mean:.3g}" if item.kind == "timing" else f"{value.mean:.1f}"


def _spread(value: Summary | PaperValue | None, item: Item) -> str:
    """Format a number; an accuracy with its deviation."""
    return with_spread(value.mean, value.sd) if item.trains and value else mean_text(value, item)


def _line(
    name: str,
    cell: Cell,
    ours: CellResult | None,
    item: Item,
    result: ItemResult,
    main: str,
    notes: list[str],
) -> NumberLine:
    """Make the line of a cell and append its reasons to the notes.

    The header names the ``main`` setting that validation chose.
    """
    paper = _spread(cell.paper, item)
    if ours is None:
        return NumberLine((name, paper, "not run", _DASH, _DASH, _DASH), None, (), False)
    verdict = judge_cell(ours, item)
    reasons = () if verdict is None else verdict.reasons
    own = [reason for reason in reasons if reason != item.not_reproducible]
    notes.extend(reason for reason in dict.fromkeys(own) if reason not in notes)
    paired, interval = _paired(ours, result)
    chosen = (
        str(value) if key == main else f"{_readable(key)} {value}"
        for key, value in ours.chosen.items()
    )
    cells = (
        name,
        paper,
        _spread(measured(ours), item),
        _DASH if verdict is None else _difference(verdict.difference, item),
        _times(ours, result) if item.kind == "timing" else paired,
        ", ".join(chosen) or _DASH,
    )
    marks = tuple(notes.index(reason) + 1 for reason in own)
    return NumberLine(cells, verdict, marks, True, interval)


def _difference(difference: float, item: Item) -> str:
    if item.kind == "statistics" and difference == round(difference):
        return f"{difference:+,.0f}" if difference else "0"
    return f"{difference:+z.{'1f' if item.trains else '3g'}}"


def _paired(cell: CellResult, result: ItemResult) -> tuple[str, str]:
    """Format the paired difference with its standard error, and its 95 % interval."""
    paired = paired_with(cell, baseline_of(cell, result))
    if paired is None:
        return _DASH, ""
    interval = paired.interval()
    if interval is None:
        return f"{paired.mean:+z.2f}", ""
    low, high = interval
    return f"{paired.mean:+z.2f} ± {paired.standard_error:.2f}", f"{low:+z.2f} to {high:+z.2f}"


def _times(cell: CellResult, result: ItemResult) -> str:
    """Format the ratio of seconds to the baseline's, and the paper's ratio in brackets."""
    other = baseline_of(cell, result)
    ours, theirs = measured(cell), measured(other)
    if ours is None or other is None or theirs is None:
        return _DASH
    ratio = f"{ours.mean / theirs.mean:.2f}"
    if cell.paper is None or other.paper is None:
        return ratio
    return f"{ratio} (paper {cell.paper.mean / other.paper.mean:.2f})"


def _readable(setting: str) -> str:
    return {"hidden_channels": "size", "laplacian_weight": "Laplacian"}.get(
        setting, setting.replace("_", " ")
    )


def item_table(item: Item, result: ItemResult) -> RenderableType:
    """Show the numbers with their verdicts, then the outcome of each claim."""
    wide = item.kind != "table" and len(item.columns) > 1
    numbers = number_table(item, result)
    parts: list[RenderableType] = [Text(f"{item.title} ({item.source})", style="bold")]
    if not numbers.groups:
        return Group(*parts, Text("nothing was run", style="dim"))
    parts += _matrix(item, result) if wide else _lines(numbers)
    notes = [f"[{number}] {note}" for number, note in enumerate(numbers.notes, 1)]
    if wide and any(cell.paper is not None for cell in item.cells()):
        notes = ["in brackets: the paper's, where it is not the same", *numbers.notes]
    parts += [Text(note, style="dim") for note in notes]
    claims = Table.grid(padding=(0, 2, 0, 0))
    for claim in evaluate_claims(item, result):
        outcome = Text(claim.outcome, style=_STYLES.get(claim.outcome, "dim"), no_wrap=True)
        claims.add_row(outcome, Text(claim.claim.says))
    return Group(*parts, claims) if claims.row_count else Group(*parts)


def _lines(numbers: NumberTable) -> Iterator[RenderableType]:
    """Yield a table per group, with a line for each number."""
    left_out = ("chosen", "difference")
    shown = [i for i, header in enumerate(numbers.headers) if not header.startswith(left_out)]
    for group in numbers.groups:
        if group.label:
            yield Text(group.label, style="bold")
        table = number_columns(*(numbers.headers[i] for i in shown))
        if numbers.judged:
            table.add_column("verdict", overflow="fold")
        for line in group.lines:
            cells = (Text(line.cells[i]) for i in shown)
            verdict = [_verdict(line)] if numbers.judged else []
            table.add_row(*cells, *verdict, style="" if line.run else "dim")
        yield table


def _matrix(item: Item, result: ItemResult) -> Iterator[RenderableType]:
    """Yield a table per panel, with the columns of the item side by side."""
    run = {cell.column for cell in result.cells}
    columns = [line.label for line in item.columns if line.label in run]
    for panel in item.panels:
        table = number_columns(item.x_label, *columns)
        for row in item.rows:
            cells = [result.find(panel.label, row.label, column) for column in columns]
            if any(cell is not None for cell in cells):
                table.add_row(Text(row.label), *(_short(cell, item) for cell in cells))
        if table.row_count:
            if panel.label:
                yield Text(panel.label, style="bold")
            yield table


def _short(cell: CellResult | None, item: Item) -> Text:
    """Show our number, and the paper's if it is not the same."""
    if cell is None:
        return Text("—", style="dim")
    verdict = judge_cell(cell, item)
    text = Text(mean_text(measured(cell), item))
    if verdict is not None and verdict.name != "the same" and verdict.difference:
        text.append(f" ({mean_text(cell.paper, item)})", style=_STYLES.get(verdict.name, "dim"))
    return text


def _verdict(line: NumberLine) -> Text:
    if line.verdict is None:
        return Text("—" if line.run else "")
    marks = "".join(f" [{mark}]" for mark in line.marks)
    difference = f"{line.verdict.difference:+z.1f}"
    return Text(
        f"{line.verdict.words} ({difference}){marks}", style=_STYLES.get(line.verdict.name, "dim")
    )
