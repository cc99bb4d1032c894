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
WORKBOOK = ".xlsx"

DELIMITERS = ",;\t|"
_LINE_END = re.compile(rb"[\r\n]")
_HAS_NUL = "has a NUL character; delete it, or write the table again, a text file as UTF-8"


def read_table(source: Path | str | pd.DataFrame | Table, role: str) -> Table:
    """Read a file, or convert a DataFrame, to a table of text.

    Headers lose surrounding space, cells keep it. ``.tsv`` and ``.tab`` files are split at tabs,
    other text at the delimiter that splits the header into the most cells.

    Args:
        role: ``nodes`` or ``edges``, for messages.
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
    endings = ", ".join((*DELIMITED, *PARQUET, WORKBOOK))
    if not path.is_file():
        what = "does not exist"
        if name == "-" or path.exists():
            what = "is a folder" if path.is_dir() else "is a pipe or device, not a file"
        raise BadInput(f"{name} {what}; give the {role} as a file ending in {endings}")
    ending = path.name.lower()
    if ending.endswith(DELIMITED):
        return _read_delimited(path, name)
    if ending.endswith(PARQUET):
        return _read_parquet(path, name)
    if ending.endswith(WORKBOOK):
        return _read_workbook(path, name)
    raise BadInput(
        f"{name}: the ending {path.suffix!r} is none of {endings}; save the table as CSV, TSV or "
        "Parquet"
    )


def _read_delimited(path: Path, name: str) -> Table:
    content, encoding = _read_text(path, name)
    delimiter, headers = _read_header(content, path, name)
    # Lines of empty cells at the end are not rows.
    end = _LINE_END.search(content, len(content.rstrip(b" \t\r\n" + delimiter.encode())))
    content = content if end is None else content[: end.end()]
    names = [f"{position}" for position in range(len(headers))]
    try:
        cells = pa.csv.read_csv(
            io.BytesIO(content),
            pa.csv.ReadOptions(
                use_threads=False,  # as fast, and errors name the row
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
        reason = " ".join(str(error).split()).removeprefix("CSV parse error: ")
        place = re.sub(r"^Row #(\d+): E", r", row \1: e", reason)
        place = place if place != reason else f": {reason}"
        raise BadInput(
            f"{name}{place}; cells are separated by {delimiter!r}: add missing cells, put cells "
            "that contain the separator in quotes, and close every quote"
        ) from None
    frame = cells.to_pandas()
    if content.count(b'"') % 2 and len(frame) and re.search("[\r\n]", frame.iloc[-1, -1]):
        raise BadInput(
            f"{name}, row {len(frame) + 1}: a quote is opened and never closed; close it, and "
            'write a quote inside quotes twice: ""'
        )
    frame.columns = pd.Index(headers, dtype=object)
    return make_table(frame, name, first_row=2, encoding=encoding)


def _read_text(path: Path, name: str) -> tuple[bytes, str]:
    """Return the text of a file, unpacked and in UTF-8, and its original encoding."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != ".gz":
                content = file.read()
            else:
                content = gzip.GzipFile(fileobj=file).read(unpack_limit(path) + 1)
                check_unpacked(path, len(content))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(
            f"{name} cannot be read ({reason}); give a whole file you may read"
        ) from None
    with suppress(UnicodeDecodeError):
        content.decode()
        return content, "UTF-8"
    encoding = "UTF-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "Windows-1252"
    return content.decode(encoding, "replace").encode(), encoding


def _read_header(content: bytes, path: Path, name: str) -> tuple[str, list[str]]:
    """Return the delimiter and the cells of the first row."""
    is_tabbed = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    rows = {}
    for delimiter in "\t" if is_tabbed else DELIMITERS:
        lines = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", "replace", newline="")
        with suppress(csv.Error):  # quotes are not valid with this delimiter
            rows[delimiter] = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    delimiter = max(rows, key=lambda delimiter: len(rows[delimiter]), default=",")
    if not any(map(str.strip, rows.get(delimiter, []))):
        raise BadInput(f"{name}, row 1 is empty; begin the file with a row of headers")
    for header in rows[delimiter]:
        if "\0" in header:
            raise BadInput(f"{name}, row 1: {quote(header)} {_HAS_NUL}")
    return delimiter, rows[delimiter]


