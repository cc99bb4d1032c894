"""How cells are written: numbers, dates, flags, codes and lists of words."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MISSING_WORDS = frozenset({"na", "n/a", "nan", "null", "none"})
"""Words for a missing value, in lower case; blank cells are always missing."""

MAX_NUMBER = float(np.finfo(np.float32).max)
"""The largest weight of an edge, and number to predict."""

TRUE_WORDS = frozenset({"true", "yes", "y", "t"})
FALSE_WORDS = frozenset({"false", "no", "n", "f"})

SPLIT_WORDS = {"train": 1, "training": 1, "validation": 2, "valid": 2, "val": 2, "test": 3}
"""Lower-case words of a split column, and the role each stands for."""

DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
)
CODE = re.compile(r"0\d+")
"""Digits with leading zeros, which are not a number."""

WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")
"""A whole number with decimals, as some programs write codes in a column with gaps."""

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)
_PLAIN_DIGITS = re.compile(r"[0-9eE.+-]*")
"""NumPy and :func:`parse_number` agree on text made of these characters."""

_MARKS = r"[.,'’\u00a0\u202f ]"
_DIGITS = rf"[0-9]+(?:{_MARKS}[0-9]{{3}})*(?:[.,][0-9]+)?"
_GROUPED = re.compile(rf"[+-]?{_DIGITS}")
_WITH_UNIT = re.compile(
    rf"(?P<before>[$€£¥]?)\s?[+-]?{_DIGITS}\s?(?P<after>[a-zA-Z%°$€£¥µ/²³]{{0,8}})"
)

MAX_VALUE_LENGTH = 60

Separator = Literal["json", ";", "|", ",", " "]


def parse_number(text: str) -> float | None:
    """Return the number in a cell, infinities included, or None.

    Digits are ASCII, the decimal sign is a point, and nothing separates thousands: ``1,5``,
    ``1 000`` and ``1_000`` are not numbers. Surrounding space is ignored.
    """
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def parse_numbers(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the number in each cell, NaN where there is none."""
    if _PLAIN_DIGITS.fullmatch("".join(texts)):
        try:
            return np.array(texts, dtype=object).astype(np.float64)
        except ValueError:
            pass
    parsed = map(parse_number, texts)
    return np.array([np.nan if number is None else number for number in parsed], np.float64)


def are_whole(numbers: NDArray[np.float64]) -> bool:
    """Return whether all numbers are finite and without decimals."""
    return bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())


def find_numbers_as_text(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts are numbers with separators of thousands, or with the usual unit."""
    matches = [_WITH_UNIT.fullmatch(text) for text in texts]
    units = [match["before"] + match["after"].lower() if match else "" for match in matches]
    (common, _), *_ = [*Counter(filter(None, units)).most_common(1), ("", 0)]
    found = [
        bool(_GROUPED.fullmatch(text)) or (unit != "" and unit == common)
        for text, unit in zip(texts, units, strict=True)
    ]
    return np.array(found, dtype=bool)


def how_to_write_number(value: str) -> str:
    """Return what to write instead of a cell that is not a number."""
    text = value.strip()
    stripped = re.sub(r"^[$€£¥]\s?|\s?[a-zA-Z%°$€£¥µ/²³]{1,8}$", "", text)
    if stripped != text and (parse_number(stripped) is not None or _GROUPED.fullmatch(stripped)):
        return f"write it without the unit: {_ungroup(stripped)}"
    if _GROUPED.fullmatch(text):
        return f"write a point for decimals and nothing between thousands: {_ungroup(text)}"
    return "write a number"


def _ungroup(text: str) -> str:
    """Return the number that was meant: a mark that occurs once, and last, separates decimals."""
    if parse_number(text) is not None:
        return text
    marks = re.findall(_MARKS, text)
    last = marks[-1]
    whole, _, rest = text.rpartition(last)
    has_decimals = last in ".," and marks.count(last) == 1 and not (last == "," and len(rest) == 3)
    digits = re.sub(r"[^0-9+-]", "", whole if has_decimals else text)
    return f"{digits}.{rest}" if has_decimals else digits


def find_separator(cells: Sequence[str]) -> Separator:
    """Return the separator that most cells of a column contain."""
    if sum(cell.startswith("[") and cell.endswith("]") for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def split_words(cell: str, separator: Separator) -> list[str]:
    """Return the different words of a cell in order, without surrounding space.

    With ``json``, a cell that is not a JSON array is split at commas; brackets and quotes are
    dropped.
    """
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def _split_json(cell: str) -> list[str]:
    try:
        content = json.loads(cell)
    except ValueError:
        content = None
    if isinstance(content, list):
        return [item if isinstance(item, str) else json.dumps(item) for item in content]
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]


def fold_spelling(text: str) -> str:
    """Return the text without case, extra spaces and variants of encoding accents."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def quote(value: str) -> str:
    """Return a cell's text in quotes on one line, cut when it is long."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"{value[:MAX_VALUE_LENGTH]!r}… ({len(value):,} characters)"
    return repr(value)
