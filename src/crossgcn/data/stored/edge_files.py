"""Files of edges, read a piece at a time."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crossgcn.data.tables.cells import shorten
from crossgcn.data.tables.read import DELIMITED, DELIMITERS, INDEX_COLUMN, PARQUET, SEPARATOR_LINE
from crossgcn.errors import BadInput

CellKind = Literal["integer", "text", "number"]
"""How a column is read: whole numbers, text to the last character, or any numbers."""

SAMPLE_ROWS = 10_000
"""So many rows are looked at to find out which columns hold the ends."""

PIECE_ROWS = 1 << 18


@dataclass(frozen=True)
class EdgePiece:
    """Some rows of a file, one after another.

    Attributes:
        columns: Arrow arrays by header.
        first_row: The number of the first of the rows, as a spreadsheet counts them.
        name: The file's.
    """

    columns: Mapping[str, Any]
    first_row: int
    name: str

    def refuse(self, header: str, position: int, what: str, remedy: str) -> BadInput:
        """An error that names file, row, column and value."""
        value = self.columns[header][position].as_py()
        shown = "an empty cell" if value is None else shorten(str(value))
        return BadInput(
            f"{self.name}, row {self.first_row + position}, column {header}: {shown} {what}; "
            f"{remedy}"
        )

    def integers(self, header: str) -> NDArray[np.int64]:
        """A column of whole numbers.

        Raises:
            BadInput: A cell is empty.
        """
        column = self.columns[header]
        if column.null_count:
            at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self.refuse(header, at, "is no node", "write the number of a node")
        numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    def weights(self, header: str) -> NDArray[np.float32]:
        """A column of weights.

        Raises:
            BadInput: A cell holds no number, or one below 0 or beyond 32 bits.
        """
        numbers: NDArray[np.float64] = (
            self.columns[header].to_numpy(zero_copy_only=False).astype(np.float64)
        )
        wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= np.finfo(np.float32).max)))
        if len(wrong):
            raise self.refuse(
                header, int(wrong[0]), "is no weight", "write a number that is not negative"
            )
        return numbers.astype(np.float32)


class EdgeFile(Protocol):
    """A file of edges.

    Attributes:
        name: As it was given.
        columns: Its headers.
        num_rows: How many edges, about; none where only reading it would tell.
        warning: What may be wrong with it, if anything.
    """

    name: str
    columns: tuple[str, ...]
    num_rows: int | None
    warning: str | None

    def sample(self) -> pd.DataFrame:
        """The first rows."""

    def whole_numbers(self, header: str) -> bool:
        """Whether a column may be read as whole numbers."""

    def pieces(self, kinds: Mapping[str, CellKind], rows: int) -> Iterator[EdgePiece]:
        """The chosen columns, at most about so many rows at once."""


def open_edge_file(source: Path | str) -> EdgeFile:
    """Look at a file of edges; its ending says what it is.

    Args:
        source: CSV, TSV (each also with ``.gz``) or Parquet.

    Raises:
        BadInput: It is not there, of no known kind, or broken; or pyarrow is not installed.
    """
    path, name = Path(source), str(source)
    ending = path.name.lower()
    if not ending.endswith(DELIMITED + PARQUET):
        raise BadInput(
            f"{name}: the ending {path.suffix!r} is none of {', '.join(DELIMITED + PARQUET)}; "
            "save the edges as CSV, TSV or Parquet"
        )
    if path.is_dir():
        raise BadInput(f"{name} is a folder; give the files of edges in it")
    if not path.exists():
        raise BadInput(f"{name} does not exist; give the table of edges")
    if not os.access(path, os.R_OK):
        raise BadInput(f"{name} cannot be read; give a file you may read")
    need_pyarrow(name)
    if ending.endswith(PARQUET):
        return ParquetEdges(path, name)

    return DelimitedEdges(path, name)


def need_pyarrow(name: str) -> ModuleType:
    """The package that reads files in pieces.

    Args:
        name: Of the file to be read.
    """
    try:
        import pyarrow
    except ImportError:
        raise BadInput(
            f"{name}: reading edges in pieces needs pyarrow; pip install 'crossgcn[parquet]'"
        ) from None
    module: ModuleType = pyarrow
    return module


def require_columns(wanted: Sequence[str], columns: Sequence[str], name: str) -> None:
    """Refuse a file that lacks a column the first file has."""
    for header in wanted:
        if header not in columns:
            raise BadInput(
                f"{name}: there is no column {header!r}; its columns are {', '.join(columns)}: "
                "give files with the same headers"
            )


HEAD_BYTES = 1 << 18
BYTES_PER_ROW = 16
"""Read at once for each row that is asked for; a longer row makes the pieces smaller."""

_TYPES = {"integer": pa.int64(), "text": pa.string(), "number": pa.float64()}
_ROW = re.compile(r"Row #(\d+)")
_VALUE = re.compile(r"invalid value '(.*)'", re.DOTALL)
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


class DelimitedEdges:
    """A CSV or TSV file of edges, packed or not, of which some rows at a time are in memory.

    Args:
        path: The file.
        name: What to call it in messages.

    Raises:
        BadInput: It is empty, no text, or a packed file cut short at once.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._path = path
        head = self._read_head()
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadInput(f"{name} is written as UTF-16; save it as 'CSV UTF-8'")
        separator = SEPARATOR_LINE.match(head)
        self._skipped = 1 if separator is None else 2
        lines = head if separator is None else head[separator.end() :]
        text = lines.decode("utf-8-sig", errors="replace")
        header_line = text.splitlines()[0] if text.strip() else ""
        if not header_line.strip():
            raise BadInput(f"{name} is empty; give a header row and at least one row below it")
        if separator is not None:
            self._delimiter = separator[1].decode()
        elif path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
            self._delimiter = "\t"
        else:
            self._delimiter = max(DELIMITERS, key=lambda mark: len(_cells(header_line, mark)))
        headers = [header.strip() for header in _cells(header_line, self._delimiter)]
        if headers[0] == "" and len(headers) > 1:
            headers[0] = INDEX_COLUMN
        self.columns = tuple(headers)
        self._check_headers()
        self.num_rows = self._estimate_rows(lines)
        self.warning = self._find_warning()

    def sample(self) -> pd.DataFrame:
        """The first rows, as text."""
        kinds: dict[str, CellKind] = dict.fromkeys(self.columns, "text")
        for piece in self.pieces(kinds, SAMPLE_ROWS):
            frame = {header: column.to_pylist() for header, column in piece.columns.items()}
            return pd.DataFrame(frame, dtype="str").head(SAMPLE_ROWS)
        return pd.DataFrame({header: pd.Series(dtype="str") for header in self.columns})

    def whole_numbers(self, header: str) -> bool:
        """Whether the first rows of a column are all integers."""
        return bool(self.sample()[header].map(lambda cell: bool(_WHOLE.fullmatch(cell))).all())

    def pieces(self, kinds: Mapping[str, CellKind], rows: int) -> Iterator[EdgePiece]:
        """The chosen columns, about so many rows at once."""
        require_columns(list(kinds), self.columns, self.name)
        done = 0
        try:
            with pa.input_stream(str(self._path), compression="detect") as stream:
                reader = arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(
                        # Without threads, so that errors name the row.
                        use_threads=False,
                        block_size=max(1 << 16, rows * BYTES_PER_ROW),
                        column_names=list(self.columns),
                        skip_rows=self._skipped,
                    ),
                    arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=False),
                    arrow_csv.ConvertOptions(
                        column_types={header: _TYPES[kind] for header, kind in kinds.items()},
                        include_columns=list(kinds),
                        null_values=[""],
                    ),
                )
                for batch in reader:
                    columns = {header: batch.column(header) for header in kinds}
                    yield EdgePiece(columns, done + 2, self.name)
                    done += len(batch)
        except pa.ArrowInvalid as error:
            raise self._explain(str(error), done) from None
        except OSError as error:
            raise BadInput(
                f"{self.name} cannot be read after row {done + 1:,} ({error}); it is cut short or "
                "damaged: write or fetch it again"
            ) from None

    def _read_head(self) -> bytes:
        try:
            with pa.input_stream(str(self._path), compression="detect") as stream:
                head: bytes = stream.read(HEAD_BYTES)
                return head
        except (OSError, pa.ArrowException) as error:
            raise BadInput(
                f"{self.name} cannot be read ({error}); it is cut short or damaged: write or fetch "
                "it again"
            ) from None

    def _check_headers(self) -> None:
        for position, header in enumerate(self.columns, 1):
            if header == "" or self.columns.count(header) > 1:
                what = "has no header" if header == "" else f"is not the only one called {header!r}"
                raise BadInput(
                    f"{self.name}, row 1: column {position} of {len(self.columns)} {what}; rename "
                    "it, or delete the column"
                )

    @property
    def _is_packed(self) -> bool:
        return self._path.name.lower().endswith(".gz")

    def _estimate_rows(self, lines: bytes) -> int | None:
        num_lines = lines.count(b"\n")
        if self._is_packed or num_lines < 2:
            return None
        return int(self._path.stat().st_size / len(lines) * num_lines)

    def _find_warning(self) -> str | None:
        """Whether the last line has no end; a packed file that was cut cannot be read at all."""
        if self._is_packed:
            return None
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() in (b"\n", b"\r"):
                return None
        return (
            f"{self.name}: the last line does not end in a newline, so the file may have been cut "
            "short; compare it with where it came from, or add the newline if it is whole"
        )

    def _explain(self, message: str, done: int) -> BadInput:
        """Arrow's message with file, row, value and remedy."""
        found = _ROW.search(message)
        # Arrow counts a line that names the separator, a spreadsheet does not show it.
        row = done + 2 if found is None else int(found[1]) - self._skipped + 1
        value = _VALUE.search(message)
        if value is None:
            reason = message.splitlines()[0].split(": ", 2)[-1]
            return BadInput(
                f"{self.name}, row {row}: {reason}; mend the row, or fetch the file again if it "
                "was cut short"
            )
        column = re.search(r"column #(\d+)", message)
        header = "" if column is None else f", column {self.columns[int(column[1])]}"
        kind = "number" if "double" in message else "whole number, as others are"
        return BadInput(
            f"{self.name}, row {row}{header}: {shorten(value[1])} is no {kind}; mend the cell, or "
            "give a table of nodes whose ids it is among"
        )


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