def _read_workbook(path: Path, name: str) -> Table:
    """Read the displayed values of the first sheet; the first row holds the headers."""
    try:
        import openpyxl
    except ImportError:
        raise BadInput(
            f"{name}: reading XLSX needs openpyxl; pip install 'crossgcn[xlsx]', or save the table "
            "as CSV"
        ) from None
    sheets = []
    with reporting_damage(name, "XLSX"):
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(info.file_size for info in archive.infolist()))
        for values in (True, False):
            with closing(openpyxl.load_workbook(path, read_only=True, data_only=values)) as book:
                sheets.append(pd.DataFrame(book.worksheets[0].values, dtype=object))
    shown, formulas = sheets
    for row, column in np.argwhere(shown.isna() & formulas.notna()).tolist():
        raise BadInput(
            f"{name}, row {row + 1}: the formula {quote(str(formulas.iloc[row, column]))} has no "
            "value; open the file in a spreadsheet program and save it, or save the table as CSV"
        )
    filled = np.flatnonzero(shown.notna().any(axis=1))
    if len(filled) == 0:
        raise BadInput(f"{name}: the first sheet is empty; put the table there")
    return make_table(shown[1 : filled[-1] + 1].set_axis(shown.iloc[0], axis=1), name, first_row=2)


def _read_parquet(path: Path, name: str) -> Table:
    with reporting_damage(name), path.open("rb") as file:
        # Given a path instead of a file, pyarrow would add columns for folders called a=b.
        content = pq.read_table(file)
        content.validate(full=True)
        return make_table(content.to_pandas(types_mapper=pd.ArrowDtype), name)


@contextmanager
def reporting_damage(name: str, kind: str = "Parquet") -> Iterator[None]:
    """Raise an error that names the file if the block cannot read it."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise any error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{name} cannot be read as {kind} ({reason}); it is cut short or damaged: write it "
            "again"
        ) from None


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
    for position, header in enumerate(_clean_headers(headers, name)):
        column = frame.iloc[:, position].reset_index(drop=True)
        present = column.dropna().infer_objects()
        texts[header] = _write_as_text(present).reindex(column.index, fill_value="").astype("str")
        if pd.api.types.is_numeric_dtype(present) and not pd.api.types.is_bool_dtype(present):
            typed.add(header)
            continue
        for row in np.flatnonzero(texts[header].str.contains("\0", regex=False))[:1]:
            place = f"{name}, row {first_row + row}, column {header}"
            raise BadInput(f"{place}: {quote(texts[header].iloc[row])} {_HAS_NUL}")
    return Table(name, pd.DataFrame(texts), first_row, encoding, frozenset(typed))


def _clean_headers(headers: Sequence[Any], name: str) -> list[str]:
    """Return headers as text without surrounding space; refuse missing and repeated ones.

    A first column without a header is taken for the index of a DataFrame and named as in pandas.
    """
    cleaned = ["" if pd.isna(header) else str(header).strip() for header in headers]
    if not any(cleaned):
        raise BadInput(f"{name}: there are no headers; begin the table with a row of headers")
    if cleaned[0] == "" and INDEX_COLUMN not in cleaned:
        cleaned[0] = INDEX_COLUMN
    first_at: dict[str, int] = {}
    for position, header in enumerate(cleaned, 1):
        first = first_at.setdefault(header, position)
        if header == "":
            raise BadInput(
                f"{name}, row 1: column {position} of {len(cleaned)} has no header; name it, or "
                "delete the column"
            )
        if first < position:
            raise BadInput(
                f"{name}, row 1: columns {first} and {position} are both called {header!r}; "
                "rename one"
            )
    return cleaned


def _write_as_text(present: pd.Series[Any]) -> pd.Series[str]:
    """Return each value as the text that a CSV file would hold.

    Integers keep every digit. If all floats of a column are whole, as when pandas converts
    integers with missing values, they lose the ``.0``. Other floats get the fewest digits that
    round-trip. Dates lose the time of day if it is always midnight.
    """
    kind = present.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _write_as_text(present.astype(kind.categories.dtype))
    if pd.api.types.is_bool_dtype(kind):
        return present.astype("str").str.lower()
    if pd.api.types.is_float_dtype(kind):
        numbers = present.astype(getattr(kind, "numpy_dtype", kind))  # from pandas or Arrow
        # Below 2**53, whole 64-bit floats are exact integers.
        is_whole = (np.trunc(numbers) == numbers) & (abs(numbers) < 2**53)
        return (numbers.astype(np.int64) if is_whole.all() else numbers).astype("str")
    if pd.api.types.is_datetime64_any_dtype(kind):
        return pd.to_datetime(present.astype(object)).astype("str")
    if pd.api.types.is_string_dtype(present) or pd.api.types.is_integer_dtype(kind):
        return present.astype("str")
    return present.astype(object).map(_write_value).astype("str")


def _write_value(value: Any) -> str:
    """Write a value of a column of mixed types; lists become JSON."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple | np.ndarray):
        return json.dumps([_write_value(item) for item in value], ensure_ascii=False)
    return str(value)
