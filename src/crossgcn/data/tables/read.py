"""Read tables from CSV, TSV and Parquet files: whole, or in batches of rows."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from crossgcn.data.tables.frames import check_headers, make_table
from crossgcn.data.tables.table import Table, shorten
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

Role = Literal["nodes", "edges"]

CellKind = Literal["integer", "text", "number"]
"""Type of a column read in batches: 64-bit integers, text as written, or 64-bit floats."""

DELIMITED = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz")
PARQUET = (".parquet", ".pq")
DELIMITERS = (",", ";", "\t", "|")
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(
    rb"(?:\xef\xbb\xbf)?sep=(\t|[!#-&(-/:-@^|~])[ \t]*(?:\r\n|\n|\r)", re.IGNORECASE
)
"""A first line such as ``sep=;``, which tells a spreadsheet the delimiter and is not shown."""

INDEX_COLUMN = "Unnamed: 0"
"""What pandas calls a first column without a header: the index of a DataFrame it wrote."""

HEAD_BYTES = 1 << 18
BYTES_PER_ROW = 16
"""Bytes that Arrow reads at once per row of a batch; longer rows make smaller batches."""


def read_table(source: Path | str | pd.DataFrame, role: Role) -> Table:
    """Read a whole file, or convert a DataFrame, to a table of text.

    Headers lose surrounding space, cells keep it. The index of a DataFrame becomes a column if
    it has a name. A CSV file may begin with a line such as ``sep=;``; otherwise ``.tsv`` and
    ``.tab`` files are split at tabs and others at the delimiter that splits the header into the
    most cells. A first column without a header is called :data:`INDEX_COLUMN`.

    Raises:
        BadInput: Naming the file, the row and the value where possible, and the remedy.
    """
    if isinstance(source, pd.DataFrame):
        table = make_table(source, role)
    elif not isinstance(source, str | os.PathLike):
        raise BadInput(
            f"{role}: {type(source).__name__!r} is not a table; give the path of a file, or a "
            "pandas DataFrame"
        )
    elif _is_parquet(path := Path(source), name := str(source), role):
        with _reporting_broken_parquet(name), path.open("rb") as file:
            # With a path instead of a file, pyarrow makes columns of folders called a=b.
            frame = pd.read_parquet(file, engine="pyarrow", dtype_backend="pyarrow")
        table = make_table(frame, name)
    else:
        table = Table(name, _read_delimited(path, name), first_row=2)
    if len(table) == 0:
        raise BadInput(
            f"{table.name}: there are no rows of {role}, only headers; add at least one row"
        )
    return table


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a file.

    Attributes:
        name: The file as it was given.
        columns: Arrow arrays by header; empty cells are null.
        first_row: Number of the first row, counted as by :class:`Table`.
    """

    name: str
    columns: Mapping[str, pa.Array]
    first_row: int

    def error(self, header: str, position: int, what: str, remedy: str) -> BadInput:
        """Return an error that names file, row, column and value of a cell."""
        value = self.columns[header][position].as_py()
        shown = "an empty cell" if value is None else shorten(str(value))
        return BadInput(
            f"{self.name}, row {self.first_row + position}, column {header}: {shown} {what}; "
            f"{remedy}"
        )


def read_headers(path: Path | str, role: Role = "edges") -> tuple[str, ...]:
    """Return the headers of a file without reading its rows."""
    name, path = str(path), Path(path)
    if not _is_parquet(path, name, role):
        return _read_layout(_read_bytes(path, name, HEAD_BYTES), path, name).headers
    with _reporting_broken_parquet(name), path.open("rb") as file:
        import pyarrow.parquet as pq

        headers = tuple(pq.ParquetFile(file).schema_arrow.names)
    check_headers(headers, name)
    return headers


def read_batches(
    path: Path | str, columns: Mapping[str, CellKind], batch_rows: int, role: Role = "edges"
) -> Iterator[Batch]:
    """Read some columns of a file, at most about ``batch_rows`` rows at a time.

    Files are recognised as by :func:`read_table`, but quoted cells cannot contain line breaks.
    Needs pyarrow.

    Raises:
        BadInput: Naming the file, and the row, the column and the value where possible.
    """
    name, path = str(path), Path(path)
    is_parquet = _is_parquet(path, name, role)
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
    read = _parquet_batches if is_parquet else _delimited_batches
    yield from read(path, name, columns, batch_rows)


