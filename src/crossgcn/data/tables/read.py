"""Read tables from CSV, TSV, Parquet and XLSX files: whole, or in batches of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from crossgcn.data.seals import check_listed
from crossgcn.data.tables.delimited import (
    read_delimited,
    read_delimited_batches,
    read_delimited_headers,
)
from crossgcn.data.tables.frames import (
    make_table,
    read_parquet,
    read_parquet_batches,
    read_parquet_headers,
    read_workbook,
    read_workbook_batches,
    read_workbook_headers,
)
from crossgcn.data.tables.table import Batch, CellKind, Table
from crossgcn.errors import BadInput

Role = Literal["nodes", "edges"]

DELIMITED = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz")
PARQUET = (".parquet", ".pq")
WORKBOOKS = (".xlsx",)


@dataclass(frozen=True)
class Format:
    """How files of a format are read: whole, the headers alone, or in batches of rows."""

    read_all: Callable[[Path, str], Table]
    read_headers: Callable[[Path, str], tuple[str, ...]]
    read_batches: Callable[[Path, str, Mapping[str, CellKind], int], Iterator[Batch]]


_delimited = Format(read_delimited, read_delimited_headers, read_delimited_batches)
_parquet = Format(read_parquet, read_parquet_headers, read_parquet_batches)

_workbook = Format(read_workbook, read_workbook_headers, read_workbook_batches)

FORMATS = {
    **dict.fromkeys(DELIMITED, _delimited),
    **dict.fromkeys(PARQUET, _parquet),
    **dict.fromkeys(WORKBOOKS, _workbook),
}
"""How files are read, by their ending."""


def read_table(source: Path | str | pd.DataFrame | Table, role: Role) -> Table:
    """Read a whole file, or convert a DataFrame, to a table of text.

    Headers lose surrounding space, cells keep it. The index of a DataFrame becomes a column if
    it has a name. A CSV file may begin with a line such as ``sep=;``; otherwise ``.tsv`` and
    ``.tab`` files are split at tabs and others at the delimiter that splits the header into the
    most cells. A first column without a header is called :data:`INDEX_COLUMN`.
    """
    if isinstance(source, Table):
        table = source
    elif isinstance(source, pd.DataFrame):
        table = make_table(source, role)
    elif isinstance(source, str | os.PathLike):
        table = _find_format(source, role).read_all(Path(source), str(source))
    else:
        raise BadInput(
            f"{role}: {type(source).__name__!r} is not a table; give the path of a file, or a "
            "pandas DataFrame"
        )
    if len(table) == 0:
        raise BadInput(
            f"{table.name}: there are no rows of {role}, only headers; add at least one row"
        )
    return table


def read_headers(path: Path | str, role: Role = "edges") -> tuple[str, ...]:
    """Return the headers of a file without reading its rows."""
    return _find_format(path, role).read_headers(Path(path), str(path))


def read_batches(
    path: Path | str, columns: Mapping[str, CellKind], batch_rows: int, role: Role = "edges"
) -> Iterator[Batch]:
    """Read some columns of a file, at most about ``batch_rows`` rows at a time.

    Files are recognised as by :func:`read_table`, but quoted cells cannot contain line breaks.
    Needs pyarrow.
    """
    name, read = str(path), _find_format(path, role).read_batches
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise BadInput(
            f"{name}: reading {role} in batches needs pyarrow; pip install 'crossgcn[parquet]'"
        ) from None
    headers = read_headers(path, role)
    for header in columns:
        if header not in headers:
            raise BadInput(
                f"{name}: there is no column {header!r}; its columns are {', '.join(headers)}: "
                "give files with the same headers"
            )
    yield from read(Path(path), name, columns, batch_rows)


def _find_format(source: Path | str, role: Role) -> Format:
    """Return the format of an existing file by its ending."""
    name, path, endings = str(source), Path(source), ", ".join(FORMATS)
    if name == "-" or path.is_fifo() or path.is_char_device():
        raise BadInput(
            f"{name} is a pipe, which is not read: tables are read from files ending in "
            f"{endings}; write the table of {role} to such a file"
        )
    ending = next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise BadInput(
            f"{name}: the ending {path.suffix!r} is none of {endings}; save the table as CSV, TSV "
            "or Parquet"
        )
    if path.is_dir():
        raise BadInput(f"{name} is a folder; give the file of {role} in it")
    if not path.exists():
        raise BadInput(f"{name} does not exist; give the table of {role}")
    check_listed(path)
    return FORMATS[ending]
