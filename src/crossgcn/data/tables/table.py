"""Reading a user's table, every cell as the text it was written as."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from crossgcn.data.tables.delimited import read_delimited
from crossgcn.data.tables.distinct import MISSING_WORDS, Distinct, missing_mask
from crossgcn.data.tables.parquet import read_parquet
from crossgcn.data.tables.text_form import write_as_text
from crossgcn.errors import BadInput

__all__ = ["Role", "Table", "missing_mask", "read_table"]

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
