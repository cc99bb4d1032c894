"""Read tables from CSV, TSV, Parquet and XLSX files and DataFrames."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from crossgcn.data.files import check_unpacked, unpack_limit
from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.frames import check_headers, make_table
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

Role = Literal["nodes", "edges"]

DELIMITED = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz")
PARQUET = (".parquet", ".pq")
WORKBOOKS = (".xlsx",)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(
    rb"(?:\xef\xbb\xbf)?sep=(\t|[!#-&(-/:-@^|~])[ \t]*(?:\r\n|\n|\r)", re.IGNORECASE
)
"""A first line such as ``sep=;``, which tells a spreadsheet the delimiter and is not shown."""

BLANK_LINES = re.compile(rb"(?:(?<=[\r\n])[ \t]*(?:\r\n|\n|\r|\Z))+\Z")
"""Lines at the end of a file."""

HEAD_BYTES = 1 << 18


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
        path, name = Path(source), str(source)
        ending = _find_ending(path, name, role)
        read = {PARQUET: read_parquet, WORKBOOKS: read_workbook, DELIMITED: read_delimited}
        table = next(read[endings](path, name) for endings in read if ending in endings)
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


def _find_ending(path: Path, name: str, role: Role) -> str:
    """Return the ending of a file that exists and can be read."""
    endings = ", ".join(DELIMITED + PARQUET + WORKBOOKS)
    if name == "-" or path.is_fifo() or path.is_char_device():
        raise BadInput(
            f"{name} is a pipe, which is not read: tables are read from files ending in "
            f"{endings}; write the table of {role} to such a file"
        )
    known = DELIMITED + PARQUET + WORKBOOKS
    ending = next((each for each in known if path.name.lower().endswith(each)), None)
    if ending is None:
        raise BadInput(
            f"{name}: the ending {path.suffix!r} is none of {endings}; save the table as CSV, TSV "
            "or Parquet"
        )
    if path.is_dir():
        raise BadInput(f"{name} is a folder; give the file of {role} in it")
    if not path.exists():
        raise BadInput(f"{name} does not exist; give the table of {role}")
    return ending


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


def read_delimited(path: Path, name: str) -> Table:
    """Read a text file."""
    content, _, encoding = _decode(_read_bytes(path, name))
    layout = _read_layout(content, path, name)
    if b"\0" in content:
        row = len((content[layout.start : content.index(0)] + b".").splitlines())
        raise BadInput(f"{name}, row {row}: there is a NUL byte; write the file again as text")
    content = BLANK_LINES.sub(b"", content[layout.start :])
    if content.count(b'"') % 2:
        _refuse_quotes(content, layout.delimiter, name)
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    headers = [f"{at}" for at in range(len(layout.headers) + layout.num_unnamed)]
    try:
        cells = pa.csv.read_csv(
            io.BytesIO(content),
            pa.csv.ReadOptions(
                use_threads=False,  # With threads, errors do not name the row.
                block_size=max(1 << 20, min(len(content) + 1, (1 << 31) - 1)),
                column_names=headers,
                skip_rows_after_names=1,
            ),
            pa.csv.ParseOptions(
                delimiter=layout.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(headers, pa.large_string())),
        )
    except pa.ArrowInvalid as error:
        raise BadInput(f"{name} cannot be read ({error}); write the file again as text") from None
    if wrong:
        _refuse_row(wrong[0], layout, name)
    frame = cells.to_pandas().astype("str")
    while len(headers) > 1 and len(frame) and not any(map(str.strip, frame.iloc[-1])):
        frame = frame.iloc[:-1]
    width = len(layout.headers)
    for at in range(width, frame.shape[1]):
        rows = np.flatnonzero(frame.iloc[:, at].str.strip() != "")
        if len(rows):
            raise BadInput(
                f"{name}, row {rows[0] + 2}: {quote(frame.iloc[rows[0], at])} is in a column "
                "without a header; name it in row 1, or delete the column"
            )
    frame = frame.iloc[:, :width]
    frame.columns = pd.Index(layout.headers, dtype="str")
    return Table(name, frame, first_row=2, encoding=encoding)


def _refuse_row(row: Any, layout: Layout, name: str) -> None:
    width, parted = len(layout.headers), DELIMITERS.get(layout.delimiter, repr(layout.delimiter))
    few = row.actual_columns < width
    remedy = (
        "add the cells that are missing, even if they are empty"
        if few
        else ("put cells that contain one between quotes")
    )
    cells = next(csv.reader([row.text], delimiter=layout.delimiter), [])
    raise BadInput(
        f"{name}, row {row.number}: {row.actual_columns} cell(s) where the header has {width}, "
        f"beginning {', '.join(map(quote, cells[:3]))}; cells are separated by {parted}: {remedy}"
    )


def _refuse_quotes(content: bytes, delimiter: str, name: str) -> None:
    """Refuse a file with an odd number of quotes, if one is never closed."""
    rows = 0
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    limit = csv.field_size_limit(len(content) + 1)
    try:
        for _ in csv.reader(text, delimiter=delimiter, strict=True):
            rows += 1
    except csv.Error:
        raise BadInput(
            f"{name}, row {rows + 1}: a quote is opened and never closed; close it, and write a "
            'quote inside quotes twice: ""'
        ) from None
    finally:
        csv.field_size_limit(limit)


def read_head(path: Path, name: str) -> tuple[Layout, str]:
    """Return how the rows of a text file are written, and its codec."""
    content = _read_bytes(path, name, HEAD_BYTES)
    if len(content) == HEAD_BYTES:
        content = content[: content.rfind(b"\n") + 1] or content
    content, codec, _ = _decode(content)
    return _read_layout(content, path, name), codec


def _read_bytes(path: Path, name: str, most: int = -1) -> bytes:
    """Read the first ``most`` bytes of a file, unpacked, or all."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != ".gz":
                content = file.read(most)
            else:
                limit = unpack_limit(path) + 1 if most < 0 else most
                content = gzip.GzipFile(fileobj=file).read(limit)
                check_unpacked(path, len(content))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"{name} is not a complete gzip file ({error}); compress it again") from None
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read ({error.strerror}); give a file you may read"
        ) from None
    if not content.strip():
        raise BadInput(f"{name} is empty; give a header row and at least one row below it")
    return content


