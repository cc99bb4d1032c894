"""Categories and flags as features."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator
from scipy import sparse

from crossgcn.data.tables.cells import (
    Separator,
    find_separator,
    fold_spelling,
    shorten,
    split_words,
)
from crossgcn.data.tables.table import Distinct, Table
from crossgcn.errors import BadInput


@dataclass(frozen=True)
class Unseen:
    """What a column says that a model knows nothing of, and so takes for ``(other)``.

    Attributes:
        column: The header.
        count: How many cells hold such a value, or a list with such a word.
        example: One of the values; if some seem misspelt, one of those.
        known: The value that was probably meant: it differs from the example only in case or
            spaces; none where there is no such value.
    """

    column: str
    count: int
    example: str
    known: str | None


def gather_unseen(
    column: str, distinct: Distinct, found: Sequence[tuple[int, str]], known: Iterable[str]
) -> Unseen | None:
    """One answer for all that was not seen in a column; none where all was.

    Args:
        column: The header.
        distinct: The column's values.
        found: The position of a value, and a word of it that was not seen.
        known: The words that were, those to be preferred first.
    """
    if not found:
        return None
    spellings: dict[str, str] = {}
    for word in known:
        spellings.setdefault(fold_spelling(word), word)
    meant = ((word, spellings.get(fold_spelling(word))) for _, word in found)
    example, like = next((pair for pair in meant if pair[1] is not None), (found[0][1], None))
    holding = sorted({position for position, _ in found})
    return Unseen(column, int(distinct.counts[holding].sum()), example, like)


class EncodedColumn(BaseModel):
    """How one column becomes features, settled by the table it was fitted to.

    Attributes:
        column: Its header.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """One per feature, perhaps not all different from those of other columns."""

    @abstractmethod
    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """The features of each different value, float32 [values, features]."""

    def encode(self, nodes: Table) -> sparse.csr_array:
        """The features of each cell, float32 [rows, features].

        Args:
            nodes: A table that has the column.
        """
        distinct = nodes.distinct(self.column)
        return self.encode_values(distinct)[distinct.codes]

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """What the column fitted to did not have; there is none where any value has a meaning.

        Args:
            distinct: The values of the same column of another table.
        """
        return None


def refuse_values(
    nodes: Table, column: str, wrong: NDArray[np.bool_], what: str, remedy: str
) -> None:
    """Refuse a table for values that cannot be encoded.

    Args:
        nodes: The table.
        column: Its column.
        wrong: Which of the different values of the column are meant.
        what: What they are not.
        remedy: What to write instead.

    Raises:
        BadInput: Naming the first cell that holds one, if there is any.
    """
    distinct = nodes.distinct(column)
    cells = np.flatnonzero(wrong[distinct.codes])
    if len(cells):
        value = distinct.values[distinct.codes[cells[0]]]
        raise BadInput(
            f"{nodes.name}, row {nodes.row_number(cells[0])}, column {column}: {shorten(value)} is "
            f"no {what} ({len(cells)} such in all); {remedy}"
        )


def one_hot(features: NDArray[np.int64], num_features: int) -> sparse.csr_array:
    """A row per entry with a one at that feature, or none where it is negative."""
    is_set = features >= 0
    starts = np.concatenate([[0], np.cumsum(is_set)])
    chosen = features[is_set]
    ones = np.ones(len(chosen), np.float32)
    return sparse.csr_array((ones, chosen, starts), shape=(len(features), num_features))


WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")

SET = frozenset({"true", "yes", "y", "t"})
NOT_SET = frozenset({"false", "no", "n", "f"})
"""What a flag may say besides 1 and 0, in any case."""


