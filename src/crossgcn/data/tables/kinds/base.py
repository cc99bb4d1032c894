"""What all kinds of columns have in common, and words, of which categories and lists are made."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict
from scipy import sparse

from crossgcn.data.tables.cells import plain_id
from crossgcn.data.tables.table import Distinct, Table

MIN_SHARE_OF_KIND = 0.9
"""Share of numbers, or of dates, that decides the kind of a column."""

MIN_COUNT = 2
"""Cells that a category or a word must be in to have a feature; others share ``(other)``."""

Inference = tuple[str, str] | None
"""A kind, or ``ignored``, and a short reason; None if other kinds are to be tried."""


@dataclass(frozen=True)
class Unseen:
    """Values that a column of the training table did not have: in how many cells, and the first."""

    column: str
    count: int
    example: str

    def __str__(self) -> str:
        return (
            f"column {self.column}: {self.count:,} values not seen in training, such as "
            f"{self.example!r}; they count as {self.column}=(other)"
        )


class ColumnEncoder(BaseModel):
    """Encodes one column as features; fitted to one table and then applied to others.

    Its fields are what ``preprocess.json`` keeps of the column.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """One name per feature, not necessarily different from those of other columns."""

    @abstractmethod
    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each different value, float32 ``[values, features]``."""

    def refuse_cells(self, nodes: Table) -> None:
        """Refuse cells of another table that cannot be encoded."""

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the values of another table that count as ``(other)``, if any."""
        return None

    def encode(self, nodes: Table) -> sparse.csr_array:
        """Return the features of each cell, float32 ``[rows, features]``; refuse wrong cells."""
        self.refuse_cells(nodes)
        distinct = nodes.distinct(self.column)
        return self.encode_values(distinct)[distinct.codes]


def ones_at(rows: Any, features: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """Return a matrix of zeros, with a one at each row and feature."""
    return sparse.csr_array((np.ones(len(rows), np.float32), (rows, features)), shape=shape)


class WordEncoder(ColumnEncoder):
    """One feature per frequent word, and ``(other)`` for the rest.

    Attributes:
        words: Words with a feature of their own, the most frequent first.
        rare: Words of the training table without one, by the alphabet.
    """

    words: tuple[str, ...]
    rare: tuple[str, ...]

    @abstractmethod
    def split(self, cell: str) -> list[str]:
        """Return the words of a cell."""

    @property
    def missing(self) -> list[int]:
        """The features of a missing value."""
        return []

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one at each word of each value."""
        known, other = self._find_known(self.words), len(self.words)
        rows: list[int] = []
        features: list[int] = []
        for row, (text, is_missing) in enumerate(
            zip(distinct.texts, distinct.missing, strict=True)
        ):
            words = [] if is_missing else self.split(text)
            found = {known.get(word, known.get(plain_id(word), other)) for word in words}
            found.update(self.missing if is_missing else [])
            rows += [row] * len(found)
            features += found
        return ones_at(rows, features, (len(distinct.values), len(self.feature_names)))

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the words that the training table did not have."""
        known = self._find_known((*self.words, *self.rare))
        unseen = {
            position: word
            for position in reversed(np.flatnonzero(~distinct.missing).tolist())
            for word in reversed(self.split(distinct.texts[position]))
            if word not in known and plain_id(word) not in known
        }
        if not unseen:
            return None
        return Unseen(self.column, int(distinct.counts[list(unseen)].sum()), unseen[min(unseen)])

    @staticmethod
    def _find_known(words: Sequence[str]) -> dict[str, int]:
        """Return the position of each word; ``7.0`` is also found as ``7``."""
        known = {plain_id(word): at for at, word in reversed(list(enumerate(words)))}
        return known | {word: at for at, word in enumerate(words)}


def count_words(cells: Sequence[tuple[list[str], int]]) -> dict[str, int]:
    """Return the words of all cells and their counts, the most frequent first."""
    counts: Counter[str] = Counter()
    for words, count in cells:
        for word in words:
            counts[word] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