def _decode(content: bytes) -> tuple[bytes, str, str]:
    """Return the text of a file in UTF-8, the codec of the file, and its encoding in words."""
    # Windows has printable characters where Latin-1 has controls.
    codecs = {"utf8": "UTF-8", "cp1252": "latin-1", "latin-1": "latin-1"}
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        codecs = {"utf-16": "UTF-16"}
    for codec, encoding in codecs.items():
        with suppress(UnicodeDecodeError):
            text = content.decode(codec)
            return content if codec == "utf8" else text.encode(), codec, encoding
    return content.decode(codec, "replace").encode(), codec, encoding


def _read_layout(content: bytes, path: Path, name: str) -> Layout:
    """Find the delimiter and the headers in the first bytes of a file, or in all of it."""
    separator = SEPARATOR_LINE.match(content)
    start = 0 if separator is None else separator.end()
    lines = io.TextIOWrapper(
        io.BytesIO(content[start:]), encoding="utf-8-sig", errors="replace", newline=""
    )
    if separator is not None:
        delimiter = separator[1].decode()
    elif path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        delimiter = "\t"
    else:
        counts = {mark: len(_read_header(lines, mark)[0]) for mark in DELIMITERS}
        delimiter = max(counts, key=lambda mark: counts[mark])
    cells, num_lines = _read_header(lines, delimiter)
    headers = [header.strip() for header in cells]
    if not any(headers):
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    if headers[0] == "" and len(headers) > 1 and INDEX_COLUMN not in headers:
        headers[0] = INDEX_COLUMN
    num_all = len(headers)
    while len(headers) > 1 and headers[-1] == "":
        headers.pop()
    check_headers(tuple(headers), name)
    num_lines += separator is not None
    return Layout(delimiter, tuple(headers), start, num_lines, num_all - len(headers))


def _read_header(lines: io.TextIOWrapper, delimiter: str) -> tuple[list[str], int]:
    lines.seek(0)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    with suppress(csv.Error):  # quotes that end before another delimiter
        return next(reader, []), reader.line_num
    return [], 0


def read_workbook(path: Path, name: str) -> Table:
    """Read the first sheet of a workbook, as a spreadsheet shows it; the first row has headers."""
    try:
        import openpyxl
    except ImportError:
        raise BadInput(
            f"{name}: reading XLSX needs openpyxl; pip install 'crossgcn[xlsx]', or save the table "
            "as CSV"
        ) from None
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(info.file_size for info in archive.infolist()))
        sheets = []
        for values in (True, False):
            book = openpyxl.load_workbook(path, read_only=True, data_only=values)
            sheets.append([list(row) for row in book.worksheets[0].iter_rows(values_only=True)])
            book.close()
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise any error
        raise BadInput(
            f"{name} cannot be read as XLSX ({error}); it is cut short or damaged: save it again"
        ) from None
    rows, formulas = sheets
    for at, (shown, written) in enumerate(zip(rows, formulas, strict=True), 1):
        for cell, formula in zip(shown, written, strict=False):
            if cell is None and formula is not None:
                raise BadInput(
                    f"{name}, row {at}: the formula {quote(str(formula))} has no value; open the "
                    "file in a spreadsheet program and save it, or save the table as CSV"
                )
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise BadInput(f"{name}: the first sheet is empty; put the table there")
    width = max((at + 1 for row in rows for at, cell in enumerate(row) if cell is not None))
    cells = [row[:width] + [None] * (width - len(row)) for row in rows[1:]]
    headers = ["" if cell is None else str(cell) for cell in rows[0][:width]]
    headers += [""] * (width - len(headers))
    frame = pd.DataFrame(cells, columns=headers, dtype=object)
    table = make_table(frame, name)
    typed = {
        header
        for at, header in enumerate(table.columns)
        if all(isinstance(cell, int | float) for cell in frame.iloc[:, at] if cell is not None)
    }
    return replace(table, first_row=2, typed=frozenset(typed))


def read_parquet(path: Path, name: str) -> Table:
    """Read a Parquet file."""
    with reporting_damage(name), path.open("rb") as file:
        # With a path instead of a file, pyarrow makes columns of folders called a=b.
        frame = pd.read_parquet(file, engine="pyarrow", dtype_backend="pyarrow")
        return make_table(frame, name)  # text is decoded here


def read_parquet_headers(path: Path, name: str) -> tuple[str, ...]:
    """Return the headers of a Parquet file."""
    with reporting_damage(name), path.open("rb") as file:
        headers = tuple(pq.ParquetFile(file).schema_arrow.names)
    check_headers(headers, name)
    return headers


@contextmanager
def reporting_damage(name: str, after: str = "") -> Iterator[None]:
    """Refuse a Parquet file that cannot be read; ``after`` says where."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise any error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{name} cannot be read as Parquet{after} ({reason}); it is cut short or damaged: "
            "write it again"
        ) from None
