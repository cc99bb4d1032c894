"""Text files of edges: commas, semicolons, tabs or bars between cells."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv

from crossgcn.data.stored.edge_files import SAMPLE_ROWS, CellKind, EdgePiece, require_columns
from crossgcn.data.tables.columns import shorten
from crossgcn.data.tables.delimited import DELIMITERS, INDEX_COLUMN, SEPARATOR_LINE
from crossgcn.errors import BadInput

__all__ = ["DelimitedEdges"]

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
