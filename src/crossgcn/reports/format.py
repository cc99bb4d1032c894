"""Format numbers, names and tables for people: metrics, counts, percentages, intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from crossgcn.errors import printable
from crossgcn.training.metrics import METRICS

Summary = dict[str, Any]
"""A result as the JSON object that a command prints."""

_FORMS = {
    "percent": (100, ".1f", ".1f", "+z.2f"),
    "number": (1, ".3f", ".3f", "+z.3f"),
    "in unit of target": (1, "", "", ""),
}
"""How metrics are shown: a factor, and the forms of a value, a deviation and a difference; where
these are empty, with as many digits as are needed, see :func:`number_text`."""

_MAX_WIDTH = 100
"""Maximum width of a table in characters; longer cells wrap."""

_BAR = 12
"""Length of the longest bar in characters."""


def number_text(value: float, digits: int = 4, sign: str = "") -> str:
    """Return a number as people write it: ``54,321``, ``0.0759``, ``12``; never ``5.4e+04``."""
    decimals = 0 if value % 1 == 0 else _decimals(value, digits)
    return f"{value:{sign},.{decimals}f}"


def _decimals(value: float, digits: int) -> int:
    """Return how many decimal places show so many digits of a number."""
    if not value or not isfinite(value):
        return digits - 1
    return max(0, min(12, digits - 1 - floor(log10(abs(value)))))


def metric_title(name: str) -> str:
    """Return the title of a metric in a table, with the unit."""
    metric = METRICS[name]
    return f"{metric.title} in %" if metric.shown == "percent" else metric.title


def metric_text(name: str, value: float) -> str:
    """Return a value of a metric: ``79.1 %``, ``0.768``."""
    return spread_text(name, value) + ("\u00a0%" if METRICS[name].shown == "percent" else "")


def spread_text(name: str, mean: float, sd: float | None = None) -> str:
    """Return ``79.1 ± 1.8``, or the mean alone, without the unit."""
    factor, form, form_of_sd, _ = _FORMS[METRICS[name].shown]
    if not form:
        decimals = _decimals(mean, 4) if sd is None else _decimals(sd, 2)
        return " ± ".join(f"{each:,.{decimals}f}" for each in (mean, sd) if each is not None)
    text = f"{factor * mean:{form}}"
    return text if sd is None else f"{text} ± {factor * sd:{form_of_sd}}"


def change_text(name: str, difference: float) -> str:
    """Return a signed difference of two values of a metric, in percentage points for shares."""
    factor, *_, form = _FORMS[METRICS[name].shown]
    return f"{factor * difference:{form}}" if form else number_text(difference, 3, "+")


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


def short_name(name: str, columns: Sequence[str]) -> str:
    """Return the name of a value without that of its column: ``high`` for ``age high``."""
    for column in columns:
        for start in (column, column.split(": ", 1)[-1]):
            if name.startswith((f"{start}=", f"{start}:", f"{start} ")):
                return name[len(start) + 1 :]
    return name


def with_error(text: str, error: float | None) -> str:
    """Return a number's text with its standard error, if there is one: ``0.31 ± 0.02``."""
    return text if error is None else f"{text} ± {number_text(error, 2)}"


def to_page_json(content: Any) -> Any:
    """Convert contents for a page: numbers of four digits, short texts, lists; NaN to ``None``."""
    if isinstance(content, np.ndarray | np.generic):
        content = content.tolist()
    if isinstance(content, dict):
        return {name: to_page_json(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [to_page_json(value) for value in content]
    if isinstance(content, float):
        return None if np.isnan(content) else float(f"{content:.4g}") + 0.0
    return shorten(content) if isinstance(content, str) else content


def shorten(text: str) -> str:
    """Return a text on one line, without its middle if it is longer than 600 characters.

    Characters that could change the writing direction or are invalid in a page are escaped.
    """
    text = printable(re.sub(r"[\t\r\n]+", " ", text))
    return text if len(text) <= 600 else f"{text[:399]}…{text[-200:]}"


def make_table(
    rows: Iterable[Sequence[str | Text]],
    names: Sequence[str],
    numbers: Sequence[str] = (),
    more: Sequence[str] = (),
    *,
    line_after: int | None = None,
) -> RenderableType:
    """Return a table whose cells wrap, so that nothing is cut off.

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
    return Constrain(table, _MAX_WIDTH)


def bar(value: float, largest: float) -> Text:
    """Return a bar, green for a value above zero and red below it."""
    length = max(1, round(_BAR * abs(value) / largest)) if value else 0
    return Text("█" * length, style="green" if value > 0 else "red")
