"""Write a table as CSV or Parquet, atomically."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from crossgcn.data.files import replacing
from crossgcn.errors import BadInput

_STARTS = r"=+\-@\uff1d\uff0b\uff0d\uff20"  # the last four are full-width forms
_SEPARATORS = r";|\t\r\n"
_FORMULA = re.compile(
    rf"(?:^|(?<=[{_SEPARATORS}]))"  # where a cell may start
    rf"(?!-(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:$|[{_SEPARATORS}]))"  # not a negative number
    rf"(?=\s*[{_STARTS}]|[\t\r\n])"
)


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a DataFrame without its index to ``.csv``, ``.parquet`` or ``.pq``, atomically.

    In CSV, text that a spreadsheet would run as a formula gets a leading apostrophe, also in
    headers: see :func:`neutralise`. Parquet keeps all text: its cells have types, so no program
    takes text for a formula, and ids must come back unchanged.
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
        write(path, file, frame)


def neutralise(text: str) -> str:
    """Put an apostrophe before formulas: ``=cmd()`` becomes ``'=cmd()``.

    Formulas start with ``=``, ``+``, ``-`` or ``@``, also in their full-width forms and after
    blanks. A spreadsheet that splits cells at semicolons, tabs or bars may find one inside the
    text as well. Negative numbers stay as they are.
    """
    return _FORMULA.sub("'", text)


def _write_csv(path: Path, file: BinaryIO, frame: pd.DataFrame) -> None:
    header = [neutralise(str(name)) for name in frame.columns]
    columns = [frame.iloc[:, position] for position in range(frame.shape[1])]
    safe = {position: _neutralise_column(column) for position, column in enumerate(columns)}
    # Minimal quoting leaves a lone carriage return bare, and readers end the row there.
    bare_return = any("\r" in name for name in header) or any(map(_has_return, safe.values()))
    pd.DataFrame(safe, index=frame.index).to_csv(
        file,
        header=header,
        index=False,
        encoding="utf-8",
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if bare_return else csv.QUOTE_MINIMAL,
    )


def _neutralise_column(column: pd.Series) -> pd.Series:
    kind = column.dtype
    if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        return column
    cells = [neutralise(cell) if isinstance(cell, str) else cell for cell in column]
    return pd.Series(cells, index=column.index, dtype=object)


def _has_return(column: pd.Series) -> bool:
    return column.dtype == object and any("\r" in cell for cell in column if isinstance(cell, str))


def _write_parquet(path: Path, file: BinaryIO, frame: pd.DataFrame) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise BadInput(
            f"{path}: writing Parquet needs pyarrow; pip install 'crossgcn[parquet]', "
            "or end the name in .csv"
        )
    try:
        frame.to_parquet(file, engine="pyarrow", index=False)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{path}: Parquet cannot hold this table ({error}); give each column its own name "
            "and values of one type"
        ) from None