def _is_parquet(path: Path, name: str, role: Role) -> bool:
    """Return whether an existing file is Parquet by its ending; otherwise it is text."""
    ending = path.name.lower()
    if name == "-" or path.is_fifo() or path.is_char_device():
        raise BadInput(
            f"{name} is a pipe, which is not read: tables are read from files ending in "
            f"{', '.join(DELIMITED + PARQUET)}; write the table of {role} to such a file"
        )
    if not ending.endswith(DELIMITED + PARQUET):
        raise BadInput(
            f"{name}: the ending {path.suffix!r} is none of {', '.join(DELIMITED + PARQUET)}; "
            "save the table as CSV, TSV or Parquet"
        )
    if path.is_dir():
        raise BadInput(f"{name} is a folder; give the file of {role} in it")
    if not path.exists():
        raise BadInput(f"{name} does not exist; give the table of {role}")
    return ending.endswith(PARQUET)


@contextmanager
def _reporting_broken_parquet(name: str, after: str = "") -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise BadInput(
            f"{name}: reading Parquet needs pyarrow; pip install 'crossgcn[parquet]', "
            "or save the table as CSV"
        ) from None
    except BadInput:
        raise
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{name} cannot be read as Parquet{after} ({reason}); it is cut short or damaged: "
            "write it again"
        ) from None


@dataclass(frozen=True)
class _Layout:
    """How the rows of a text file are written.

    ``start`` is the byte at which the header begins, ``num_lines`` the number of lines before
    the first row below it.
    """

    delimiter: str
    headers: tuple[str, ...]
    start: int
    num_lines: int


def _read_layout(content: bytes, path: Path, name: str) -> _Layout:
    """Find the delimiter and the headers in the first bytes of a file, or in all of it."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"{name} is written as UTF-16; save it as 'CSV UTF-8'")
    separator = SEPARATOR_LINE.match(content)
    start = 0 if separator is None else separator.end()
    content = content[start:]
    if separator is not None:
        delimiter = separator[1].decode()
    elif path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        delimiter = "\t"
    else:
        delimiter = max(DELIMITERS, key=lambda mark: _count_headers(content, mark, name))
    rows, num_lines = _parse(content, delimiter, name, most=1)
    headers = [header.strip() for header in rows[0]] if rows else []
    if not headers:
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    if headers[0] == "" and len(headers) > 1 and INDEX_COLUMN not in headers:
        headers[0] = INDEX_COLUMN
    check_headers(tuple(headers), name)
    return _Layout(delimiter, tuple(headers), start, num_lines + (separator is not None))


def _count_headers(content: bytes, delimiter: str, name: str) -> int:
    try:
        rows, _ = _parse(content, delimiter, name, most=1)
    except BadInput:  # Quotes that end before another delimiter.
        return 0
    return len(rows[0]) if rows else 0


def _parse(
    content: bytes, delimiter: str, name: str, most: int | None = None
) -> tuple[list[list[str]], int]:
    """Return the first ``most`` rows, or all, and the number of lines they take."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    # A cell may be as long as the file: the default limit would report an open quote instead.
    limit = csv.field_size_limit(len(content) + 1)
    try:
        rows.extend(islice(reader, most))
    except csv.Error as error:
        what = f"quotes are wrong ({error})"
        if "unexpected end of data" in str(error):
            what = "a quote is opened and never closed"
        raise BadInput(
            f"{name}, row {len(rows) + 1}: {what}; close it, and write a quote inside quotes "
            'twice: ""'
        ) from None
    finally:
        csv.field_size_limit(limit)
    return rows, reader.line_num


