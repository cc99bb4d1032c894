"""Write tables to CSV and Parquet files."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from crossgcn.data.files import replacing
from crossgcn.errors import BadInput

_FORMULA = re.compile(r"(?!-(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$)(?=\s*[=+\-@]|[\t\r])")
"""The start of text that a spreadsheet runs as a formula; not that of a negative number."""


def write_table(path: Path, frame: pd.DataFrame, *, verbatim: Collection[str] = ()) -> None:
    """Write a DataFrame without its index to ``.csv``, ``.parquet`` or ``.pq``, atomically.

    In CSV, text that a spreadsheet would run as a formula gets a leading apostrophe.

    Args:
        verbatim: Columns of the user's own ids and classes, which are written as they are.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".pq": _write_parquet}
    write = writers.get(path.suffix.lower())
    if write is None:
        raise BadInput(
            f"{path}: cannot tell the format from the name; end it in .csv or in .parquet"
        )
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}; make it, or write elsewhere")
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; give the name of a file in it")
    with replacing(path) as file:
        write(path, file, frame, verbatim)


def neutralise(text: str) -> str:
    """Put an apostrophe before a formula: ``=cmd()`` becomes ``'=cmd()``."""
    return f"'{text}" if _FORMULA.match(text) else text


def _write_csv(path: Path, file: BinaryIO, frame: pd.DataFrame, verbatim: Collection[str]) -> None:
    columns: dict[str, Any] = {}
    for name in frame.columns:
        cells = frame[name]
        if name not in verbatim and not pd.api.types.is_numeric_dtype(cells.dtype):
            neutral = [neutralise(cell) if isinstance(cell, str) else cell for cell in cells]
            cells = pd.Series(neutral, index=frame.index, dtype=object)
        columns[name if name in verbatim else neutralise(name)] = cells
    # Minimal quoting leaves a lone carriage return bare, and readers end the row there.
    returns = any(
        "\r" in str(text) for name, cells in columns.items() for text in (name, *cells.unique())
    )
    pd.DataFrame(columns, index=frame.index).to_csv(
        file,
        index=False,
        encoding="utf-8",
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
    )


def _write_parquet(
    path: Path, file: BinaryIO, frame: pd.DataFrame, verbatim: Collection[str]
) -> None:
    try:
        frame.to_parquet(file, engine="pyarrow", index=False)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{path}: Parquet cannot hold this table ({error}); give each column its own name "
            "and values of one type"
        ) from None
