"""Reading a user's table, every cell as the text it was written as."""

from __future__ import annotations

import csv
import datetime
import difflib
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.columns import MISSING_WORDS, Distinct, missing_mask
from crossgcn.errors import BadInput

__all__ = [
    "INDEX_COLUMN",
    "Role",
    "Table",
    "missing_mask",
    "read_delimited",
    "read_parquet",
    "read_table",
    "write_as_text",
]

DELIMITERS = (",", ";", "\t", "|")
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(
    rb"(?:\xef\xbb\xbf)?sep=(\t|[!#-&(-/:-@^|~])[ \t]*(?:\r\n|\n|\r)", re.IGNORECASE
)
"""A first line that tells a spreadsheet what stands between cells; it does not show it."""

INDEX_COLUMN = "Unnamed: 0"
"""What pandas calls a first column without a header: the index of a frame it wrote."""


def read_delimited(path: Path, name: str) -> pd.DataFrame:
    """Read a CSV or TSV file, every cell as it is written.

    A first line such as ``sep=;`` says what stands between the cells, and is no row. Without
    one, a ``.tsv`` or ``.tab`` file has tabs between its cells; in others the header shows
    whether it is commas, semicolons, tabs or bars. A first column without a header is called
    :data:`INDEX_COLUMN`.

    Args:
        path: The file, which exists; ``.gz`` is unpacked.
        name: What to call it in messages.

    Raises:
        BadInput: Not UTF-8, or a row that is not like the header, with its number.
    """
    content = _read_bytes(path, name)
    separator = SEPARATOR_LINE.match(content)
    if separator is not None:
        content = content[separator.end() :]
    _check_text(content, name)
    is_tabbed = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    with _cells_of_any_length(content):
        if separator is not None:
            delimiter = separator[1].decode()
        else:
            delimiter = "\t" if is_tabbed else _find_delimiter(content, name)
        headers, *cells = _read_rows(content, delimiter, name) or [[]]
    headers = [header.strip() for header in headers]
    if not headers:
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    if headers[0] == "" and len(headers) > 1 and INDEX_COLUMN not in headers:
        headers[0] = INDEX_COLUMN
    while cells and _is_blank_line(cells[-1], delimiter):
        cells.pop()
    if len(headers) == 1:
        cells = [row or [""] for row in cells]
    _check_widths(cells, len(headers), delimiter, name)
    columns = zip(*cells, strict=True) if cells else ([] for _ in headers)
    frame = pd.DataFrame({at: pd.Series(column, dtype="str") for at, column in enumerate(columns)})
    frame.columns = pd.Index(headers, dtype="str")
    return frame


def _read_bytes(path: Path, name: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read ({error.strerror}); give a file you may read"
        ) from None
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{name} is no whole gzip file ({error}); compress it again") from None
    if not content.strip():
        raise BadInput(f"{name} is empty; give a header row and at least one row below it")
    return content


def _check_text(content: bytes, name: str) -> None:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"{name} is written as UTF-16; save it as 'CSV UTF-8'")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        row = _line_of(content, error.start)
        raise BadInput(
            f"{name}, row {row}: byte {error.object[error.start]:#04x} is no UTF-8; save the file "
            "as 'CSV UTF-8', or convert it: iconv -f latin1 -t utf-8"
        ) from None
    if b"\0" in content:
        row = _line_of(content, content.index(0))
        raise BadInput(f"{name}, row {row}: there is a NUL byte; write the file again as text")


def _line_of(content: bytes, position: int) -> int:
    return len((content[:position] + b".").splitlines())


