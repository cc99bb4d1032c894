"""What a column looks like: a flag, categories, numbers, lists of words, or nothing of use."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MISSING_WORDS = frozenset({"na", "n/a", "nan", "null", "none"})
"""What a cell without a value says, unless it is blank, in any case and with space around it."""

NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)
PLAIN = re.compile(r"[0-9eE.+-]*")
"""Of these characters alone, Python makes a number exactly when :data:`NUMBER` matches."""


def parse_number(text: str) -> float | None:
    """The number a cell holds, infinities included; none where it holds no number.

    Digits are ASCII, the decimal sign is a point, and nothing separates thousands:
    ``1,5``, ``1 000`` and ``1_000`` are no numbers.

    Args:
        text: The cell; space around the number does not count.
    """
    text = text.strip()
    return float(text) if NUMBER.fullmatch(text) else None


@dataclass(frozen=True)
class Distinct:
    """A column of text, each different value once.

    A property of the values is worked out once per value, not once per cell.

    Attributes:
        codes: For each cell, which value it holds.
        values: In order of first appearance, as they are written.
        words: Those that stand for a missing value, in lower case; blank cells always do.
    """

    codes: NDArray[np.int64]
    values: tuple[str, ...]
    words: frozenset[str] = MISSING_WORDS

    @classmethod
    def of(cls, column: pd.Series[str], words: frozenset[str] = MISSING_WORDS) -> Distinct:
        """Look through a column of text.

        Args:
            column: As :func:`~crossgcn.data.tables.read.read_table` reads it.
            words: Those that stand for a missing value, in lower case.
        """
        codes, values = pd.factorize(column)
        return cls(codes.astype(np.int64, copy=False), tuple(values.tolist()), words)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many cells hold each value."""
        return np.bincount(self.codes, minlength=len(self.values))

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which values stand for a missing one."""
        return self.blank | self.says(self.words)

    @cached_property
    def blank(self) -> NDArray[np.bool_]:
        """Which values are nothing but space."""
        return np.array([not value.strip() for value in self.values], bool)

    def says(self, words: Set[str]) -> NDArray[np.bool_]:
        """Which values are one of the words.

        Args:
            words: In lower case; the values may be in any, with space around them.
        """
        return np.array([value.strip().lower() in words for value in self.values], bool)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number each value is; not-a-number where it is missing or none."""
        numbers = np.full(len(self.values), np.nan)
        present = np.array(self.values, dtype=object)[~self.missing]
        try:
            if not PLAIN.fullmatch("".join(present)):
                raise ValueError
            numbers[~self.missing] = present.astype(np.float64)
        except ValueError:
            parsed = map(parse_number, present)
            numbers[~self.missing] = [np.nan if number is None else number for number in parsed]
        return numbers

    @cached_property
    def present(self) -> list[tuple[str, int]]:
        """The values that stand for something, without space around them, and their counts."""
        chosen = np.flatnonzero(~self.missing)
        counts = self.counts[chosen].tolist()
        return [
            (self.values[at].strip(), count)
            for at, count in zip(chosen.tolist(), counts, strict=True)
        ]

    @cached_property
    def num_present(self) -> int:
        """How many cells hold something."""
        return int(self.counts[~self.missing].sum())


def missing_mask(column: pd.Series[str]) -> NDArray[np.bool_]:
    """Which cells of a column of text have no value.

    Args:
        column: As :func:`~crossgcn.data.tables.read.read_table` reads it.
    """
    distinct = Distinct.of(column)
    return distinct.missing[distinct.codes]


Separator = Literal["json", ";", "|", ",", " "]

SEPARATED_SHARE = 0.1
"""Of the cells, at least so many hold more than one word in a column of lists."""

WORD_REPEATS = 3
"""So often a word of a list is repeated, on average, at least."""


def split_words(cell: str, separator: Separator) -> list[str]:
    """The different words of a cell, in order, without space around them.

    Args:
        cell: What is written; an empty one has no words.
        separator: What stands between words; ``json`` for JSON arrays, of which text that
            is none is read as words between commas, brackets and quotes dropped.
    """
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def find_separator(cells: Sequence[str]) -> Separator:
    """What stands between the words: whatever is in the most cells.

    Args:
        cells: The different values of a column, missing ones left out.
    """
    if sum(_is_bracketed(cell) for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def looks_like_lists(present: Sequence[tuple[str, int]]) -> str | None:
    """Why a column is taken for lists of words, or none.

    Enough cells hold several words, and the words repeat far more often than the cells do.
    A comma is in many a text and number, so with commas the lists must differ in length and the
    words must not be digits as well.

    Args:
        present: The different values, each with the number of cells that hold it.
    """
    separator = find_separator([cell for cell, _ in present])
    if separator == " ":
        return None
    words: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for cell, count in present:
        split = split_words(cell, separator)
        lengths[len(split)] += count
        for word in split:
            words[word] += count
    num_cells = lengths.total()
    several = num_cells - lengths[0] - lengths[1]
    if several < SEPARATED_SHARE * num_cells or words.total() < WORD_REPEATS * len(words):
        return None
    if separator == "," and (len(lengths) < 2 or _are_numbers(words)):
        return None
    if len(words) > len(present) and separator != "json":
        return None
    written = "as JSON" if separator == "json" else f"between {separator!r}"
    return f"lists of {len(words):,} words {written}"


def _are_numbers(words: Iterable[str]) -> bool:
    return all(parse_number(word) is not None for word in words)


def _is_bracketed(cell: str) -> bool:
    return cell.startswith("[") and cell.endswith("]")


def _split_json(cell: str) -> list[str]:
    try:
        content = json.loads(cell)
    except ValueError:
        content = None
    if isinstance(content, list):
        return [item if isinstance(item, str) else json.dumps(item) for item in content]
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]


