"""A table of text, and the different values of a column."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import (
    DATE,
    MISSING_WORDS,
    Decimal,
    find_decimal,
    parse_numbers,
    plain_id,
    quote,
)
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

INDEX_COLUMN = "Unnamed: 0"
"""What pandas calls a first column without a header: the index of a DataFrame it wrote."""

CellKind = Literal["integer", "text", "number"]
"""Type of a column read in batches: 64-bit integers, text as written, or 64-bit floats."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Distinct:
    """The different values of a column, so that work is done once per value, not per cell.

    Attributes:
        codes: For each cell, the position of its value.
        values: In order of first appearance, as written.
        missing_words: Words for a missing value, in lower case.
    """

    codes: NDArray[np.int64]
    values: tuple[str, ...]
    missing_words: frozenset[str] = MISSING_WORDS

    @classmethod
    def of(cls, column: pd.Series[str], missing_words: frozenset[str] = MISSING_WORDS) -> Distinct:
        """Find the different values of a column of text."""
        codes, values = pd.factorize(column)
        return cls(codes.astype(np.int64, copy=False), tuple(values.tolist()), missing_words)

    @cached_property
    def texts(self) -> list[str]:
        """The values without surrounding space, which may be the same for some."""
        return list(map(str.strip, self.values))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of cells of each value."""
        return np.bincount(self.codes, minlength=len(self.values))

    @cached_property
    def blank(self) -> Mask:
        """Whether each value is empty or only space."""
        return np.array([not text for text in self.texts], bool)

    @cached_property
    def missing(self) -> Mask:
        """Whether each value is blank or a word for a missing value."""
        return self.blank | self.is_one_of(self.missing_words)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Each value as a number; NaN where it is missing or not a number."""
        return self.read_numbers(self.decimal)

    @cached_property
    def decimal(self) -> Decimal:
        """The decimal sign of the numbers."""
        return find_decimal([text for text, _ in self.present])

    def read_numbers(self, decimal: Decimal) -> NDArray[np.float64]:
        """Return each value as a number with this decimal sign, NaN where it is none."""
        numbers = np.full(len(self.values), np.nan)
        numbers[~self.missing] = parse_numbers([text for text, _ in self.present], decimal)
        return numbers

    @cached_property
    def present(self) -> list[tuple[str, int]]:
        """Values that are not missing, without surrounding space, and their counts."""
        counts = self.counts.tolist()
        return [(self.texts[at], counts[at]) for at in np.flatnonzero(~self.missing).tolist()]

    @cached_property
    def num_present(self) -> int:
        """Number of cells with a value."""
        return self.num_cells(~self.missing)

    def is_one_of(self, words: Set[str]) -> Mask:
        """Return whether each value is one of the lower-case words, in any case."""
        return np.array([text.lower() in words for text in self.texts], bool)

    @cached_property
    def dates(self) -> Mask:
        """Whether each value is a date."""
        return self.matches(DATE)

    def matches(self, pattern: re.Pattern[str]) -> Mask:
        """Return whether each value, without surrounding space, matches a pattern."""
        return np.array([pattern.fullmatch(text) is not None for text in self.texts], bool)

    def num_cells(self, values: Mask) -> int:
        """Return the number of cells that hold the chosen values."""
        return int(self.counts[values].sum())

    def first_row(self, code: int) -> int:
        """Return the position of the first cell that holds a value."""
        return int(np.argmax(self.codes == code))


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        name: The file as it was given, or ``nodes`` or ``edges``.
        frame: Cells as written: ``007`` and ``" a"`` are kept, and missing values are empty
            cells or one of the words for a missing value.
        first_row: Number of the first row below the header: 2 in a text file, where the
            header is row 1, and 1 in Parquet files and DataFrames.
        encoding: How the text of a file was encoded.
        missing_words: Words for a missing value, in lower case.
        blank_columns: Columns in which only blank cells are missing values.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    encoding: str = "UTF-8"
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
        """Return the row number that a spreadsheet shows for a position in the frame."""
        return self.first_row + int(position)

    def distinct(self, column: str) -> Distinct:
        """Return the different values of a column; cached."""
        words = frozenset() if column in self.blank_columns else self.missing_words
        if (column, words) not in self._distinct:
            self._distinct[column, words] = Distinct.of(self.frame[column], words)
        return self._distinct[column, words]

    def find(self, column: str, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each cell among different ids, -1 where it is none of them.

        ``7.0`` is the id ``7``, and the other way round, unless both are ids.
        """
        distinct = self.distinct(column)
        known = pd.Index(np.array(ids, object))
        wanted = pd.Index(np.array(distinct.values, object))
        found: NDArray[np.int64] = known.get_indexer(wanted).astype(np.int64)
        lost = np.flatnonzero(found < 0)
        if len(lost):
            plain = pd.Series(np.arange(len(ids)), [plain_id(name) for name in ids])
            plain = plain[~plain.index.duplicated(keep=False)]
            others = [plain_id(distinct.values[at]) for at in lost]
            found[lost] = plain.reindex(others, fill_value=-1).to_numpy()
        return found[distinct.codes]

    def with_missing_words(self, words: Iterable[str] | None, target: str | None = None) -> Table:
        """Return the same table with other words for a missing value.

        By default they are :data:`MISSING_WORDS`, and in the ``target`` blank cells alone.
        """
        if words is not None:
            return replace(self, missing_words=frozenset(words), blank_columns=frozenset())
        blank = frozenset() if target is None else frozenset({target})
        return replace(self, missing_words=MISSING_WORDS, blank_columns=blank)

    def refuse_cells(self, column: str, wrong: Mask, message: str, remedy: str) -> None:
        """Raise an error about the first wrong cell of a column, ``{value}``, if there is one."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            what = message.format(value=quote(str(self.frame[column].iloc[rows[0]])))
            raise BadInput(
                f"{self.name}, row {self.row_number(rows[0])}, column {column}: {what} "
                f"({len(rows)} such in all); {remedy}"
            )

    def require(self, column: str) -> str:
        """Return the column's name, or raise an error that suggests similar headers."""
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


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a file, for tables that are too large to be read whole.

    Attributes:
        columns: Arrow arrays by header; empty cells are null.
        first_row: Number of the first row, counted as by :class:`Table`.
    """

    name: str
    columns: Mapping[str, pa.Array]
    first_row: int

    def error(self, header: str, position: int, what: str, remedy: str) -> BadInput:
        """Return an error that names file, row, column and value of a cell."""
        value = self.columns[header][position].as_py()
        shown = "an empty cell" if value is None else quote(str(value))
        return BadInput(
            f"{self.name}, row {self.first_row + position}, column {header}: {shown} {what}; "
            f"{remedy}"
        )


def arrow_type(kind: CellKind) -> pa.DataType:
    """Return the Arrow type of a column read in batches."""
    import pyarrow as pa

    return {"integer": pa.int64(), "text": pa.string(), "number": pa.float64()}[kind]
