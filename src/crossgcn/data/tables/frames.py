"""Convert DataFrames of any types to tables of text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

MOST_COLUMNS = 100_000
_LARGEST_EXACT_INTEGER = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""


def clean_headers(headers: Sequence[Any], name: str) -> list[str]:
    """Return headers as text without surrounding space; refuse missing and repeated ones.

    A first column without a header is the index of a DataFrame, and is named as pandas does.
    """
    if not len(headers):
        raise BadInput(f"{name}: there are no columns; give a table with a header row")
    if len(headers) > MOST_COLUMNS:
        raise BadInput(
            f"{name}: has {len(headers):,} columns, and tables may have {MOST_COLUMNS:,}; delete "
            "some, or give wide features as a graph file (.npz)"
        )
    cleaned = ["" if pd.isna(header) else str(header).strip() for header in headers]
    if not any(cleaned):
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    if cleaned[0] == "" and INDEX_COLUMN not in cleaned:
        cleaned[0] = INDEX_COLUMN
    first_at: dict[str, int] = {}
    for position, header in enumerate(cleaned, 1):
        if header == "":
            raise BadInput(
                f"{name}, row 1: column {position} of {len(cleaned)} has no header; name it, or "
                "delete the column"
            )
        if first_at.setdefault(header, position) < position:
            raise BadInput(
                f"{name}, row 1: columns {first_at[header]} and {position} are both called "
                f"{header!r}; rename one"
            )
    return cleaned


def make_table(
    frame: pd.DataFrame, name: str, *, first_row: int = 1, encoding: str = "UTF-8"
) -> Table:
    """Convert a DataFrame to a table of text; a named index becomes a column.

    Columns at the end without a header and without a value are left out.
    """
    if any(level is not None for level in frame.index.names):
        frame = frame.reset_index()
    headers = list(frame.columns)
    while len(headers) > 1 and (pd.isna(headers[-1]) or headers[-1] == ""):
        if frame.iloc[:, len(headers) - 1].replace("", None).notna().any():
            break
        headers.pop()
    texts, typed = {}, set()
    for position, header in enumerate(clean_headers(headers, name)):
        column = frame.iloc[:, position].reset_index(drop=True)
        if isinstance(column.dtype, pd.StringDtype) and not column.hasnans:
            texts[header] = column.astype("str")
            continue
        present = column.dropna().infer_objects()
        texts[header] = _write_as_text(present).reindex(column.index, fill_value="").astype("str")
        if pd.api.types.is_numeric_dtype(present) and not pd.api.types.is_bool_dtype(present):
            typed.add(header)
    return Table(name, pd.DataFrame(texts), first_row, encoding, frozenset(typed))


def _write_as_text(present: pd.Series[Any]) -> pd.Series[str]:
    """Return the text that a CSV file would hold in place of each value.

    Integers keep every digit. A column of floats that are all whole, which is what pandas makes
    of integers with gaps, is written without ``.0``; other floats in the fewest digits that read
    back the same. Times of day are left out where it is always midnight.
    """
    kind = present.dtype
    if pd.api.types.is_bool_dtype(kind):
        return present.astype("str").str.lower()
    if pd.api.types.is_float_dtype(kind):
        is_short = str(kind).lower().startswith(("float32", "float["))
        numbers = present.astype(np.float32 if is_short else np.float64)
        is_whole = np.isfinite(numbers) & (np.trunc(numbers) == numbers)
        are_exact = (is_whole & (abs(numbers) < _LARGEST_EXACT_INTEGER)).all()
        return (numbers.astype(np.int64) if are_exact else numbers).astype("str")
    if pd.api.types.is_datetime64_dtype(kind) or str(kind).startswith("timestamp"):
        return pd.to_datetime(present).astype("datetime64[us]").astype("str")
    if pd.api.types.is_object_dtype(kind) or str(kind).startswith("list"):
        return present.astype(object).map(_write_value).astype("str")
    return present.astype("str")


def _write_value(value: Any) -> str:
    """Write a value of a column of many types: lists as JSON."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple | np.ndarray):
        return json.dumps([_write_value(item) for item in value], ensure_ascii=False)
    return str(value)
