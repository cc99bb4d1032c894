"""Read tables from CSV, TSV, Parquet and XLSX files: whole, or in batches of rows."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import pandas as pd

from crossgcn.data.files import check_unpacked, unpack_limit
from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.frames import (
    check_headers,
    make_table,
    read_parquet,
    read_parquet_batches,
    read_parquet_headers,
    read_workbook,
    read_workbook_batches,
)
from crossgcn.data.tables.table import INDEX_COLUMN, Batch, CellKind, Table, arrow_type
from crossgcn.errors import BadInput

DELIMITERS = (",", ";", "\t", "|")
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(
    rb"(?:\xef\xbb\xbf)?sep=(\t|[!#-&(-/:-@^|~])[ \t]*(?:\r\n|\n|\r)", re.IGNORECASE
)
"""A first line such as ``sep=;``, which tells a spreadsheet the delimiter and is not shown."""

UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

HEAD_BYTES = 1 << 18
BYTES_PER_ROW = 16
"""Bytes that Arrow reads at once per row of a batch; longer rows make smaller batches."""


def _read_bytes(path: Path, name: str, most: int = -1) -> bytes:
    """Read the first ``most`` bytes of a file, unpacked, or all."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != ".gz":
                content = file.read(most)
            else:
                try:
                    limit = unpack_limit(path) + 1 if most < 0 else most
                    content = gzip.GzipFile(fileobj=file).read(limit)
                    check_unpacked(path, len(content))
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


def read_delimited(path: Path, name: str) -> Table:
    """Read a whole file."""
    content, _, encoding = _decode(_read_bytes(path, name))
    layout = _read_layout(content, path, name)
    content = content[layout.start :]
    if b"\0" in content:
        row = len((content[: content.index(0)] + b".").splitlines())
        raise BadInput(f"{name}, row {row}: there is a NUL byte; write the file again as text")
    _, *rows = _parse(content, layout.delimiter, name)[0]
    while rows and _is_blank_line(rows[-1], layout.delimiter):
        rows.pop()
    width = len(layout.headers)
    rows = [
        cells if len(cells) == width else _fit_row(cells, row, layout, name)
        for row, cells in enumerate(rows, 2)
    ]
    columns = zip(*rows, strict=True) if rows else ([] for _ in layout.headers)
    frame = pd.DataFrame({at: pd.Series(column, dtype="str") for at, column in enumerate(columns)})
    frame.columns = pd.Index(layout.headers, dtype="str")
    return Table(name, frame, first_row=2, encoding=encoding)


def read_head(path: Path, name: str) -> tuple[Layout, str]:
    """Return how the rows of a file are written, and its codec."""
    content = _read_bytes(path, name, HEAD_BYTES)
    if len(content) == HEAD_BYTES:
        content = content[: content.rfind(b"\n") + 1] or content
    content, codec, _ = _decode(content)
    return _read_layout(content, path, name), codec


def _utf_16_codec(content: bytes) -> str | None:
    """Return the codec of a file in UTF-16, with or without a mark at its start, or None."""
    if content.startswith(UTF_16_MARKS):
        return "utf-16"
    head = content[:2000]
    second, first = head[1::2].count(0), head[::2].count(0)
    if max(first, second) < 0.4 * len(head[::2]) or min(first, second) > 0:
        return None
    return "utf-16-le" if second > first else "utf-16-be"


def _decode(content: bytes) -> tuple[bytes, str, str]:
    """Return the text of a file in UTF-8, the codec of the file, and its encoding in words."""
    utf_16 = _utf_16_codec(content)
    # Windows has printable characters where Latin-1 has controls.
    codecs = {"utf8": "UTF-8", "cp1252": "latin-1", "latin-1": "latin-1"}
    for codec, encoding in (codecs if utf_16 is None else {utf_16: "UTF-16"}).items():
        with suppress(UnicodeDecodeError):
            text = content.decode(codec)
            return content if codec == "utf8" else text.encode(), codec, encoding
    return content.decode(codec, "replace").encode(), codec, encoding


