"""Names and numbers as the report of a run writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from crossgcn.evaluation.statistics import summarise

__all__ = [
    "list_environment",
    "lost",
    "number",
    "percent",
    "points",
    "readable",
    "shorten",
    "signed",
    "spread",
]

LONGEST_NAME: Final = 160
"""Of a column, a value or a class; what is longer loses its middle."""

_UNPRINTABLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def readable(text: str) -> str:
    """The text without what no page can hold or what would turn its neighbours around.

    Control characters, halves of surrogate pairs and marks of writing direction
    become a replacement character each; line ends and tabs become spaces.
    """
    return _UNPRINTABLE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """A name that has something to see and an end.

    Args:
        name: Whatever the user's table says.
        longest: How many characters to keep: more of the beginning than of the end.
    """
    name = readable(name)
    if not name.strip():
        return "(empty)"
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def percent(share: float | None, digits: int = 1) -> str:
    """A fraction as a percentage; a dash where there is none."""
    return "—" if share is None else f"{100 * share:.{digits}f}\u00a0%"


def points(difference: float) -> str:
    """A difference of two fractions in percentage points, with its sign."""
    return signed(100 * difference, 1)


def lost(drop: float) -> str:
    """A drop of a fraction in percentage points; below zero it is a gain."""
    return signed(100 * drop, 1).removeprefix("+")


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, and a true minus; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def number(count: int) -> str:
    """A count with its thousands set apart."""
    return f"{count:,}"


def spread(values: Sequence[float]) -> str:
    """Fractions as mean ± standard deviation, in percent."""
    summary = summarise(values)
    deviation = "" if summary.sd is None else f" ± {100 * summary.sd:.1f}"
    return f"{100 * summary.mean:.1f}{deviation}\u00a0%"


def list_environment(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a record says of where it was made, a line for each name."""
    rows = []
    for name, value in environment.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {each}" for key, each in value.items())
        if value is not None:
            rows.append((name.replace("_", " "), str(value)))
    return rows
