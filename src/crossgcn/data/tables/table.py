"""A table of text: what its cells say, and the different values of a column."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.errors import BadInput

MISSING_WORDS = frozenset({"na", "n/a", "nan", "null", "none"})
"""Words for a missing value, in lower case; blank cells are always missing."""

MAX_WEIGHT = float(np.finfo(np.float32).max)
"""The largest weight of an edge."""

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)

Separator = Literal["json", ";", "|", ",", " "]


def parse_number(text: str) -> float | None:
    """Return the number in a cell, infinities included, or None.

    Digits are ASCII, the decimal sign is a point, and nothing separates thousands: ``1,5``,
    ``1 000`` and ``1_000`` are not numbers. Surrounding space is ignored.
    """
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def split_words(cell: str, separator: Separator) -> list[str]:
    """Return the different words of a cell in order, without surrounding space.

    With ``json``, a cell that is not a JSON array is split at commas; brackets and quotes are
    dropped.
    """
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def _split_json(cell: str) -> list[str]:
    try:
        content = json.loads(cell)
    except ValueError:
        content = None
    if isinstance(content, list):
        return [item if isinstance(item, str) else json.dumps(item) for item in content]
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]


def find_separator(cells: Sequence[str]) -> Separator:
    """Return the separator that most cells of a column contain."""
    if sum(cell.startswith("[") and cell.endswith("]") for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def shorten(text: str, length: int = 40) -> str:
    """Return a value as messages show it: in quotes, and cut when it is long."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


def fold_spelling(text: str) -> str:
    """Return the text without case, extra spaces and variants of encoding accents."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())


_DIGITS_ONLY = re.compile(r"[0-9eE.+-]*")
"""NumPy and :func:`parse_number` agree on text made of these characters."""


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
    def counts(self) -> NDArray[np.int64]:
        """Number of cells of each value."""
        return np.bincount(self.codes, minlength=len(self.values))

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Whether each value is blank or a word for a missing value."""
        return self.blank | self.is_one_of(self.missing_words)

    @cached_property
    def blank(self) -> NDArray[np.bool_]:
        """Whether each value is empty or only space."""
        return np.array([not value.strip() for value in self.values], bool)

    def is_one_of(self, words: Set[str]) -> NDArray[np.bool_]:
        """Return whether each value is one of the lower-case words, in any case."""
        return np.array([value.strip().lower() in words for value in self.values], bool)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Each value as a number; NaN where it is missing or not a number."""
        numbers = np.full(len(self.values), np.nan)
        present = np.array(self.values, dtype=object)[~self.missing]
        try:
            if not _DIGITS_ONLY.fullmatch("".join(present)):
                raise ValueError
            numbers[~self.missing] = present.astype(np.float64)
        except ValueError:
            parsed = map(parse_number, present)
            numbers[~self.missing] = [np.nan if number is None else number for number in parsed]
        return numbers

    @cached_property
    def present(self) -> list[tuple[str, int]]:
        """Values that are not missing, without surrounding space, and their counts."""
        chosen = np.flatnonzero(~self.missing)
        counts = self.counts[chosen].tolist()
        return [
            (self.values[at].strip(), count)
            for at, count in zip(chosen.tolist(), counts, strict=True)
        ]

    @cached_property
    def num_present(self) -> int:
        """Number of cells with a value."""
        return int(self.counts[~self.missing].sum())

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
        missing_words: Words for a missing value, in lower case.
        blank_columns: Columns in which only blank cells are missing values.
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
        """Return the row number that a spreadsheet shows for a position in the frame."""
        return self.first_row + int(position)

    def distinct(self, column: str) -> Distinct:
        """Return the different values of a column; cached."""
        words = frozenset() if column in self.blank_columns else self.missing_words
        if (column, words) not in self._distinct:
            self._distinct[column, words] = Distinct.of(self.frame[column], words)
        return self._distinct[column, words]

    def with_missing_words(self, words: Iterable[str], blank_columns: Iterable[str] = ()) -> Table:
        """Return the same table with other words for a missing value."""
        return replace(self, missing_words=frozenset(words), blank_columns=frozenset(blank_columns))

    def refuse_cells(
        self, column: str, wrong: NDArray[np.bool_], message: str, remedy: str
    ) -> None:
        """Raise an error about the first wrong cell of a column, ``{value}``, if there is one."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            what = message.format(value=shorten(str(self.frame[column].iloc[rows[0]])))
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
