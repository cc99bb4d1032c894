"""Encoders of columns: the base of all, categories and flags, and lists of words."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from crossgcn.data.tables.cells import (
    FLAGS,
    WHOLE,
    Separator,
    find_separator,
    plain_id,
    split_words,
)
from crossgcn.data.tables.plan import SavedModel
from crossgcn.data.tables.table import Distinct, Table

MIN_COUNT = 2
"""Cells that a category or a word must be in to have a feature; others share ``(other)``."""

MAX_LIST_WORDS = 5_000
"""Number of words with a feature of their own in a column of lists."""

Refusals = Mapping[int, tuple[str, str]]
"""For each different value that cannot be encoded: what is wrong with it, and the remedy."""


@dataclass(frozen=True)
class Unseen:
    """Values of a column that the training table did not have, encoded as ``(other)``.

    Attributes:
        count: Number of cells with such a value, or with a list that has such a word.
        example: One of the values, if possible one that ``known`` explains.
        known: A known value that differs from the example only in case or spaces, or None.
    """

    column: str
    count: int
    example: str
    known: str | None

    def __str__(self) -> str:
        meant = "" if self.known is None else f" (did you mean {self.known!r}?)"
        return (
            f"column {self.column}: {self.count:,} values not seen in training, such as "
            f"{self.example!r}{meant}; they count as {self.column}=(other)"
        )


class ColumnEncoder(SavedModel):
    """Encodes one column as features; fitted to one table and then applied to others."""

    column: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """One name per feature, not necessarily different from those of other columns."""

    @abstractmethod
    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each different value, float32 ``[values, features]``."""

    def refuse(self, distinct: Distinct) -> Refusals:
        """Return the values of another table that cannot be encoded."""
        return {}

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the values of another table that have no meaning of their own, if any."""
        return None

    def encode(self, nodes: Table) -> sparse.csr_array:
        """Return the features of each cell, float32 ``[rows, features]``; refuse wrong cells."""
        distinct = nodes.distinct(self.column)
        refusals = self.refuse(distinct)
        wrong = np.isin(distinct.codes, list(refusals))
        if wrong.any():
            reason, remedy = refusals[int(distinct.codes[np.argmax(wrong)])]
            nodes.refuse_cells(self.column, wrong, f"{{value}} {reason}", remedy)
        return self.encode_values(distinct)[distinct.codes]


def one_hot(features: NDArray[np.int64], num_features: int) -> sparse.csr_array:
    """Return one row per entry with a one at that feature, or none where it is negative."""
    is_set = features >= 0
    starts = np.concatenate([[0], np.cumsum(is_set)])
    chosen = features[is_set]
    ones = np.ones(len(chosen), np.float32)
    return sparse.csr_array((ones, chosen, starts), shape=(len(features), num_features))


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
            words = [] if is_missing else self.split(text)
            found = [self.look_up(word, positions) for word in words]
            own = dict.fromkeys(len(self.words) if at is None else at for at in found)
            features += self.missing if is_missing else own
            starts.append(len(features))
        ones, shape = np.ones(len(features), np.float32), (len(starts) - 1, len(self.feature_names))
        return sparse.csr_array((ones, np.array(features, np.int64), np.array(starts)), shape=shape)

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
        found = [
            (position, word)
            for position in np.flatnonzero(~distinct.missing).tolist()
            for word in self.split(distinct.texts[position])
            if self.look_up(word, known) is None
        ]
        if not found:
            return None
        spellings = {_fold(word): word for word in reversed(known)}  # frequent words win
        meant = ((word, spellings.get(_fold(word))) for _, word in found)
        example, like = next((pair for pair in meant if pair[1] is not None), (found[0][1], None))
        holding = sorted({position for position, _ in found})
        return Unseen(self.column, int(distinct.counts[holding].sum()), example, like)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _count_words(distinct: Distinct, split: Callable[[str], list[str]]) -> dict[str, int]:
    """Return the words of all cells and their counts, the most frequent first."""
    counts: Counter[str] = Counter()
    for cell, count in distinct.present:
        for word in split(cell):
            counts[word] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class CategoryEncoder(WordEncoder):
    """One feature per category of several cells: ``gender=female``; a flag has only ``member``.

    Attributes:
        has_missing: Whether missing values have a feature; otherwise they count as ``(other)``,
            and of a flag as false.
    """

    kind: Literal["categorical", "flag"] = "categorical"
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct, min_count: int = MIN_COUNT) -> CategoryEncoder:
        """Give each category of at least ``min_count`` cells a feature."""
        counts = _count_words(distinct, lambda cell: [cell])
        return cls(
            column=column,
            words=tuple(word for word in counts if counts[word] >= min_count),
            rare=tuple(sorted(word for word in counts if counts[word] < min_count)),
            has_missing=bool(distinct.missing.any()),
        )

    @classmethod
    def fit_flag(cls, column: str, distinct: Distinct) -> CategoryEncoder:
        """Give the flag a feature that is 1 where it is true."""
        has_missing = bool(distinct.missing.any())
        return cls(kind="flag", column=column, words=("true",), rare=(), has_missing=has_missing)

    @property
    def feature_names(self) -> list[str]:
        """The categories, then ``(other)``, then ``(missing)``; of a flag its name."""
        missing = [f"{self.column}=(missing)"] * self.has_missing
        if self.kind == "flag":
            return [self.column, *missing]
        return [*(f"{self.column}={word}" for word in (*self.words, "(other)")), *missing]

    def split(self, cell: str) -> list[str]:
        """Return the category as the only word; no word for a flag that is false."""
        if self.kind == "categorical":
            return [cell]
        return ["true"] if FLAGS.get(plain_id(cell.lower())) else []

    @property
    def missing(self) -> list[int]:
        """``(missing)``, or ``(other)`` if no value was missing in training."""
        if self.has_missing or self.kind == "categorical":
            return [len(self.feature_names) - 1]
        return []

    def look_up(self, word: str, positions: Mapping[str, int]) -> int | None:
        """Return the position of a category, of ``7`` for ``7.0`` and the other way round."""
        found = positions.get(word)
        if found is None:
            whole = WHOLE.fullmatch(word)
            found = positions.get(whole[1] if whole else f"{word}.0")
        return found

    def refuse(self, distinct: Distinct) -> Refusals:
        """Return words in a column of flags that are no flag."""
        if self.kind == "categorical":
            return {}
        is_flag = np.array([plain_id(text.lower()) in FLAGS for text in distinct.texts], bool)
        wrong = ~(is_flag | distinct.missing)
        remedy = "write 1 or 0, true or false, yes or no, or leave the cell empty"
        return dict.fromkeys(np.flatnonzero(wrong).tolist(), ("is not a flag", remedy))


class ListEncoder(WordEncoder):
    """One feature per word of several lists: ``tags:sale``."""

    kind: Literal["list"] = "list"
    separator: Separator

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> ListEncoder:
        """Give each word in several cells a feature."""
        separator = find_separator([cell for cell, _ in distinct.present])
        counts = _count_words(distinct, lambda cell: split_words(cell, separator))
        words = [word for word in counts if counts[word] >= MIN_COUNT][:MAX_LIST_WORDS]
        rare = tuple(sorted(counts.keys() - set(words)))
        return cls(column=column, words=tuple(words), rare=rare, separator=separator)

    @property
    def feature_names(self) -> list[str]:
        """The words, then ``(other)``."""
        return [f"{self.column}:{word}" for word in (*self.words, "(other)")]

    def split(self, cell: str) -> list[str]:
        """Return the words of a list."""
        return split_words(cell, self.separator)
