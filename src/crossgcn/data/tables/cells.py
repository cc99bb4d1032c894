"""Parse the text of cells: missing values, numbers and ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

MISSING_WORDS = frozenset({"na", "n/a", "nan", "null", "none"})
"""Words for a missing value, in lower case; blank cells are always missing."""

MOST_WEIGHT = 1e30  # the largest edge weight; sums of many larger ones overflow 32-bit floats
MAX_VALUE_LENGTH = 60  # characters of a cell that messages show

SPLIT_WORDS = {"train": 1, "training": 1, "validation": 2, "valid": 2, "val": 2, "test": 3}
"""Lower-case words of a split column, and the role each stands for."""

CODE = re.compile(r"0\d+")  # digits with leading zeros are not a number
WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")


class NumberStyle(BaseModel):
    """How the numbers of a column are written.

    Attributes:
        decimal: The decimal separator.
        thousands: The thousands separators that occur, such as ``,``.
        sign: The currency or percent sign of the column, or empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decimal: Literal[".", ","] = "."
    thousands: str = ""
    sign: str = ""

    def __str__(self) -> str:
        parts = ["decimal commas"] if self.decimal == "," else []
        parts += [f"{mark!r} between thousands" for mark in self.thousands]
        parts += [f"{self.sign!r}"] if self.sign else []
        return " with " + " and ".join(parts) if parts else ""


PLAIN = NumberStyle()

_PLAIN_DIGITS = re.compile(r"[0-9eE.+-]*")  # NumPy parses such text correctly
_NUMBERS = {
    decimal: re.compile(
        rf"[+-]?(?:inf|infinity|(?=[{decimal}]?[0-9])"
        rf"(?:[0-9]*|[0-9]{{1,3}}(?P<mark>[{thousands}'’\u00a0\u202f ])[0-9]{{3}}"
        rf"(?:(?P=mark)[0-9]{{3}})*)"
        rf"(?:[{decimal}][0-9]*)?(?:e[+-]?[0-9]+)?)",
        re.IGNORECASE,
    )
    for decimal, thousands in ((".", ","), (",", "."))
}
"""Patterns of numbers by decimal separator, with optional thousands separators (``mark``)."""
_SIGNS = re.compile(r"[$€£¥%]")
_IN_BRACKETS = re.compile(r"\(([^()+-].*)\)")
_POINT_AND_THREE = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_LEAST_POINTED = 20  # fewer numbers may all have three decimals by chance


def find_number_style(texts: Sequence[str]) -> NumberStyle:
    """Return how the numbers of a column are written.

    The decimal separator is a comma if more cells are numbers that way.
    """
    if _PLAIN_DIGITS.fullmatch("".join(texts)) and not any(t.count(".") > 1 for t in texts):
        return PLAIN
    signs = Counter(sign for text in texts for sign in _SIGNS.findall(text))
    if 2 * signs["%"] < len(texts):
        del signs["%"]  # cells with the sign are a minority, so they are the wrong ones
    sign = max(signs, key=lambda sign: signs[sign], default="")
    found = {}
    for style in NumberStyle(sign=sign), NumberStyle(decimal=",", sign=sign):
        found[style] = [match for match in (_match(text, style) for text in texts) if match]
    best = max(found, key=lambda style: len(found[style]))
    marks = {match["mark"] for match in found[best]} - {None}
    return best.model_copy(update={"thousands": "".join(sorted(marks))})


def _match(text: str, style: NumberStyle) -> re.Match[str] | None:
    """Match a number, ignoring brackets and the currency or percent sign."""
    text = text.replace("\N{MINUS SIGN}", "-")
    if negative := _IN_BRACKETS.fullmatch(text):
        text = f"-{negative[1].strip()}"
    if style.sign:
        sign = re.escape(style.sign)
        text = re.sub(rf"^([+-]?){sign}\s*|\s*{sign}$", r"\1", text, count=1)
    return _NUMBERS[style.decimal].fullmatch(text)


def parse_numbers(texts: Sequence[str], style: NumberStyle = PLAIN) -> NDArray[np.float64]:
    """Parse the cells of a column as numbers, infinities included; NaN where that fails.

    Digits are ASCII. ``$3,110`` and ``3.110,00 €`` are 3110, ``5 %`` is 5, and ``(12)`` is -12.
    """
    if style.decimal == "." and _PLAIN_DIGITS.fullmatch("".join(texts)):
        try:
            return np.array(texts, dtype=object).astype(np.float64)
        except ValueError:
            pass
    numbers = np.full(len(texts), np.nan)
    for position, text in enumerate(texts):
        if found := _match(text, style):
            digits = found[0].replace(found["mark"] or " ", "")
            numbers[position] = float(digits.replace(style.decimal, "."))
    return numbers


def find_contradictions(texts: Sequence[str], style: NumberStyle) -> list[str | None]:
    """Return how the text of each number contradicts the style of the training table, or None."""
    if style == PLAIN and _PLAIN_DIGITS.fullmatch("".join(texts)):
        return [None] * len(texts)
    reasons: list[str | None] = [None] * len(texts)
    for position, text in enumerate(texts):
        found = _match(text, style)
        if (style.sign == "%") != ("%" in text):
            reasons[position] = f"has {'a' if '%' in text else 'no'} percent sign"
        elif found and found["mark"] and found["mark"] not in style.thousands:
            reasons[position] = f"has {found['mark']!r} between digits"
    return reasons


def find_ambiguous_points(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which points may separate thousands, as in ``6.059``; none if other texts decide."""
    pointed = np.array(["." in text for text in texts], bool)
    may_be = np.array([bool(_POINT_AND_THREE.fullmatch(text)) for text in texts], bool)
    is_decided = (pointed & ~may_be).any() or pointed.sum() < _LEAST_POINTED
    return np.zeros(len(texts), bool) if is_decided else pointed


def are_whole(numbers: NDArray[np.float64]) -> bool:
    """Return whether all numbers are finite and without decimals."""
    return bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())


def plain_id(text: str) -> str:
    """Return ``7`` for ``7.0``, as programs write integers in columns with missing values."""
    whole = WHOLE.fullmatch(text) if text.endswith("0") else None
    return text if whole is None else whole[1]


def quote(value: str) -> str:
    """Return the text of a cell in quotes on one line, truncated if it is long."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"{value[:MAX_VALUE_LENGTH]!r}… ({len(value):,} characters)"
    return repr(value)
