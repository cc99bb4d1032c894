"""DataFrames, Parquet files and workbooks: convert them to tables of text, and write tables."""

from __future__ import annotations

import csv
import datetime
import importlib.util
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.files import check_unpacked, replacing
from crossgcn.data.tables.table import Batch, CellKind, Table, arrow_type
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


_LARGEST_EXACT_INTEGER = 2.0**53
"""Below this, a whole 64-bit float stands for one integer only."""


def make_table(frame: pd.DataFrame, name: str) -> Table:
    """Convert a DataFrame of any types to a table of text."""
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
    headers = tuple("" if pd.isna(header) else str(header).strip() for header in frame.columns)
    check_headers(headers, name)
    columns = {}
    for position, header in enumerate(headers):
        try:
            columns[header] = _write_as_text(frame.iloc[:, position])
        except UnicodeEncodeError as error:
            raise BadInput(
                f"{name}: column {header!r} holds {error.object!r}, half of a character; "
                "correct the text, for example by text.encode('utf-8', 'replace').decode()"
            ) from None
    return Table(name, pd.DataFrame(columns), first_row=1)


MOST_COLUMNS = 100_000


def check_headers(headers: tuple[str, ...], name: str) -> None:
    """Raise an error if headers are missing or repeated."""
    if not headers:
        raise BadInput(f"{name}: there are no columns; give a table with a header row")
    if len(headers) > MOST_COLUMNS:
        raise BadInput(
            f"{name}: has {len(headers):,} columns, and tables may have {MOST_COLUMNS:,}; delete "
            "some, or give wide features as a graph file (.npz)"
        )
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


def _write_as_text(column: pd.Series[Any]) -> pd.Series[str]:
    """Convert a column of any type to text, the same text as a CSV file would hold.

    Integers keep every digit. A column of floats that are all whole, which is what pandas makes
    of integers with gaps, is written without ``.0``; other floats in the fewest digits that read
    back the same. Booleans become ``true`` and ``false``, times ISO 8601 (without the time of
    day where it is always midnight), lists JSON, and missing values empty cells.
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
        is_short = str(kind).lower().startswith(("float32", "float["))
        texts[~missing] = _write_floats(
            present.to_numpy(dtype=np.float32 if is_short else np.float64)
        )
    else:
        texts[~missing] = _write_objects(present.astype(object).tolist())
    return pd.Series(texts, dtype="str")


def _write_floats(values: NDArray[Any]) -> NDArray[np.str_]:
    is_whole = np.isfinite(values) & (np.trunc(values) == values)
    if (is_whole & (abs(values) < _LARGEST_EXACT_INTEGER)).all():
        return values.astype(np.int64).astype(str)
    return values.astype(str)


def _write_objects(values: list[Any]) -> list[str]:
    if values and all(isinstance(value, float | np.floating) for value in values):
        return list(map(str, _write_floats(np.array(values, np.float64))))
    if all(
        isinstance(value, datetime.datetime)
        and value.time() == datetime.time()
        and value.tzinfo is None
        for value in values
    ):
        return [value.date().isoformat() for value in values]
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
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise any error
        raise BadInput(
            f"{name} cannot be read as XLSX ({error}); it is cut short or damaged: save it again"
        ) from None
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise BadInput(f"{name}: the first sheet is empty; put the table there")
    width = max((at + 1 for row in rows for at, cell in enumerate(row) if cell is not None))
    cells = [row[:width] + [None] * (width - len(row)) for row in rows[1:]]
    headers = ["" if cell is None else str(cell) for cell in rows[0][:width]]
    headers += [""] * (width - len(headers))
    return replace(
        make_table(pd.DataFrame(cells, columns=headers, dtype=object), name), first_row=2
    )


def read_workbook_batches(
    path: Path, name: str, columns: Mapping[str, CellKind], batch_rows: int
) -> Iterator[Batch]:
    """Read some columns of the first sheet, all rows at once: a sheet has a million at most."""
    import pyarrow as pa

    table = read_workbook(path, name)
    arrays = {
        header: _cast(
            pa.array([cell or None for cell in table.frame[header]], pa.string()),
            header,
            kind,
            name,
            table.first_row,
        )
        for header, kind in columns.items()
    }
    yield Batch(name, arrays, table.first_row)


def read_parquet(path: Path, name: str) -> Table:
    """Read a whole file."""
    with reporting_damage(name), path.open("rb") as file:
        # With a path instead of a file, pyarrow makes columns of folders called a=b.
        frame = pd.read_parquet(file, engine="pyarrow", dtype_backend="pyarrow")
        return make_table(frame, name)  # text is decoded here


def read_parquet_headers(path: Path, name: str) -> tuple[str, ...]:
    """Return the headers of a file."""
    with reporting_damage(name), path.open("rb") as file:
        import pyarrow.parquet as pq

        headers = tuple(pq.ParquetFile(file).schema_arrow.names)
    check_headers(headers, name)
    return headers


def read_parquet_batches(
    path: Path, name: str, columns: Mapping[str, CellKind], batch_rows: int
) -> Iterator[Batch]:
    """Read some columns of a file, ``batch_rows`` rows at a time."""
    import pyarrow.parquet as pq

    num_read = 0
    with path.open("rb") as file:
        with reporting_damage(name):
            batches = pq.ParquetFile(file).iter_batches(batch_rows, columns=list(columns))
        while True:
            with reporting_damage(name, f" after row {num_read:,}" if num_read else ""):
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
        return column.cast(arrow_type(kind))
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"{name}, from row {first_row} on, column {header}: cannot be read as {kind} "
            f"({reason}); correct the column"
        ) from None


@contextmanager
def reporting_damage(name: str, after: str = "") -> Iterator[None]:
    """Refuse a Parquet file that cannot be read; ``after`` says where."""
    try:
        yield
    except ImportError:
        raise BadInput(
            f"{name}: reading Parquet needs pyarrow; pip install 'crossgcn[parquet]', "
            "or save the table as CSV"
        ) from None
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise any error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{name} cannot be read as Parquet{after} ({reason}); it is cut short or damaged: "
            "write it again"
        ) from None


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
