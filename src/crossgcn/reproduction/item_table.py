"""An item at the terminal: its numbers with their verdicts, and the paper's claims."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crossgcn.reports.terminal.tables import number_columns
from crossgcn.reproduction.collect import CellResult, ItemResult
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.numbers import NumberLine, NumberTable, mean_text, number_table
from crossgcn.reproduction.verdicts import evaluate_claims, judge_cell, measured

_STYLES = {
    **dict.fromkeys(("within one sd", "the same", "holds"), "green"),
    **dict.fromkeys(("not reproducible as described", "holds in part"), "yellow"),
    **dict.fromkeys(("outside", "differs", "does not hold"), "red"),
}


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
