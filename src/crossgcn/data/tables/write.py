"""Write tables to CSV and Parquet files."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from pathlib import Path

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
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet", ".pq"):
        raise BadInput(
            f"{path}: cannot tell the format from the name; end it in .csv or in .parquet"
        )
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}; make it, or write elsewhere")
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; give the name of a file in it")
    with replacing(path) as file:
        if ending == ".csv":
            file.write(_as_csv(frame, verbatim).encode())
            return
        try:
            frame.to_parquet(file, engine="pyarrow", index=False)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{path}: Parquet cannot hold this table ({error}); give each column its own name "
                "and values of one type"
            ) from None


def neutralise(text: str) -> str:
    """Put an apostrophe before a formula: ``=cmd()`` becomes ``'=cmd()``."""
    return f"'{text}" if _FORMULA.match(text) else text


def _as_csv(frame: pd.DataFrame, verbatim: Collection[str]) -> str:
    texts = frame.select_dtypes(exclude="number").columns.difference(list(verbatim), sort=False)
    safe = frame.astype(dict.fromkeys(texts, object))
    safe[texts] = safe[texts].map(lambda cell: neutralise(cell) if isinstance(cell, str) else cell)
    safe.columns = [name if name in verbatim else neutralise(name) for name in frame.columns]
    text: str = safe.to_csv(index=False, lineterminator="\n")
    if "\r" in text:
        # Minimal quoting leaves a lone carriage return bare, and readers end the row there.
        text = safe.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text