def _is_blank_line(cells: list[str], delimiter: str) -> bool:
    """Return whether a line holds only space; ``""`` is an empty cell instead."""
    if len(cells) > 1:
        return delimiter == "\t" and not any(map(str.strip, cells))
    return not cells or cells[0].isspace()


def _fit_row(cells: list[str], row: int, layout: Layout, name: str) -> list[str]:
    """Return a row without the empty cells that have no header; refuse another wrong length."""
    width = len(layout.headers)
    if len(cells) == width + layout.num_unnamed:
        if any(map(str.strip, cells[width:])):
            raise BadInput(
                f"{name}, row {row}: {quote(' '.join(cells[width:]))} is in a column without a "
                "header; name it in row 1, or delete the column"
            )
        return cells[:width]
    if width == 1 and not cells:
        return [""]
    if _is_blank_line(cells, layout.delimiter):
        raise BadInput(f"{name}, row {row} is empty; delete the line")
    parted = DELIMITER_NAMES.get(layout.delimiter, repr(layout.delimiter))
    remedy = (
        "put cells that contain one between quotes"
        if len(cells) > width
        else "add the cells that are missing, even if they are empty"
    )
    raise BadInput(
        f"{name}, row {row}: {len(cells)} cell(s) where the header has {width}, beginning "
        f"{', '.join(map(repr, cells[:3]))}; cells are separated by {parted}: {remedy}"
    )


def read_delimited_batches(
    path: Path, name: str, columns: Mapping[str, CellKind], batch_rows: int
) -> Iterator[Batch]:
    """Read some columns of a file, at most about ``batch_rows`` rows at a time."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    layout, codec = read_head(path, name)
    num_read = 0
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(
                    use_threads=False,  # With threads, errors do not name the row.
                    block_size=max(1 << 16, batch_rows * BYTES_PER_ROW),
                    column_names=[
                        *layout.headers,
                        *(f"\0{position}" for position in range(layout.num_unnamed)),
                    ],
                    skip_rows=layout.num_lines,
                    encoding=codec,
                ),
                arrow_csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=False),
                arrow_csv.ConvertOptions(
                    column_types={header: arrow_type(kind) for header, kind in columns.items()},
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
    except (OSError, UnicodeError) as error:
        raise BadInput(
            f"{name} cannot be read after row {num_read + 1:,} ({error}); it is cut short or "
            "damaged: write or download it again"
        ) from None


def _explain_arrow(message: str, layout: Layout, name: str, num_read: int) -> BadInput:
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
        f"{name}, row {row}{header}: {quote(value[1])} is not a {kind}; correct the cell, or "
        "give a table of nodes with this id"
    )


@dataclass(frozen=True)
class Layout:
    """How the rows of a text file are written.

    ``start`` is the byte at which the header begins, ``num_lines`` the number of lines before
    the first row below it, and ``num_unnamed`` the number of empty headers after the last one.
    """

    delimiter: str
    headers: tuple[str, ...]
    start: int
    num_lines: int
    num_unnamed: int = 0


def _read_layout(content: bytes, path: Path, name: str) -> Layout:
    """Find the delimiter and the headers in the first bytes of a file, or in all of it."""
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
    num_all = len(headers)
    while len(headers) > 1 and headers[-1] == "":
        headers.pop()
    check_headers(tuple(headers), name)
    num_lines += separator is not None
    return Layout(delimiter, tuple(headers), start, num_lines, num_all - len(headers))


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


FORMATS = (
    dict.fromkeys(
        DELIMITED,
        Format(read_delimited, lambda *file: read_head(*file)[0].headers, read_delimited_batches),
    )
    | dict.fromkeys(PARQUET, Format(read_parquet, read_parquet_headers, read_parquet_batches))
    | dict.fromkeys(
        WORKBOOKS,
        Format(read_workbook, lambda *file: read_workbook(*file).columns, read_workbook_batches),
    )
)
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
    return FORMATS[ending]
