"""Tables at the terminal: their one look, and the tables of ``data list``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from crossgcn.reports.format import Summary

_MOST_WIDE = 100
"""Columns of text that a table takes at most; its cells fold."""

_BAR = 12
"""Characters of the longest bar."""


def make_table(
    rows: Iterable[Sequence[str | Text]],
    names: Sequence[str],
    numbers: Sequence[str] = (),
    more: Sequence[str] = (),
    *,
    lines_after: Sequence[int] = (),
) -> RenderableType:
    """Return a table whose cells fold where there is little room, so that nothing is cut off.

    Args:
        names: Heads of the first columns, which are texts.
        numbers: Heads of the columns that follow, which are numbers.
        more: Heads of the last columns, which are texts.
        lines_after: Positions of rows with a line below them.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for name in numbers:
        table.add_column(Text(name), overflow="fold", justify="right")
    for name in more:
        table.add_column(Text(name), overflow="fold")
    for place, row in enumerate(rows):
        cells = (cell if isinstance(cell, Text) else Text(cell) for cell in row)
        table.add_row(*cells, end_section=place in lines_after)
    return Constrain(table, _MOST_WIDE)


def bar(value: float, largest: float) -> Text:
    """Return a bar, green for a value above zero and red below it."""
    length = max(1, round(_BAR * abs(value) / largest)) if value else 0
    return Text("█" * length, style="green" if value > 0 else "red")


def datasets_table(
    rows: Sequence[Summary], head: str, counts: Sequence[str], texts: Sequence[str] = ()
) -> RenderableType:
    """Return the known datasets, with entries that are counts or texts, and where each is."""
    cells = (
        [
            *(row["name"], *(f"{row[name]:,}" for name in counts)),
            *(*(row[name] for name in texts), row["where"] or "not here"),
        ]
        for row in rows
    )
    return make_table(cells, [head], counts, [*texts, "where"])
