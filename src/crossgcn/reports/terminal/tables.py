"""Tables at the terminal: their one look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

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
    line_after: int | None = None,
) -> RenderableType:
    """Return a table whose cells fold where there is little room, so that nothing is cut off.

    Args:
        names: Heads of the first columns, which are texts.
        numbers: Heads of the columns that follow, which are numbers.
        more: Heads of the last columns, which are texts.
        line_after: Position of a row with a line below it.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in (*names, *numbers, *more):
        table.add_column(Text(name), overflow="fold")
    for column in table.columns[len(names) : len(names) + len(numbers)]:
        column.justify = "right"
    for place, row in enumerate(rows):
        cells = (cell if isinstance(cell, Text) else Text(cell) for cell in row)
        table.add_row(*cells, end_section=place == line_after)
    return Constrain(table, _MOST_WIDE)


def bar(value: float, largest: float) -> Text:
    """Return a bar, green for a value above zero and red below it."""
    length = max(1, round(_BAR * abs(value) / largest)) if value else 0
    return Text("█" * length, style="green" if value > 0 else "red")
