"""What a single cell says: text, a number, a list of words, or nothing."""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MISSING_WORDS = frozenset({"na", "n/a", "nan", "null", "none"})
"""Words for a missing value, in lower case; blank cells are always missing."""

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)

_LARGEST_EXACT_INTEGER = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""

Separator = Literal["json", ";", "|", ",", " "]


def parse_number(text: str) -> float | None:
    """Return the number in a cell, infinities included, or None.

    Digits are ASCII, the decimal sign is a point, and nothing separates thousands: ``1,5``,
    ``1 000`` and ``1_000`` are not numbers. Surrounding space is ignored.
    """
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


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


def find_separator(cells: Sequence[str]) -> Separator:
    """Return the separator that most cells of a column contain."""
    if sum(cell.startswith("[") and cell.endswith("]") for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def shorten(text: str, length: int = 40) -> str:
    """Return a value as messages show it: in quotes, and cut when it is long."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


def fold_spelling(text: str) -> str:
    """Return the text without case, extra spaces and variants of encoding accents."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


def write_as_text(column: pd.Series[Any]) -> pd.Series[str]:
    """Convert a column of any type to text, the same text as a CSV file would hold.

    Integers keep every digit. A column of floats that are all whole, which is what pandas makes
    of integers with gaps, is written without ``.0``; other floats in the fewest digits that read
    back the same. Booleans become ``true`` and ``false``, times ISO 8601 (without the time of
    day where it is always midnight), lists JSON, and missing values empty cells.
    """
    missing = column.isna().to_numpy(dtype=bool)
    present = column[~missing]
    kind = present.dtype
    texts = np.full(len(column), "", dtype=object)
    if pd.api.types.is_bool_dtype(kind):
        texts[~missing] = np.where(present.to_numpy(dtype=bool), "true", "false")
    elif pd.api.types.is_integer_dtype(kind):
        unsigned = pd.api.types.is_unsigned_integer_dtype(kind)
        texts[~missing] = present.to_numpy(dtype=np.uint64 if unsigned else np.int64).astype(str)
    elif pd.api.types.is_float_dtype(kind):
        is_short = str(kind).lower().startswith(("float32", "float["))
        texts[~missing] = _write_floats(
            present.to_numpy(dtype=np.float32 if is_short else np.float64)
        )
    else:
        texts[~missing] = _write_objects(present.astype(object).tolist())
    return pd.Series(texts, dtype="str")


def _write_floats(values: NDArray[Any]) -> NDArray[np.str_]:
    is_whole = np.isfinite(values) & (np.trunc(values) == values)
    if (is_whole & (abs(values) < _LARGEST_EXACT_INTEGER)).all():
        return values.astype(np.int64).astype(str)
    return values.astype(str)


def _write_objects(values: list[Any]) -> list[str]:
    if values and all(isinstance(value, float | np.floating) for value in values):
        return list(map(str, _write_floats(np.array(values, np.float64))))
    if all(
        isinstance(value, datetime.datetime)
        and value.time() == datetime.time()
        and value.tzinfo is None
        for value in values
    ):
        return [value.date().isoformat() for value in values]
    return [_write_object(value) for value in values]


def _write_object(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple | np.ndarray):
        return json.dumps([_write_object(item) for item in value], ensure_ascii=False)
    return str(value)
