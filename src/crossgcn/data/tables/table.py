"""A table of text, and the distinct values of a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import (
    MISSING_WORDS,
    PLAIN,
    NumberStyle,
    find_number_style,
    parse_numbers,
    plain_id,
)
from crossgcn.errors import BadInput, few, nearest

INDEX_COLUMN = "Unnamed: 0"  # what pandas calls the index of a DataFrame that it wrote

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Distinct:
    """The distinct values of a column, so that each is processed once.

    Attributes:
        codes: For each cell, the position of its value.
        values: Distinct values as written, in order of first appearance.
        missing_words: Words for a missing value, in lower case.
        typed: Whether the source held numbers instead of text; no number style is then inferred.
    """

    codes: NDArray[np.int64]
    values: tuple[str, ...]
    missing_words: frozenset[str] = MISSING_WORDS
    typed: bool = False

    @classmethod
    def of(
        cls, column: pd.Series[str], words: frozenset[str] = MISSING_WORDS, typed: bool = False
    ) -> Distinct:
        """Find the distinct values of a column of text."""
        codes, values = pd.factorize(column)
        return cls(codes.astype(np.int64, copy=False), tuple(values.tolist()), words, typed)

    @cached_property
    def texts(self) -> list[str]:
        """The values without surrounding space; they may repeat."""
        return list(map(str.strip, self.values))

    @cached_property
    def ids(self) -> list[str]:
        """The values as ids: ``7.0`` is ``7``."""
        return list(map(plain_id, self.values))

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
    def texts_present(self) -> dict[str, int]:
        """Distinct texts that are not missing, and the number of cells of each."""
        cells: dict[str, int] = {}
        for text, count in zip(self.texts, self.counts.tolist(), strict=True):
            cells[text] = cells.get(text, 0) + count
        return {text: cells[text] for text in compress(self.texts, ~self.missing)}

    @cached_property
    def num_present(self) -> int:
        """Number of cells with a value."""
        return self.num_cells(~self.missing)

    @cached_property
    def style(self) -> NumberStyle:
        """How the numbers are written."""
        return PLAIN if self.typed else find_number_style(list(self.texts_present))

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Each value as a number; NaN where it is missing or not a number."""
        return self._parse_numbers(self.style)

    def read_numbers(self, style: NumberStyle) -> NDArray[np.float64]:
        """Parse each value in the number style of another table; typed numbers stay as they are."""
        return self.numbers if self.typed or style == self.style else self._parse_numbers(style)

    def _parse_numbers(self, style: NumberStyle) -> NDArray[np.float64]:
        numbers = np.full(len(self.values), np.nan)
        numbers[~self.missing] = parse_numbers([*compress(self.texts, ~self.missing)], style)
        return numbers

    def is_one_of(self, words: Set[str]) -> Mask:
        """Return whether each value is one of some lower-case words, ignoring its case."""
        return np.array([text.lower() in words for text in self.texts], bool)

    def num_cells(self, values: Mask) -> int:
        """Return the number of cells that hold the chosen values."""
        return int(self.counts[values].sum())


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        name: Path of the file as it was given, or ``nodes`` or ``edges``.
        frame: Cells as written: ``007`` and ``" a"`` are kept, and missing values are empty
            cells or one of the words for a missing value.
        first_row: Number of the first row below the header: 2 in a text file or a workbook, where
            the header is row 1, and 1 in Parquet files and DataFrames.
        encoding: How the text of a file was encoded.
        typed: Columns that held numbers, not text.
        missing_words: Words for a missing value, in lower case.
        words_of_columns: Words for a missing value that replace these in single columns.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    encoding: str = "UTF-8"
    typed: frozenset[str] = frozenset()
    missing_words: frozenset[str] = MISSING_WORDS
    words_of_columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
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
        """Return the distinct values of a column; cached."""
        words = self.words_of_columns.get(column, self.missing_words)
        if (column, words) not in self._distinct:
            found = Distinct.of(self.frame[column], words, column in self.typed)
            self._distinct[column, words] = found
        return self._distinct[column, words]

    def find(self, column: str, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each cell in a sequence of distinct ids, or -1.

        ``7.0`` matches the id ``7``, and vice versa, unless both are ids.
        """
        distinct = self.distinct(column)
        known = pd.Index(np.array(ids, object))
        found: NDArray[np.int64] = known.get_indexer(list(distinct.values)).astype(np.int64)
        lost = np.flatnonzero(found < 0)
        if len(lost):
            plain = pd.Series(np.arange(len(ids)), [plain_id(name) for name in ids])
            plain = plain[~plain.index.duplicated(keep=False)]
            others = [distinct.ids[at] for at in lost]
            found[lost] = plain.reindex(others, fill_value=-1).to_numpy()
        return found[distinct.codes]

    def with_missing_words(
        self, words: Iterable[str], of_columns: Mapping[str, frozenset[str]] | None = None
    ) -> Table:
        """Return the same table with other words for a missing value."""
        words_of_columns = of_columns or {}
        return replace(self, missing_words=frozenset(words), words_of_columns=words_of_columns)

    def require(self, column: str) -> str:
        """Return the column's name, or raise an error that suggests similar headers."""
        if column in self.frame.columns:
            return column
        known = (
            f"its {len(self.columns)} columns are {few(self.columns)}. Name one of these, or add "
            "the column, with empty cells where it is not known"
        )
        hint = nearest(column, self.columns) or known
        raise BadInput(f"{self.name}: there is no column {column!r}: {hint}")