FeatureKind = Literal["categorical", "flag", "numeric", "list", "ignored"]

FLAG_WORDS = frozenset({"0", "1", "false", "true", "0.0", "1.0"})
"""What the cells of a column that is taken for a flag say, in any case."""

MOST_CODES = 12
"""Whole numbers with at most so many different values are taken as codes."""

FEWEST_DIFFERENT = 20
"""Text with at most so many different values is never taken for names."""

MOSTLY = 0.9
"""The share of cells that makes a column what they are; the others are for the check to report."""

DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
)
CODE = re.compile(r"0\d+")


def look_at(distinct: Distinct) -> tuple[FeatureKind, str]:
    """What a column is best taken for, and why in a few words.

    Args:
        distinct: The column's values.
    """
    present = distinct.present
    if not present:
        return "ignored", "no cell has a value"
    values = {value for value, _ in present}
    if len(values) == 1 and not distinct.missing.any():
        return "ignored", f"always {shorten(next(iter(values)))}"
    if len(values) <= 2 and {value.lower() for value in values} <= FLAG_WORDS:
        return "flag", "only " + " and ".join(sorted(values))
    if len(values) == 1:
        return "categorical", f"{shorten(next(iter(values)))} or nothing"
    return (
        _look_for_numbers(distinct, values)
        or _look_for_text(present, values, distinct.num_present)
        or ("categorical", f"{len(values):,} different values")
    )


def shorten(text: str, length: int = 40) -> str:
    """A value as a message shows it, in quotes and not too long."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")


def _look_for_numbers(distinct: Distinct, values: set[str]) -> tuple[FeatureKind, str] | None:
    is_number = ~np.isnan(distinct.numbers)
    num_cells = int(distinct.counts[is_number].sum())
    if num_cells < MOSTLY * distinct.num_present:
        return None
    numbers = np.unique(distinct.numbers[is_number])
    all_numbers = num_cells == distinct.num_present
    are_whole = bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())
    if are_whole and any(CODE.fullmatch(value) for value in values):
        return _codes_with_zeros(values, distinct.num_present)
    if are_whole and len(numbers) <= MOST_CODES and 2 * len(numbers) <= num_cells:
        if not all_numbers:
            return "categorical", f"{len(values)} different values, most of them whole numbers"
        return "categorical", f"{len(values)} different whole numbers, taken as codes"
    if not all_numbers and len(numbers) <= MOST_CODES:
        return None
    if are_whole and all_numbers and _counts_the_rows(numbers, distinct):
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / distinct.num_present:.1%} numbers"
    return "numeric", f"{share} from {numbers[0]:g} to {numbers[-1]:g}"


def _codes_with_zeros(values: set[str], num_cells: int) -> tuple[FeatureKind, str]:
    if _are_names(len(values), num_cells):
        return "ignored", f"digits with leading zeros, {len(values):,} in {num_cells:,} cells"
    return "categorical", f"{len(values):,} different codes with leading zeros"


def _counts_the_rows(numbers: NDArray[np.float64], distinct: Distinct) -> bool:
    num_rows = len(distinct.codes)
    return bool(
        num_rows > MOST_CODES
        and numbers[0] in (0, 1)
        and len(numbers) == num_rows
        and numbers[-1] - numbers[0] == num_rows - 1
    )


def _look_for_text(
    present: list[tuple[str, int]], values: set[str], num_cells: int
) -> tuple[FeatureKind, str] | None:
    num_dates = sum(count for value, count in present if DATE.fullmatch(value))
    if num_dates >= MOSTLY * num_cells:
        return "ignored", "dates; write days since one as a number to use it"
    if reason := looks_like_lists(present):
        return "list", reason
    if _are_names(len(values), num_cells):
        return "ignored", f"{len(values):,} different texts in {num_cells:,} cells, as names are"
    return None


def _are_names(num_different: int, num_cells: int) -> bool:
    if num_different == num_cells:
        return num_cells >= 5
    return num_different > FEWEST_DIFFERENT and 2 * num_different > num_cells


def fold_spelling(text: str) -> str:
    """The text without what people overlook: case, spaces and how accents are encoded.

    Args:
        text: A value, a class, an id.
    """
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.casefold().split())