def _read_bytes(path: Path, name: str, most: int = -1) -> bytes:
    """Read the first ``most`` bytes of a file, unpacked, or all."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != ".gz":
                content = file.read(most)
            else:
                try:
                    content = gzip.GzipFile(fileobj=file).read(most)
                except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                    raise BadInput(
                        f"{name} is not a complete gzip file ({error}); compress it again"
                    ) from None
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read ({error.strerror}); give a file you may read"
        ) from None
    if not content.strip():
        raise BadInput(f"{name} is empty; give a header row and at least one row below it")
    return content


def _read_delimited(path: Path, name: str) -> pd.DataFrame:
    content = _read_bytes(path, name)
    layout = _read_layout(content, path, name)
    content = content[layout.start :]
    _check_text(content, name)
    _, *cells = _parse(content, layout.delimiter, name)[0]
    while cells and _is_blank_line(cells[-1], layout.delimiter):
        cells.pop()
    if len(layout.headers) == 1:
        cells = [row or [""] for row in cells]
    _check_widths(cells, layout, name)
    columns = zip(*cells, strict=True) if cells else ([] for _ in layout.headers)
    frame = pd.DataFrame({at: pd.Series(column, dtype="str") for at, column in enumerate(columns)})
    frame.columns = pd.Index(layout.headers, dtype="str")
    return frame


def _check_text(content: bytes, name: str) -> None:
    def row_of(position: int) -> int:
        return len((content[:position] + b".").splitlines())

    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{name}, row {row_of(error.start)}: byte {error.object[error.start]:#04x} is not "
            "UTF-8; save the file as 'CSV UTF-8', or convert it: iconv -f latin1 -t utf-8"
        ) from None
    if b"\0" in content:
        raise BadInput(
            f"{name}, row {row_of(content.index(0))}: there is a NUL byte; write the file again "
            "as text"
        )


def _is_blank_line(cells: list[str], delimiter: str) -> bool:
    """Return whether a line holds only space; ``""`` is an empty cell instead."""
    if len(cells) > 1:
        return delimiter == "\t" and not any(map(str.strip, cells))
    return not cells or cells[0].isspace()


def _check_widths(cells: list[list[str]], layout: _Layout, name: str) -> None:
    width = len(layout.headers)
    for row, cell in enumerate(cells, 2):
        if len(cell) == width:
            continue
        if _is_blank_line(cell, layout.delimiter):
            raise BadInput(f"{name}, row {row} is empty; delete the line")
        parted = DELIMITER_NAMES.get(layout.delimiter, repr(layout.delimiter))
        remedy = (
            "put cells that contain one between quotes"
            if len(cell) > width
            else "add the cells that are missing, even if they are empty"
        )
        raise BadInput(
            f"{name}, row {row}: {len(cell)} cell(s) where the header has {width}, beginning "
            f"{', '.join(map(repr, cell[:3]))}; cells are separated by {parted}: {remedy}"
        )


def _delimited_batches(
    path: Path, name: str, columns: Mapping[str, CellKind], batch_rows: int
) -> Iterator[Batch]:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    layout = _read_layout(_read_bytes(path, name, HEAD_BYTES), path, name)
    num_read = 0
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(
                    use_threads=False,  # With threads, errors do not name the row.
                    block_size=max(1 << 16, batch_rows * BYTES_PER_ROW),
                    column_names=list(layout.headers),
                    skip_rows=layout.num_lines,
                ),
                arrow_csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=False),
                arrow_csv.ConvertOptions(
                    column_types={header: _arrow_type(kind) for header, kind in columns.items()},
                    include_columns=list(columns),
                    null_values=[""],
                ),
            )
            for batch in reader:
                arrays = {header: batch.column(header) for header in columns}
                yield Batch(name, arrays, num_read + 2)
                num_read += len(batch)
    except pa.ArrowInvalid as error:
        raise _explain_arrow(str(error), layout, name, num_read) from None
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read after row {num_read + 1:,} ({error}); it is cut short or "
            "damaged: write or download it again"
        ) from None


def _explain_arrow(message: str, layout: _Layout, name: str, num_read: int) -> BadInput:
    """Return Arrow's message about a CSV file with file, row, value and remedy."""
    line = re.search(r"Row #(\d+)", message)
    row = num_read + 2 if line is None else int(line[1]) - layout.num_lines + 1
    value = re.search(r"invalid value '(.*)'", message, re.DOTALL)
    if value is None:
        reason = message.splitlines()[0].split(": ", 2)[-1]
        return BadInput(
            f"{name}, row {row}: {reason}; correct the row, or download the file again if it was "
            "cut short"
        )
    column = re.search(r"column #(\d+)", message)
    header = "" if column is None else f", column {layout.headers[int(column[1])]}"
    kind = "number" if "double" in message else "whole number, as others are"
    return BadInput(
        f"{name}, row {row}{header}: {shorten(value[1])} is not a {kind}; correct the cell, or "
        "give a table of nodes with this id"
    )


def _parquet_batches(
    path: Path, name: str, columns: Mapping[str, CellKind], batch_rows: int
) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    num_read = 0
    with path.open("rb") as file:
        with _reporting_broken_parquet(name):
            batches = pq.ParquetFile(file).iter_batches(batch_rows, columns=list(columns))
        while True:
            with _reporting_broken_parquet(name, f" after row {num_read:,}" if num_read else ""):
                batch = next(batches, None)
            if batch is None:
                return
            arrays = {
                header: _cast(batch.column(header), header, kind, name, num_read + 1)
                for header, kind in columns.items()
            }
            yield Batch(name, arrays, num_read + 1)
            num_read += len(batch)


def _cast(column: pa.Array, header: str, kind: CellKind, name: str, first_row: int) -> pa.Array:
    import pyarrow as pa

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if kind == "text" and pa.types.is_floating(column.type):
            column = column.cast(pa.int64())  # Whole numbers have no point as text.
        return column.cast(_arrow_type(kind))
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"{name}, from row {first_row} on, column {header}: cannot be read as {kind} "
            f"({reason}); correct the column"
        ) from None


def _arrow_type(kind: CellKind) -> pa.DataType:
    import pyarrow as pa

    return {"integer": pa.int64(), "text": pa.string(), "number": pa.float64()}[kind]