@contextmanager
def _cells_of_any_length(content: bytes) -> Iterator[None]:
    """Let a cell be as long as the file, so that no long text is taken for an open quote."""
    before = csv.field_size_limit(len(content) + 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _find_delimiter(content: bytes, name: str) -> str:
    """What cuts the header into the most cells; commas where it makes no difference."""

    def count_cells(delimiter: str) -> int:
        try:
            header = _read_rows(content, delimiter, name, most=1)
        except BadInput:  # Quotes that end before another mark.
            return 0
        return len(header[0]) if header else 0

    return max(DELIMITERS, key=count_cells)


def _read_rows(
    content: bytes, delimiter: str, name: str, most: int | None = None
) -> list[list[str]]:
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
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
    return rows


def _is_blank_line(cells: list[str], delimiter: str) -> bool:
    """Whether a row is a line of nothing but space; ``""`` is an empty cell."""
    if len(cells) > 1:
        return delimiter == "\t" and not any(map(str.strip, cells))
    return not cells or cells[0].isspace()


def _check_widths(cells: list[list[str]], width: int, delimiter: str, name: str) -> None:
    for row, cell in enumerate(cells, 2):
        if len(cell) == width:
            continue
        if _is_blank_line(cell, delimiter):
            raise BadInput(f"{name}, row {row} is empty; delete the line")
        remedy = f"the cells of a row are parted by {NAMES.get(delimiter, repr(delimiter))}: " + (
            "put cells that contain one between quotes"
            if len(cell) > width
            else "add the cells that are missing, empty if need be"
        )
        raise BadInput(
            f"{name}, row {row}: {len(cell)} cell(s) where the header has {width}, "
            f"beginning {', '.join(map(repr, cell[:3]))}; {remedy}"
        )


def read_parquet(path: Path, name: str) -> pd.DataFrame:
    """Read a Parquet file with its own types, so that integers with gaps stay integers.

    Args:
        path: The file, which exists.
        name: What to call it in messages.

    Raises:
        BadInput: pyarrow is not installed, or the file is broken.
    """
    try:
        # Opened here: given a path, pyarrow makes columns of folders called a=b.
        with path.open("rb") as file:
            return pd.read_parquet(file, engine="pyarrow", dtype_backend="pyarrow")
    except ImportError:
        raise BadInput(
            f"{name}: reading Parquet needs pyarrow; pip install 'crossgcn[parquet]', "
            "or save the table as CSV"
        ) from None
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{name} cannot be read as Parquet ({reason}); write it again") from None


EXACT_INTEGERS = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""


def write_as_text(column: pd.Series[Any]) -> pd.Series[str]:
    """Write a column as text: the same text whichever kind of file it came from.

    Integers become their digits, so that ids of 64 bits keep every one. A column of
    floats that are all whole, as integers with gaps become in pandas, is written
    without ``.0``; other floats in the fewest digits that read back the same. Truth
    values become ``true`` and ``false``; points in time ISO 8601, without the time of
    day where it is always midnight; lists JSON. A missing value becomes an empty cell.

    Args:
        column: Of any type.
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
        texts[~missing] = _write_floats(present.to_numpy(dtype=_float_type(kind)))
    else:
        texts[~missing] = _write_objects(present.astype(object).tolist())
    return pd.Series(texts, dtype="str")


def _float_type(kind: Any) -> Any:
    name = str(kind).lower()
    return np.float32 if name.startswith(("float32", "float[")) else np.float64


def _write_floats(values: NDArray[Any]) -> NDArray[np.str_]:
    whole = np.isfinite(values) & (np.trunc(values) == values) & (abs(values) < EXACT_INTEGERS)
    return values.astype(np.int64).astype(str) if whole.all() else values.astype(str)


def _write_times(values: list[Any]) -> list[str]:
    if all(value.time() == datetime.time() and value.tzinfo is None for value in values):
        return [value.date().isoformat() for value in values]
    return [value.isoformat() for value in values]


def _write_objects(values: list[Any]) -> list[str]:
    if values and all(isinstance(value, datetime.datetime) for value in values):
        return _write_times(values)
    if values and all(isinstance(value, float | np.floating) for value in values):
        return list(map(str, _write_floats(np.array(values, np.float64))))
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


Role = Literal["nodes", "edges"]

DELIMITED = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        name: The file as it was given, or ``nodes`` or ``edges``.
        frame: Every cell is text, as written: ``007`` and ``" a"`` stay what they are, and a
            missing cell is empty or one of the words that :func:`missing_mask` knows.
        first_row: The number of the first row below the header: 2 in a text file, where the
            header is row 1, and 1 in Parquet and DataFrames.
        missing_words: What a cell without a value says, in lower case, unless it is blank.
        blank_columns: Those in which only a blank cell has no value, whatever others say.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    missing_words: frozenset[str] = MISSING_WORDS
    blank_columns: frozenset[str] = frozenset()
    _distinct: dict[tuple[str, frozenset[str]], Distinct] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> tuple[str, ...]:
        """The headers."""
        return tuple(self.frame.columns.tolist())

    def row_number(self, position: int) -> int:
        """The row as a spreadsheet counts it.

        Args:
            position: As the frame counts it, from 0.
        """
        return self.first_row + int(position)

    def distinct(self, column: str) -> Distinct:
        """The different values of a column; looked through once."""
        words = frozenset() if column in self.blank_columns else self.missing_words
        if (column, words) not in self._distinct:
            self._distinct[column, words] = Distinct.of(self.frame[column], words)
        return self._distinct[column, words]

    def reading(self, missing_words: Iterable[str], blank_columns: Iterable[str] = ()) -> Table:
        """The same table, read with other words for a missing value.

        Args:
            missing_words: In lower case.
            blank_columns: Where no word stands for a missing value.
        """
        return replace(
            self,
            missing_words=frozenset(missing_words),
            blank_columns=frozenset(blank_columns),
        )

    def require(self, column: str) -> str:
        """The column's name, if there is such a column.

        Raises:
            BadInput: Naming the file, the nearest headers, and those there are.
        """
        if column in self.frame.columns:
            return column
        by_lower = {name.lower(): name for name in reversed(self.columns)}
        near = difflib.get_close_matches(column.lower(), by_lower, n=2, cutoff=0.6)
        hint = " or ".join(repr(by_lower[name]) for name in near)
        shown = ", ".join(self.columns[:20]) + (", ..." if len(self.columns) > 20 else "")
        raise BadInput(
            f"{self.name}: there is no column {column!r}: "
            + (f"did you mean {hint}? " if hint else "")
            + f"its {len(self.columns)} columns are {shown}"
        )


def read_table(source: Path | str | pd.DataFrame, role: Role) -> Table:
    """Read a CSV, TSV or Parquet file, or take a DataFrame.

    Space around headers is dropped, in cells it is kept. A DataFrame's index is a column
    if it has a name.

    Args:
        source: The file, whose ending says what it is (``.csv``, ``.tsv``, ``.tab``, each
            also with ``.gz``, ``.parquet``, ``.pq``), or the table itself.
        role: What it holds, which names it where it has no name.

    Raises:
        BadInput: Naming the file, where it can be the row and the value, and the remedy.
    """
    if isinstance(source, pd.DataFrame):
        return _adopt_frame(source, role, role)
    if not isinstance(source, str | os.PathLike):
        raise BadInput(
            f"{role}: {type(source).__name__!r} is no table; give the path of a file, or a "
            "pandas DataFrame"
        )
    path, name = Path(source), str(source)
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
    if ending.endswith(PARQUET):
        return _adopt_frame(read_parquet(path, name), name, role)
    return _finish(read_delimited(path, name), name, role, first_row=2)


def _adopt_frame(frame: pd.DataFrame, name: str, role: Role) -> Table:
    if frame.columns.nlevels > 1:
        raise BadInput(
            f"{name}: the headers have {frame.columns.nlevels} levels; give one, for example by "
            "frame.columns = frame.columns.map('_'.join)"
        )
    named = [level for level in frame.index.names if level is not None]
    for level in named:
        if level in frame.columns or named.count(level) > 1:
            what = "a column" if level in frame.columns else "another level of it"
            raise BadInput(
                f"{name}: the index and {what} are both called {str(level)!r}; rename one, or "
                "drop the index: frame.reset_index(drop=True)"
            )
    if named:
        frame = frame.reset_index(level=named)
    headers = ["" if pd.isna(header) else str(header).strip() for header in frame.columns]
    _check_headers(headers, name)
    columns = {}
    for position, header in enumerate(headers):
        try:
            columns[header] = write_as_text(frame.iloc[:, position])
        except UnicodeEncodeError as error:
            raise BadInput(
                f"{name}: column {header!r} holds {error.object!r}, half of a character; "
                "mend the text, for example by text.encode('utf-8', 'replace').decode()"
            ) from None
    return _finish(pd.DataFrame(columns), name, role, first_row=1)


def _finish(frame: pd.DataFrame, name: str, role: Role, *, first_row: int) -> Table:
    _check_headers(list(frame.columns), name)
    if frame.empty:
        raise BadInput(f"{name}: there are no rows of {role}, only headers; add at least one row")
    return Table(name, frame, first_row)


def _check_headers(headers: list[str], name: str) -> None:
    if not headers:
        raise BadInput(f"{name}: there are no columns; give a table with a header row")
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