_BROKEN = (OSError, pa.ArrowException, ValueError)


class ParquetEdges:
    """A Parquet file of edges, of which a row group at a time is in memory.

    Args:
        path: The file.
        name: What to call it in messages.

    Raises:
        BadInput: It is no Parquet file, or cut short.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.warning: str | None = None
        self._path = path
        try:
            with path.open("rb") as file:
                footer = pq.ParquetFile(file)
                self._schema = footer.schema_arrow
                self.num_rows: int | None = footer.metadata.num_rows
        except _BROKEN as error:
            raise self._broken(error, 0) from None
        self.columns = tuple(self._schema.names)

    def sample(self) -> pd.DataFrame:
        """The first rows."""
        try:
            with self._path.open("rb") as file:
                batches = pq.ParquetFile(file).iter_batches(batch_size=SAMPLE_ROWS)
                first = next(batches, None)
        except _BROKEN as error:
            raise self._broken(error, 0) from None
        return pd.DataFrame() if first is None else first.to_pandas(types_mapper=pd.ArrowDtype)

    def whole_numbers(self, header: str) -> bool:
        """Whether a column has integers, or numbers that may all be whole."""
        kind = self._schema.field(header).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))

    def pieces(self, kinds: Mapping[str, CellKind], rows: int) -> Iterator[EdgePiece]:
        """The chosen columns, so many rows at once."""
        require_columns(list(kinds), self.columns, self.name)
        done = 0
        try:
            with self._path.open("rb") as file:
                # Opened here: given a path, pyarrow makes columns of folders called a=b.
                parquet = pq.ParquetFile(file)
                for batch in parquet.iter_batches(batch_size=rows, columns=list(kinds)):
                    columns = {
                        header: self._cast(batch.column(header), header, kind, done + 1)
                        for header, kind in kinds.items()
                    }
                    yield EdgePiece(columns, done + 1, self.name)
                    done += len(batch)
        except _BROKEN as error:
            if isinstance(error, BadInput):
                raise
            raise self._broken(error, done) from None

    def _cast(self, column: pa.Array, header: str, kind: CellKind, first_row: int) -> pa.Array:
        try:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if kind == "text" and pa.types.is_floating(column.type):
                column = column.cast(pa.int64())  # Whole numbers have no point as text.
            return column.cast(_TYPES[kind])
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise BadInput(
                f"{self.name}, from row {first_row} on, column {header}: cannot be read as "
                f"{kind} ({reason}); mend the column"
            ) from None

    def _broken(self, error: Exception, done: int) -> BadInput:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        where = f" after row {done:,}" if done else ""
        return BadInput(
            f"{self.name} cannot be read as Parquet{where} ({reason}); it is cut short or damaged: "
            "write or fetch it again"
        )
