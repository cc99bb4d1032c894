"""Format numbers, names and tables for people: metrics, counts, percentages, intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from crossgcn.training.metrics import METRICS

Summary = dict[str, Any]
"""A result as the JSON object that a command prints."""

LONGEST_NAME: Final = 160
"""Longer names of columns, values and classes lose their middle."""

_UNPRINTABLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


_MOST_WIDE = 100
"""Columns of text that a table takes at most; its cells fold."""

_BAR = 12
"""Characters of the longest bar."""


def metric_title(name: str) -> str:
    """Return what a metric is called, with the unit of the numbers in a table."""
    metric = METRICS[name]
    return f"{metric.title} in %" if metric.shown == "percent" else metric.title


def metric_text(name: str, value: float) -> str:
    """Return a value of a metric: ``79.1 %``, ``0.768``."""
    shown = METRICS[name].shown
    if shown == "percent":
        return f"{100 * value:.1f}\u00a0%"
    return f"{value:.4g}" if shown == "in unit of target" else f"{value:.3f}"


def spread_text(name: str, mean: float, sd: float | None = None) -> str:
    """Return ``79.1 ± 1.8`` for a table whose title has the unit, or the mean alone."""
    shown = METRICS[name].shown
    if shown == "percent":
        return f"{100 * mean:.1f}" + ("" if sd is None else f" ± {100 * sd:.1f}")
    if sd is None:
        return metric_text(name, mean)
    spread = f"{sd:.2g}" if shown == "in unit of target" else f"{sd:.3f}"
    return f"{metric_text(name, mean)} ± {spread}"


def change_text(name: str, difference: float) -> str:
    """Return a difference of two values with its sign, shares in percentage points."""
    shown = METRICS[name].shown
    if shown == "percent":
        return f"{100 * difference:+z.2f}"
    return f"{difference:+.3g}" if shown == "in unit of target" else f"{difference:+z.3f}"


def difference_text(name: str, difference: float, interval: Sequence[float] | None) -> str:
    """Return ``+2.39 points of ROC-AUC, 95 % interval +0.50 to +4.20``, or without an interval."""
    metric = METRICS[name]
    unit = f"points of {metric.title}" if metric.shown == "percent" else metric.title
    text = f"{change_text(name, difference)} {unit}"
    if interval is None:
        return text
    low, high = (change_text(name, end) for end in interval)
    return f"{text}, 95 % interval {low} to {high}"


def count(number: int, noun: str) -> str:
    """Return ``no nodes``, ``1 node`` or ``1,234 nodes``."""
    return f"no {noun}s" if number == 0 else f"{number:,} {noun}{'' if number == 1 else 's'}"


def with_error(text: str, error: float | None) -> str:
    """Return a number's text with its standard error, if there is one: ``0.31 ± 0.02``."""
    return text if error is None else f"{text} ± {error:.2g}"


def to_small_json(content: Any) -> Any:
    """Return contents with all numbers rounded to four digits, NaN as ``None``, arrays as lists."""
    if isinstance(content, np.ndarray | np.generic):
        content = content.tolist()
    if isinstance(content, dict):
        return {name: to_small_json(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [to_small_json(value) for value in content]
    if isinstance(content, float):
        return None if np.isnan(content) else float(f"{content:.4g}") + 0.0
    return content


def readable(text: str) -> str:
    """Replace characters that a page cannot hold or that change the writing direction.

    Control characters, halves of surrogate pairs and direction marks become a replacement
    character each; line ends and tabs become spaces.
    """
    return _UNPRINTABLE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a readable name of at most ``longest`` characters that is never empty."""
    name = readable(name)
    if not name.strip():
        return "(empty)"
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


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
