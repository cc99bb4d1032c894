"""Typed columns written as the text that a CSV file would hold, no digit lost."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["write_as_text"]

EXACT_INTEGERS = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""


def write_as_text(column: pd.Series[Any]) -> pd.Series[str]:
    """Write a column as text: the same text whichever kind of file it came from.

    Integers become their digits, so that ids of 64 bits keep every one. A column of
    floats that are all whole, as integers with gaps become in pandas, is written
    without ``.0``; other floats in the fewest digits that read back the same. Truth
    values become ``true`` and ``false``; points in time ISO 8601, without the time of
    day where it is always midnight; lists JSON. A missing value becomes an empty cell.

    Args:
        column: Of any type.
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
        texts[~missing] = _write_floats(present.to_numpy(dtype=_float_type(kind)))
    else:
        texts[~missing] = _write_objects(present.astype(object).tolist())
    return pd.Series(texts, dtype="str")


def _float_type(kind: Any) -> Any:
    name = str(kind).lower()
    return np.float32 if name.startswith(("float32", "float[")) else np.float64


def _write_floats(values: NDArray[Any]) -> NDArray[np.str_]:
    whole = np.isfinite(values) & (np.trunc(values) == values) & (abs(values) < EXACT_INTEGERS)
    return values.astype(np.int64).astype(str) if whole.all() else values.astype(str)


def _write_times(values: list[Any]) -> list[str]:
    if all(value.time() == datetime.time() and value.tzinfo is None for value in values):
        return [value.date().isoformat() for value in values]
    return [value.isoformat() for value in values]


def _write_objects(values: list[Any]) -> list[str]:
    if values and all(isinstance(value, datetime.datetime) for value in values):
        return _write_times(values)
    if values and all(isinstance(value, float | np.floating) for value in values):
        return list(map(str, _write_floats(np.array(values, np.float64))))
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
