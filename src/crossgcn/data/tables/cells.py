"""How cells are written: missing values, numbers and ids."""

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

MOST_WEIGHT = 1e30
"""The largest weight of an edge: sums of many larger ones exceed 32-bit floats."""

SPLIT_WORDS = {"train": 1, "training": 1, "validation": 2, "valid": 2, "val": 2, "test": 3}
"""Lower-case words of a split column, and the role each stands for."""

CODE = re.compile(r"0\d+")
"""Digits with leading zeros, which are not a number."""

WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")
"""A whole number with decimals, as some programs write codes in a column with gaps."""

MAX_VALUE_LENGTH = 60

Decimal = Literal[".", ","]


class NumberStyle(BaseModel):
    """How the numbers of a column are written.

    Attributes:
        decimal: The decimal sign.
        thousands: The marks between thousands that occur, such as ``,``.
        sign: The currency or percent sign of the column, if it has one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decimal: Decimal = "."
    thousands: str = ""
    sign: str = ""

    def __str__(self) -> str:
        parts = ["decimal commas"] if self.decimal == "," else []
        parts += [f"{mark!r} between thousands" for mark in self.thousands]
        parts += [f"{self.sign!r}"] if self.sign else []
        return " with " + " and ".join(parts) if parts else ""


PLAIN = NumberStyle()

_PLAIN_DIGITS = re.compile(r"[0-9eE.+-]*")
"""NumPy reads text made of these characters as it is meant."""
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
"""Numbers by the decimal sign, with or without marks between thousands."""
_SIGNS = re.compile(r"[$€£¥%]")
_IN_BRACKETS = re.compile(r"\(([^()+-].*)\)")
_POINT_AND_THREE = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")
_LEAST_POINTED = 20
"""Fewer numbers with three decimals may all have three by chance."""


def find_number_style(texts: Sequence[str]) -> NumberStyle:
    """Return how the numbers of a column are written.

    The decimal sign is a comma if more cells are numbers with it.
    """
    if _PLAIN_DIGITS.fullmatch("".join(texts)) and not any(t.count(".") > 1 for t in texts):
        return PLAIN
    signs = Counter(sign for text in texts for sign in _SIGNS.findall(text))
    if 2 * signs["%"] < len(texts):
        del signs["%"]  # the few cells with it are wrong, not those without
    sign = max(signs, key=lambda sign: signs[sign], default="")
    styles = [NumberStyle(decimal=mark, sign=sign) for mark in (".", ",")]
    found = [[_match(text, style) for text in texts] for style in styles]
    best = int(found[0].count(None) > found[1].count(None))
    marks = {match["mark"] for match in found[best] if match and match["mark"]}
    return styles[best].model_copy(update={"thousands": "".join(sorted(marks))})


def _match(text: str, style: NumberStyle) -> re.Match[str] | None:
    """Match a number without brackets and the currency or percent sign."""
    text = text.replace("\N{MINUS SIGN}", "-")
    if negative := _IN_BRACKETS.fullmatch(text):
        text = f"-{negative[1].strip()}"
    if style.sign:
        sign = re.escape(style.sign)
        text = re.sub(rf"^([+-]?){sign}\s*|\s*{sign}$", r"\1", text, count=1)
    return _NUMBERS[style.decimal].fullmatch(text)


def parse_numbers(texts: Sequence[str], style: NumberStyle = PLAIN) -> NDArray[np.float64]:
    """Return the number in each cell of a column, infinities included, NaN where there is none.

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
    """Return what contradicts the style of the training table in each number, if anything does."""
    if style == PLAIN and _PLAIN_DIGITS.fullmatch("".join(texts)):
        return [None] * len(texts)
    return [_find_contradiction(text, style) for text in texts]


def _find_contradiction(text: str, style: NumberStyle) -> str | None:
    if (style.sign == "%") != ("%" in text):
        return "has a percent sign" if "%" in text else "has no percent sign"
    found = _match(text, style)
    if found and found["mark"] and found["mark"] not in style.thousands:
        return f"has {found['mark']!r} between digits"
    return None


def find_ambiguous_points(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts, such as ``6.059``, may be thousands; none if some other text decides."""
    pointed = np.array(["." in text for text in texts], bool)
    may_be = np.array([bool(_POINT_AND_THREE.fullmatch(text)) for text in texts], bool)
    is_decided = (pointed & ~may_be).any() or pointed.sum() < _LEAST_POINTED
    return np.zeros(len(texts), bool) if is_decided else pointed


def are_whole(numbers: NDArray[np.float64]) -> bool:
    """Return whether all numbers are finite and without decimals."""
    return bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())


def plain_id(text: str) -> str:
    """Return ``7`` for ``7.0``, as programs write ids in a column with gaps."""
    whole = WHOLE.fullmatch(text) if text.endswith("0") else None
    return text if whole is None else whole[1]


def quote(value: str) -> str:
    """Return a cell's text in quotes on one line, cut when it is long."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"{value[:MAX_VALUE_LENGTH]!r}… ({len(value):,} characters)"
    return repr(value)
