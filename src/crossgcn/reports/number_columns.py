"""The look of all tables at the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

__all__ = ["number_columns"]


def number_columns(name: str, *numbers: str) -> Table:
    """A column of names and columns of numbers, which fold when room is short: nothing is cut."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(name, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right", overflow="fold")
    return table
