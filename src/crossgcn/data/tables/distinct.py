"""The different values of a column, and which cell holds which."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["MISSING_WORDS", "Distinct", "missing_mask", "parse_number"]

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
            column: As :func:`~crossgcn.data.tables.table.read_table` reads it.
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
        column: As :func:`~crossgcn.data.tables.table.read_table` reads it.
    """
    distinct = Distinct.of(column)
    return distinct.missing[distinct.codes]
