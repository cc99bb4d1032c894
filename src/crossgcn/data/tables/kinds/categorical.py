"""Columns of categories, such as cities and codes: one feature per category."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from scipy import sparse

from crossgcn.data.tables.cells import WHOLE
from crossgcn.data.tables.kinds.base import ColumnEncoder, Unseen
from crossgcn.data.tables.table import Distinct

MIN_COUNT = 2
"""Cells that a category or a word must be in to have a feature; others share ``(other)``."""

MAX_CATEGORIES_OF_NAMES = 20
"""Text with at most this many different values is never taken for names."""

MIN_SHARE_OF_NAMES = 0.9
"""Share of different values in a column of names."""

MIN_SHARE_OF_TEXTS = 0.5
MIN_WORDS_OF_TEXT = 6.0
"""Share of different values in a column of free text, and number of words on average."""


def infer_categorical(distinct: Distinct) -> tuple[str, str]:
    """Take text as categories, but leave out names and free text."""
    values = {text for text, _ in distinct.present}
    num_cells = distinct.num_present
    texts = f"{len(values):,} different texts in {num_cells:,} cells"
    if are_names(len(values), num_cells):
        return "ignored", f"{texts}, as names are"
    num_words = sum(len(value.split()) for value in values) / len(values)
    is_different = len(values) > max(MAX_CATEGORIES_OF_NAMES, MIN_SHARE_OF_TEXTS * num_cells)
    if is_different and num_words >= MIN_WORDS_OF_TEXT:
        return "ignored", f"{texts} of {num_words:.0f} words on average: free text"
    return "categorical", f"{len(values):,} different values"


def are_names(num_different: int, num_cells: int) -> bool:
    """Return whether values are so different that they name nodes."""
    if num_different == num_cells:
        return num_cells >= 5
    is_many = num_different > MAX_CATEGORIES_OF_NAMES
    return is_many and num_different > MIN_SHARE_OF_NAMES * num_cells


class WordEncoder(ColumnEncoder):
    """Base of encoders with one feature per frequent word, and ``(other)`` for the rest.

    Attributes:
        words: Words with a feature of their own, the most frequent first.
        rare: Words of the training table without one, by the alphabet.
    """

    words: tuple[str, ...]
    rare: tuple[str, ...]

    @abstractmethod
    def split(self, cell: str) -> list[str]:
        """Return the words of a cell."""

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one at each word of each value, in the order of the words."""
        positions = {word: at for at, word in enumerate(self.words)}
        features: list[int] = []
        starts = [0]
        for text, is_missing in zip(distinct.texts, distinct.missing, strict=True):
            found = [self.look_up(word, positions) for word in self.split(text)]
            ones = dict.fromkeys(len(self.words) if at is None else at for at in found)
            features += self.missing if is_missing else ones
            starts.append(len(features))
        shape = (len(starts) - 1, len(self.feature_names))
        data = np.ones(len(features), np.float32), np.array(features, np.int64), np.array(starts)
        return sparse.csr_array(data, shape=shape)

    @property
    def missing(self) -> list[int]:
        """The features of a missing value."""
        return []

    def look_up(self, word: str, positions: Mapping[str, int]) -> int | None:
        """Return the position of a word, or None."""
        return positions.get(word)

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the words that the training table did not have."""
        known = {word: at for at, word in enumerate((*self.words, *self.rare))}
        unseen = [
            (position, word)
            for position in np.flatnonzero(~distinct.missing).tolist()
            for word in self.split(distinct.texts[position])
            if self.look_up(word, known) is None
        ]
        if not unseen:
            return None
        spellings = {_fold(word): word for word in reversed(known)}  # frequent words win
        meant = [(word, spellings[_fold(word)]) for _, word in unseen if _fold(word) in spellings]
        example, like = meant[0] if meant else (unseen[0][1], None)
        values = sorted({position for position, _ in unseen})
        return Unseen(self.column, int(distinct.counts[values].sum()), example, like)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def count_words(distinct: Distinct, split: Callable[[str], list[str]]) -> dict[str, int]:
    """Return the words of all cells and their counts, the most frequent first."""
    counts: Counter[str] = Counter()
    for cell, count in distinct.present:
        for word in split(cell):
            counts[word] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class CategoryEncoder(WordEncoder):
    """One feature per category of several cells: ``gender=female``.

    Attributes:
        has_missing: Whether missing values have a feature; otherwise they count as ``(other)``.
    """

    kind: Literal["categorical"] = "categorical"
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct, min_count: int = MIN_COUNT) -> CategoryEncoder:
        """Give each category of at least ``min_count`` cells a feature."""
        counts = count_words(distinct, lambda cell: [cell])
        return cls(
            column=column,
            words=tuple(word for word in counts if counts[word] >= min_count),
            rare=tuple(sorted(word for word in counts if counts[word] < min_count)),
            has_missing=bool(distinct.missing.any()),
        )

    @property
    def feature_names(self) -> list[str]:
        """The categories, then ``(other)``, then ``(missing)``."""
        words = (*self.words, "(other)", *["(missing)"] * self.has_missing)
        return [f"{self.column}={word}" for word in words]

    def split(self, cell: str) -> list[str]:
        """Return the category as the only word."""
        return [cell]

    @property
    def missing(self) -> list[int]:
        """``(missing)``, or ``(other)`` if no value was missing in training."""
        return [len(self.words) + self.has_missing]

    def look_up(self, word: str, positions: Mapping[str, int]) -> int | None:
        """Return the position of a category, of ``7`` for ``7.0`` and the other way round."""
        found = positions.get(word)
        if found is None:
            whole = WHOLE.fullmatch(word)
            found = positions.get(whole[1] if whole else f"{word}.0")
        return found
