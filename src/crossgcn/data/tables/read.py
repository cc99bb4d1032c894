"""Read tables from CSV, TSV, Parquet and XLSX files and DataFrames."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from crossgcn.data.files import check_unpacked, unpack_limit
from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.table import INDEX_COLUMN, Table
from crossgcn.errors import BadInput

DELIMITED = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz")
PARQUET = (".parquet", ".pq")
WORKBOOKS = (".xlsx",)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LINE_END = re.compile(rb"[\r\n]")

_LARGEST_EXACT_INTEGER = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""


def read_table(source: Path | str | pd.DataFrame | Table, role: str) -> Table:
    """Read a whole file, or convert a DataFrame, to a table of text.

    Headers lose surrounding space, cells keep it. ``.tsv`` and ``.tab`` files are split at tabs,
    other text at the delimiter that splits the header into the most cells.

    Args:
        role: What the rows are, ``nodes`` or ``edges``, for messages.
    """
    if isinstance(source, Table):
        table = source
    elif isinstance(source, pd.DataFrame):
        table = make_table(source, role)
    elif isinstance(source, str | os.PathLike):
        table = _read_file(Path(source), str(source), role)
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


def _read_file(path: Path, name: str, role: str) -> Table:
    endings = ", ".join(DELIMITED + PARQUET + WORKBOOKS)
    if not path.is_file():
        what = "does not exist"
        if name == "-" or path.exists():
            what = "is a folder" if path.is_dir() else "is a pipe or device, which is not read"
        raise BadInput(f"{name} {what}; give the {role} as a file ending in {endings}")
    ending = path.name.lower()
    if ending.endswith(DELIMITED):
        return read_delimited(path, name)
    if ending.endswith(PARQUET):
        return read_parquet(path, name)
    if ending.endswith(WORKBOOKS):
        return read_workbook(path, name)
    raise BadInput(
        f"{name}: the ending {path.suffix!r} is none of {endings}; save the table as CSV, TSV or "
        "Parquet"
    )


def read_delimited(path: Path, name: str) -> Table:
    """Read a text file."""
    content, encoding = _decode(_read_bytes(path, name))
    delimiter, headers = _read_header(content, path, name)
    if b"\0" in content:
        row = len((content[: content.index(0)] + b".").splitlines())
        raise BadInput(f"{name}, row {row}: there is a NUL byte; write the file again as text")
    # Lines of empty cells at the end are no rows.
    end = _LINE_END.search(content, len(content.rstrip(b" \t\r\n" + delimiter.encode())))
    content = content if end is None else content[: end.end()]
    if content.count(b'"') % 2:
        _refuse_first_wrong_row(content, delimiter, len(headers), name)
    names = [f"{position}" for position in range(len(headers))]
    try:
        cells = pa.csv.read_csv(
            io.BytesIO(content),
            pa.csv.ReadOptions(
                block_size=max(1 << 20, min(len(content) + 1, (1 << 31) - 1)),
                column_names=names,
                skip_rows_after_names=1,
            ),
            pa.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=False
            ),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.large_string())),
        )
    except pa.ArrowInvalid as error:
        _refuse_first_wrong_row(content, delimiter, len(headers), name)
        raise BadInput(f"{name} cannot be read ({error}); write the file again as text") from None
    frame = cells.to_pandas()
    frame.columns = pd.Index(headers, dtype=object)
    return make_table(frame, name, first_row=2, encoding=encoding)


def _refuse_first_wrong_row(content: bytes, delimiter: str, width: int, name: str) -> None:
    """Refuse the first row that has more or fewer cells than the header, or an open quote."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    limit = csv.field_size_limit(len(content) + 1)
    number = 0
    try:
        for number, row in enumerate(csv.reader(text, delimiter=delimiter, strict=True), 1):
            cells = row or [""]
            if len(cells) != width:
                remedy = (
                    "add the cells that are missing, even if they are empty"
                    if len(cells) < width
                    else "put cells that contain one between quotes"
                )
                raise BadInput(
                    f"{name}, row {number}: {len(cells)} cell(s) where the header has {width}, "
                    f"beginning {', '.join(map(quote, cells[:3]))}; cells are separated by "
                    f"{DELIMITERS[delimiter]}: {remedy}"
                )
    except csv.Error:
        raise BadInput(
            f"{name}, row {number + 1}: a quote is opened and never closed; close it, and write a "
            'quote inside quotes twice: ""'
        ) from None
    finally:
        csv.field_size_limit(limit)