class EncodedCategory(EncodedColumn):
    """One feature per category: ``gender=female``.

    Attributes:
        categories: Those with a feature of their own, the most frequent first.
        has_missing: Whether a cell without a value has a feature, because there were such.
            Otherwise it counts as another category, like a rare or a new one.
        rare: Those of the others that were there, by the alphabet.
    """

    kind: Literal["categorical"] = "categorical"
    categories: tuple[str, ...]
    has_missing: bool
    rare: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("a category is listed twice")
        return self

    @classmethod
    def fit(cls, column: str, distinct: Distinct, *, min_count: int) -> EncodedCategory:
        """Give each category in at least ``min_count`` cells a feature.

        Args:
            column: The header.
            distinct: The column's values; space around them does not count.
            min_count: Rarer ones share ``(other)``.
        """
        counts: Counter[str] = Counter()
        for value, count in distinct.present:
            counts[value] += count
        common = [value for value, count in counts.items() if count >= min_count]
        common.sort(key=lambda value: (-counts[value], value))
        return cls(
            column=column,
            categories=tuple(common),
            has_missing=bool(distinct.missing.any()),
            rare=tuple(sorted(counts.keys() - set(common))),
        )

    @property
    def feature_names(self) -> list[str]:
        """The categories, then other ones, then missing ones."""
        words = [*self.categories, "(other)", *(["(missing)"] if self.has_missing else [])]
        return [f"{self.column}={word}" for word in words]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """A one at the category of each value."""
        other = len(self.categories)
        missing = other + 1 if self.has_missing else other
        found = (_look_up(value.strip(), self._positions) for value in distinct.values)
        features = np.array([other if at is None else at for at in found])
        features = np.where(distinct.missing, missing, features)
        return one_hot(features, other + 1 + self.has_missing)

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Categories that no node fitted to had."""
        known = {word: at for at, word in enumerate((*self.categories, *self.rare))}
        words = ((position, distinct.values[position].strip()) for position in _present(distinct))
        found = [(position, word) for position, word in words if _look_up(word, known) is None]
        return gather_unseen(self.column, distinct, found, known)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {category: at for at, category in enumerate(self.categories)}


def _present(distinct: Distinct) -> list[int]:
    return np.flatnonzero(~distinct.missing).tolist()


def _look_up(value: str, positions: Mapping[str, int]) -> int | None:
    found = positions.get(value)
    if found is None:
        # A column of codes with gaps is written with .0 by some programs.
        whole = WHOLE.fullmatch(value)
        found = positions.get(whole[1] if whole else f"{value}.0")
    return found


class EncodedFlag(EncodedColumn):
    """One feature, which is 1 where the flag is set.

    Attributes:
        has_missing: Whether a cell without a value has a feature, because there were such.
            Otherwise it counts as not set.
    """

    kind: Literal["flag"] = "flag"
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> EncodedFlag:
        """See whether values are missing.

        Args:
            column: The header.
            distinct: The column's values.
        """
        return cls(column=column, has_missing=bool(distinct.missing.any()))

    @property
    def feature_names(self) -> list[str]:
        """The column itself, then its being missing."""
        return [self.column, *([f"{self.column}=(missing)"] if self.has_missing else [])]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """A one where the flag is set."""
        missing = 1 if self.has_missing else -1
        features = np.where(_is_set(distinct), 0, -1)
        return one_hot(np.where(distinct.missing, missing, features), 1 + self.has_missing)

    def encode(self, nodes: Table) -> sparse.csr_array:
        """The features of each cell.

        Raises:
            BadInput: A cell is neither empty nor says whether the flag is set.
        """
        distinct = nodes.distinct(self.column)
        is_known = _is_set(distinct) | (distinct.numbers == 0) | distinct.is_one_of(NOT_SET)
        refuse_values(
            nodes,
            self.column,
            ~is_known & ~distinct.missing,
            "flag",
            "write 1 or 0, true or false, yes or no, or leave the cell empty",
        )
        return super().encode(nodes)


def _is_set(distinct: Distinct) -> NDArray[np.bool_]:
    is_one: NDArray[np.bool_] = distinct.numbers == 1
    return distinct.is_one_of(SET) | is_one


MOST_WORDS = 5_000
"""Words beyond the most frequent so many share a feature."""


class EncodedList(EncodedColumn):
    """One feature per word: ``tags:sale``.

    Attributes:
        separator: What stands between the words of a cell.
        words: Those with a feature of their own, the most frequent first; others share one.
        rare: Those of the others that were there, by the alphabet.
    """

    kind: Literal["list"] = "list"
    separator: Separator
    words: tuple[str, ...]
    rare: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.words)) < len(self.words):
            raise ValueError("a word is listed twice")
        return self

    @classmethod
    def fit(cls, column: str, distinct: Distinct, *, min_count: int) -> EncodedList:
        """Give each word in at least ``min_count`` cells a feature.

        Args:
            column: The header.
            distinct: The column's values.
            min_count: Rarer ones share ``(other)``.
        """
        separator = find_separator([cell for cell, _ in distinct.present])
        counts: Counter[str] = Counter()
        for cell, count in distinct.present:
            for word in split_words(cell, separator):
                counts[word] += count
        common = [word for word, count in counts.items() if count >= min_count]
        common.sort(key=lambda word: (-counts[word], word))
        words = tuple(common[:MOST_WORDS])
        rare = tuple(sorted(counts.keys() - set(words)))
        return cls(column=column, separator=separator, words=words, rare=rare)

    @property
    def feature_names(self) -> list[str]:
        """The words, then other ones."""
        return [f"{self.column}:{word}" for word in (*self.words, "(other)")]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """A one at every word of each value."""
        positions = {word: at for at, word in enumerate(self.words)}
        other = len(self.words)
        features: list[int] = []
        starts = [0]
        for words in self._split(distinct):
            features.extend(sorted({positions.get(word, other) for word in words}))
            starts.append(len(features))
        ones = np.ones(len(features), np.float32)
        return sparse.csr_array(
            (ones, np.array(features, np.int64), np.array(starts, np.int64)),
            shape=(len(distinct.values), other + 1),
        )

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Words that no node fitted to had."""
        known = {*self.words, *self.rare}
        found = [
            (position, word)
            for position, words in enumerate(self._split(distinct))
            for word in words
            if word not in known
        ]
        return gather_unseen(self.column, distinct, found, (*self.words, *self.rare))

    def _split(self, distinct: Distinct) -> Iterator[list[str]]:
        """The words of each value, none where it is missing."""
        for value, is_missing in zip(distinct.values, distinct.missing, strict=True):
            yield [] if is_missing else split_words(value, self.separator)
