"""Convert DataFrames of any types to tables of text."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

MOST_COLUMNS = 100_000
_LARGEST_EXACT_INTEGER = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""


def check_headers(headers: Sequence[str], name: str) -> None:
    """Raise an error if headers are missing or repeated."""
    if not headers:
        raise BadInput(f"{name}: there are no columns; give a table with a header row")
    if len(headers) > MOST_COLUMNS:
        raise BadInput(
            f"{name}: has {len(headers):,} columns, and tables may have {MOST_COLUMNS:,}; delete "
            "some, or give wide features as a graph file (.npz)"
        )
    seen: dict[str, int] = {}
    for position, header in enumerate(headers, 1):
        if header == "":
            raise BadInput(
                f"{name}, row 1: column {position} of {len(headers)} has no header; "
                "name it, or delete the column"
            )
        if header in seen:
            raise BadInput(
                f"{name}, row 1: columns {seen[header]} and {position} are both called "
                f"{header!r}; rename one"
            )
        seen[header] = position


def make_table(frame: pd.DataFrame, name: str) -> Table:
    """Convert a DataFrame of any types to a table of text."""
    if frame.columns.nlevels > 1:
        raise BadInput(
            f"{name}: the headers have {frame.columns.nlevels} levels; give one, for example by "
            "frame.columns = frame.columns.map('_'.join)"
        )
    named = [level for level in frame.index.names if level is not None]
    for level in named:
        if level in frame.columns or named.count(level) > 1:
            raise BadInput(
                f"{name}: the index and another column are both called {str(level)!r}; rename "
                "one, or drop the index: frame.reset_index(drop=True)"
            )
    if named:
        frame = frame.reset_index(level=named)
    headers = tuple("" if pd.isna(header) else str(header).strip() for header in frame.columns)
    check_headers(headers, name)
    columns, typed = {}, set()
    for position, header in enumerate(headers):
        column = frame.iloc[:, position]
        kind = column.dtype
        if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind):
            typed.add(header)
        try:
            columns[header] = _write_as_text(column)
        except UnicodeEncodeError as error:
            raise BadInput(
                f"{name}: column {header!r} holds {error.object!r}, half of a character; "
                "correct the text, for example by text.encode('utf-8', 'replace').decode()"
            ) from None
    return Table(name, pd.DataFrame(columns), first_row=1, typed=frozenset(typed))


def _write_as_text(column: pd.Series[Any]) -> pd.Series[str]:
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