def _read_bytes(path: Path, name: str) -> bytes:
    """Read a file, unpacked."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != ".gz":
                content = file.read()
            else:
                content = gzip.GzipFile(fileobj=file).read(unpack_limit(path) + 1)
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


def _decode(content: bytes) -> tuple[bytes, str]:
    """Return the text of a file in UTF-8, and how it is encoded: with a mark, UTF-8 or Windows'."""
    encoding = "UTF-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "Windows-1252"
    with suppress(UnicodeDecodeError):
        content.decode()
        return content, "UTF-8"
    return content.decode(encoding, "replace").encode(), encoding


def _read_header(content: bytes, path: Path, name: str) -> tuple[str, list[str]]:
    """Return the delimiter and the cells of the first row."""
    is_tabbed = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    rows = {}
    for delimiter in "\t" if is_tabbed else DELIMITERS:
        text = io.BytesIO(content)
        lines = io.TextIOWrapper(text, encoding="utf-8-sig", errors="replace", newline="")
        with suppress(csv.Error):  # quotes that end before another delimiter
            rows[delimiter] = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    delimiter = max(rows, key=lambda delimiter: len(rows[delimiter]), default=",")
    if not any(map(str.strip, rows.get(delimiter, []))):
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    return delimiter, rows[delimiter]


def read_workbook(path: Path, name: str) -> Table:
    """Read the first sheet of a workbook, as a spreadsheet shows it; the first row has headers."""
    try:
        import openpyxl
    except ImportError:
        raise BadInput(
            f"{name}: reading XLSX needs openpyxl; pip install 'crossgcn[xlsx]', or save the table "
            "as CSV"
        ) from None
    sheets = []
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(info.file_size for info in archive.infolist()))
        for values in (True, False):
            with closing(openpyxl.load_workbook(path, read_only=True, data_only=values)) as book:
                sheets.append(list(book.worksheets[0].iter_rows(values_only=True)))
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise any error
        raise BadInput(
            f"{name} cannot be read as XLSX ({error}); it is cut short or damaged: save it again"
        ) from None
    rows, formulas = sheets
    for number, (shown, written) in enumerate(zip(rows, formulas, strict=True), 1):
        for cell, formula in zip(shown, written, strict=False):
            if cell is None and formula is not None:
                raise BadInput(
                    f"{name}, row {number}: the formula {quote(str(formula))} has no value; open "
                    "the file in a spreadsheet program and save it, or save the table as CSV"
                )
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise BadInput(f"{name}: the first sheet is empty; put the table there")
    frame = pd.DataFrame(rows, dtype=object)
    frame, frame.columns = frame.iloc[1:], pd.Index(frame.iloc[0])
    return make_table(frame, name, first_row=2)


def read_parquet(path: Path, name: str) -> Table:
    """Read a Parquet file."""
    with reporting_damage(name), path.open("rb") as file:
        # With a path instead of a file, pyarrow makes columns of folders called a=b.
        content = pq.read_table(file)
        content.validate(full=True)
        return make_table(content.to_pandas(types_mapper=pd.ArrowDtype), name)


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


def clean_headers(headers: Sequence[Any], name: str) -> list[str]:
    """Return headers as text without surrounding space; refuse missing and repeated ones.

    A first column without a header is the index of a DataFrame, and is named as pandas does.
    """
    if not len(headers):
        raise BadInput(f"{name}: there are no columns; give a table with a header row")
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
    if isinstance(kind, pd.CategoricalDtype):
        return _write_as_text(present.astype(kind.categories.dtype))
    if pd.api.types.is_bool_dtype(kind):
        return present.astype("str").str.lower()
    if pd.api.types.is_float_dtype(kind):
        is_short = str(kind).lower().startswith(("float32", "float["))
        numbers = present.astype(np.float32 if is_short else np.float64)
        is_whole = np.isfinite(numbers) & (np.trunc(numbers) == numbers)
        are_exact = (is_whole & (abs(numbers) < _LARGEST_EXACT_INTEGER)).all()
        return (numbers.astype(np.int64) if are_exact else numbers).astype("str")
    if pd.api.types.is_datetime64_any_dtype(kind):
        return pd.to_datetime(present.astype(object)).astype("str")
    if pd.api.types.is_string_dtype(present) or pd.api.types.is_integer_dtype(kind):
        return present.astype("str")
    return present.astype(object).map(_write_value).astype("str")


def _write_value(value: Any) -> str:
    """Write a value of a column of many types: lists as JSON."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple | np.ndarray):
        return json.dumps([_write_value(item) for item in value], ensure_ascii=False)
    return str(value)
