"""How cells are written: missing values, numbers, dates and ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
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

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)
_PLAIN_DIGITS = re.compile(r"[0-9eE.+-]*")
"""NumPy reads text made of these characters as it is meant."""
_MARKS = ".,'’\u00a0\u202f "
_BETWEEN_THOUSANDS = re.compile(rf"(?<=[0-9])[{_MARKS}](?=[0-9]{{3}}(?![0-9]))")
_SIGNS = re.compile(r"[$€£¥%]")
_MARKED = {
    decimal: re.compile(
        rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:(?P<mark>[{thousands}'’\u00a0\u202f ])[0-9]{{3}})"
        rf"(?:(?P=mark)[0-9]{{3}})*)(?:[{decimal}][0-9]+)?"
    )
    for decimal, thousands in ((".", ","), (",", "."))
}
"""Numbers with separated thousands, by the decimal sign."""
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
    signs = Counter(sign for text in texts for sign in _SIGNS.findall(text)).most_common(1)
    styles = [NumberStyle(decimal=mark, sign=signs[0][0] if signs else "") for mark in (".", ",")]
    counts = [int((~np.isnan(parse_numbers(texts, style))).sum()) for style in styles]
    style = styles[counts[1] > counts[0]]
    marks = {mark for text in texts for mark in _BETWEEN_THOUSANDS.findall(text)}
    thousands = "".join(sorted(marks - {style.decimal}))
    return style.model_copy(update={"thousands": thousands})


def parse_numbers(texts: Sequence[str], style: NumberStyle = PLAIN) -> NDArray[np.float64]:
    """Return the number in each cell of a column, infinities included, NaN where there is none.

    Digits are ASCII. ``$3,110`` and ``3.110,00 €`` are 3110, ``5 %`` is 5, and ``(12)`` is -12.
    """
    if style.decimal == "." and _PLAIN_DIGITS.fullmatch("".join(texts)):
        try:
            return np.array(texts, dtype=object).astype(np.float64)
        except ValueError:
            pass
    return np.array([_parse_number(text, style) for text in texts], np.float64)


def _parse_number(text: str, style: NumberStyle) -> float:
    text = text.replace("\N{MINUS SIGN}", "-")
    if negative := _IN_BRACKETS.fullmatch(text):
        text = f"-{negative[1].strip()}"
    if style.sign:
        sign = re.escape(style.sign)
        text = re.sub(rf"^([+-]?){sign}\s*|\s*{sign}$", r"\1", text, count=1)
    if style.decimal == "." and _NUMBER.fullmatch(text):
        return float(text)
    if not _MARKED[style.decimal].fullmatch(text):
        return np.nan
    return float(re.sub(f"(?!{re.escape(style.decimal)})[{_MARKS}]", "", text).replace(",", "."))


def find_contradiction(text: str, style: NumberStyle) -> str | None:
    """Return what contradicts the style of the training table in a number, if anything does."""
    if (style.sign == "%") != ("%" in text):
        return "has a percent sign" if "%" in text else "has no percent sign"
    for mark in _BETWEEN_THOUSANDS.findall(text):
        if mark != style.decimal and mark not in style.thousands:
            return f"has {mark!r} between digits"
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


DATE_FORMATS = (
    *("%Y-%m-%d", "%Y-%m", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%m.%d.%Y"),
    *("%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%b %d %Y", "%B %d %Y", "%b %d, %Y", "%B %d, %Y"),
)
"""How dates may be written; of formats that fit as many cells, the first is taken."""

_MAY_BE_DATE = re.compile(
    r"(?P<day>\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{4}"
    r"|[A-Za-z]{3,9} \d{1,2},? \d{4})(?:[T ]\d{1,2}:\d{2}.*)?"
)


def parse_dates(texts: Sequence[str], format_: str) -> pd.Series[pd.Timestamp]:
    """Return the day in each cell, NaT where there is none; the time of day is left out."""
    found = [_MAY_BE_DATE.fullmatch(text) for text in texts]
    days = pd.Series([match["day"] if match else None for match in found], dtype="str")
    return pd.to_datetime(days, format=format_, errors="coerce")


def find_date_formats(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return the formats that fit most texts, and how many; no format if there is no date."""
    likely = [text for text in texts if _MAY_BE_DATE.fullmatch(text)]
    if not likely:
        return []
    fits = [(each, int(parse_dates(likely, each).notna().sum())) for each in DATE_FORMATS]
    most = max(count for _, count in fits)
    return [(each, count) for each, count in fits if count == most > 0]


def quote(value: str) -> str:
    """Return a cell's text in quotes on one line, cut when it is long."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"{value[:MAX_VALUE_LENGTH]!r}… ({len(value):,} characters)"
    return repr(value)
