"""Encoders of columns: the base of all, flags, categories, lists of words, and hashed words."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy import sparse

from crossgcn.data.tables.cells import (
    FALSE_WORDS,
    TRUE_WORDS,
    WHOLE,
    Separator,
    find_separator,
    fold_spelling,
    split_words,
)
from crossgcn.data.tables.plan import MAX_HASH_BITS, SavedModel
from crossgcn.data.tables.table import Distinct, Mask, Table


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

    refusal: ClassVar[tuple[str, str]] = ("", "")
    """What is wrong with the cells of :meth:`find_wrong`, and the remedy."""

    column: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """One name per feature, not necessarily different from those of other columns."""

    @abstractmethod
    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each different value, float32 ``[values, features]``."""

    def find_wrong(self, distinct: Distinct) -> Mask:
        """Return which values of another table cannot be encoded."""
        return np.zeros(len(distinct.values), bool)

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the values of another table that have no meaning of their own, if any."""
        return None

    def encode(self, nodes: Table) -> sparse.csr_array:
        """Return the features of each cell, float32 ``[rows, features]``; refuse wrong cells."""
        distinct = nodes.distinct(self.column)
        nodes.refuse_cells(self.column, self.find_wrong(distinct)[distinct.codes], *self.refusal)
        return self.encode_values(distinct)[distinct.codes]


def one_hot(features: NDArray[np.int64], num_features: int) -> sparse.csr_array:
    """Return one row per entry with a one at that feature, or none where it is negative."""
    is_set = features >= 0
    starts = np.concatenate([[0], np.cumsum(is_set)])
    chosen = features[is_set]
    ones = np.ones(len(chosen), np.float32)
    return sparse.csr_array((ones, chosen, starts), shape=(len(features), num_features))


class FlagEncoder(ColumnEncoder):
    """One feature, which is 1 where the flag is true.

    Attributes:
        has_missing: Whether missing values have a feature; otherwise they count as false.
    """

    refusal = (
        "{value} is not a flag",
        "write 1 or 0, true or false, yes or no, or leave the cell empty",
    )
    kind: Literal["flag"] = "flag"
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> FlagEncoder:
        """Give missing values a feature if there are any."""
        return cls(column=column, has_missing=bool(distinct.missing.any()))

    @property
    def feature_names(self) -> list[str]:
        """The column, then its missing values."""
        return [self.column, f"{self.column}=(missing)"][: 1 + self.has_missing]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one where the flag is true."""
        missing = 1 if self.has_missing else -1
        features = np.where(_is_true(distinct), 0, -1)
        return one_hot(np.where(distinct.missing, missing, features), 1 + self.has_missing)

    def find_wrong(self, distinct: Distinct) -> Mask:
        """Return which values are not flags."""
        is_zero: Mask = distinct.numbers == 0
        is_false = distinct.is_one_of(FALSE_WORDS) | is_zero
        return ~(_is_true(distinct) | is_false | distinct.missing)


def _is_true(distinct: Distinct) -> Mask:
    is_one: Mask = distinct.numbers == 1
    return distinct.is_one_of(TRUE_WORDS) | is_one


MIN_COUNT = 2
"""Cells that a word, or one of very many categories, must be in to have a feature."""

MANY_CATEGORIES = 4096
"""Up to so many, every category has a feature: neighbours may have it too."""

MAX_LIST_WORDS = 5_000
"""Number of words with a feature of their own in a column of lists."""

WORDS_IN_NAME = 3
"""Number of words in the name of a hashed feature, the most frequent first."""


class WordEncoder(ColumnEncoder):
    """Base of encoders that look up or hash words."""

    @property
    def num_features(self) -> int:
        """The number of features."""
        return len(self.feature_names)

    @abstractmethod
    def encode_cell(self, cell: str | None) -> Mapping[int, int]:
        """Return the features of a cell that are not zero; None is a missing value."""

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each different value."""
        features: list[int] = []
        entries: list[int] = []
        starts = [0]
        for text, is_missing in zip(distinct.texts, distinct.missing, strict=True):
            encoded = self.encode_cell(None if is_missing else text)
            features += encoded.keys()
            entries += encoded.values()
            starts.append(len(features))
        return sparse.csr_array(
            (np.array(entries, np.float32), np.array(features, np.int64), np.array(starts)),
            shape=(len(distinct.values), self.num_features),
        )


def _count_words(distinct: Distinct, split: Callable[[str], list[str]]) -> dict[str, int]:
    """Return the words of all cells and their counts, the most frequent first."""
    counts: Counter[str] = Counter()
    for cell, count in distinct.present:
        for word in split(cell):
            counts[word] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class VocabularyEncoder(WordEncoder):
    """Base of encoders with one feature per frequent word, and ``(other)`` for the rest.

    Attributes:
        rare: Words of the training table without a feature of their own, by the alphabet.
    """

    mark: ClassVar[str]
    rare: tuple[str, ...]

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """Words with a feature of their own, the most frequent first."""

    @abstractmethod
    def split(self, cell: str) -> list[str]:
        """Return the words of a cell."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("a word is listed twice")
        return self

    @property
    def feature_names(self) -> list[str]:
        """The words, then ``(other)``."""
        return [f"{self.column}{self.mark}{word}" for word in (*self.vocabulary, "(other)")]

    def encode_cell(self, cell: str | None) -> Mapping[int, int]:
        """Return a one at every word."""
        other = len(self.vocabulary)
        found = (self._look_up(word, self._positions) for word in self.split(cell or ""))
        return {other if position is None else position: 1 for position in found}

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the words that the training table did not have."""
        known = {word: at for at, word in enumerate((*self.vocabulary, *self.rare))}
        found = [
            (position, word)
            for position in np.flatnonzero(~distinct.missing).tolist()
            for word in self.split(distinct.texts[position])
            if self._look_up(word, known) is None
        ]
        if not found:
            return None
        spellings = {fold_spelling(word): word for word in reversed(known)}  # frequent words win
        meant = ((word, spellings.get(fold_spelling(word))) for _, word in found)
        example, like = next((pair for pair in meant if pair[1] is not None), (found[0][1], None))
        holding = sorted({position for position, _ in found})
        return Unseen(self.column, int(distinct.counts[holding].sum()), example, like)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {word: at for at, word in enumerate(self.vocabulary)}

    def _look_up(self, word: str, positions: Mapping[str, int]) -> int | None:
        return positions.get(word)


class CategoryEncoder(VocabularyEncoder):
    """One feature per category: ``gender=female``.

    Attributes:
        has_missing: Whether missing values have a feature; otherwise they count as ``(other)``.
    """

    mark = "="
    kind: Literal["categorical"] = "categorical"
    categories: tuple[str, ...]
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> CategoryEncoder:
        """Give each category a feature; of very many, those in several cells."""
        min_count = 1 if len(distinct.values) <= MANY_CATEGORIES else MIN_COUNT
        counts = _count_words(distinct, lambda cell: [cell])
        return cls(
            column=column,
            categories=tuple(word for word in counts if counts[word] >= min_count),
            rare=tuple(sorted(word for word in counts if counts[word] < min_count)),
            has_missing=bool(distinct.missing.any()),
        )

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The categories."""
        return self.categories

    def split(self, cell: str) -> list[str]:
        """Return the category as the only word."""
        return [cell]

    @property
    def feature_names(self) -> list[str]:
        """The categories, then ``(other)``, then ``(missing)``."""
        return [*super().feature_names, *([f"{self.column}=(missing)"] * self.has_missing)]

    def encode_cell(self, cell: str | None) -> Mapping[int, int]:
        """Return a one at the category."""
        missing = {len(self.vocabulary) + self.has_missing: 1}
        return missing if cell is None else super().encode_cell(cell)

    def _look_up(self, word: str, positions: Mapping[str, int]) -> int | None:
        """Return the position of a category, of ``7`` for ``7.0`` and the other way round."""
        found = positions.get(word)
        if found is None:
            whole = WHOLE.fullmatch(word)
            found = positions.get(whole[1] if whole else f"{word}.0")
        return found


class ListEncoder(VocabularyEncoder):
    """One feature per word of a list: ``tags:sale``."""

    mark = ":"
    kind: Literal["list"] = "list"
    separator: Separator
    words: tuple[str, ...]

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> ListEncoder:
        """Give each word in several cells a feature."""
        separator = find_separator([cell for cell, _ in distinct.present])
        counts = _count_words(distinct, lambda cell: split_words(cell, separator))
        words = [word for word in counts if counts[word] >= MIN_COUNT][:MAX_LIST_WORDS]
        rare = tuple(sorted(counts.keys() - set(words)))
        return cls(column=column, words=tuple(words), rare=rare, separator=separator)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words with a feature of their own."""
        return self.words

    def split(self, cell: str) -> list[str]:
        """Return the words of a list."""
        return split_words(cell, self.separator)


def hash_word(word: str, bits: int) -> tuple[int, int]:
    """Return the feature of a word among ``2**bits``, and a sign.

    The low bits of MurmurHash3 of the word in UTF-8 are the feature, the highest bit is the
    sign: the same on every machine. With signs, words that share a feature cancel as often as
    they add up.
    """
    from sklearn.utils import murmurhash3_32

    drawn = int(murmurhash3_32(word.encode("utf-8", "surrogatepass"), seed=0, positive=True))
    return drawn & ((1 << bits) - 1), -1 if drawn >> 31 else 1


class HashEncoder(WordEncoder):
    """Features chosen by the hash of each word: ``city#12=Porto``.

    Every word has a feature, also those of new nodes, and no vocabulary is kept. Of words that
    share a feature, the most frequent counts 1 and others 1 or -1, by their signs. A minus in
    the name marks the latter.

    Attributes:
        bits: Base-2 logarithm of the number of hashed features.
        separator: Between the words of a list; None where each cell is one word.
        has_missing: Whether missing values have a feature.
        seen: The most frequent words of each feature, one more than its name shows.
    """

    kind: Literal["hashed"] = "hashed"
    bits: Annotated[int, Field(ge=1, le=MAX_HASH_BITS)]
    separator: Separator | None
    has_missing: bool
    seen: dict[int, tuple[str, ...]]

    @model_validator(mode="after")
    def _check(self) -> Self:
        for feature, words in self.seen.items():
            if not words:
                raise ValueError(f"feature {feature} is listed without a word")
            for word in words:
                if hash_word(word, self.bits)[0] != feature:
                    raise ValueError(f"{word!r} does not fall into feature {feature}")
        return self

    @classmethod
    def fit(cls, column: str, distinct: Distinct, bits: int, is_list: bool) -> HashEncoder:
        """Record the most frequent words of each feature."""
        separator = find_separator([cell for cell, _ in distinct.present]) if is_list else None
        seen: defaultdict[int, list[str]] = defaultdict(list)
        for word in _count_words(distinct, lambda cell: _hashed_words(cell, separator)):
            words = seen[hash_word(word, bits)[0]]
            if len(words) <= WORDS_IN_NAME:
                words.append(word)
        return cls(
            column=column,
            bits=bits,
            separator=separator,
            has_missing=bool(distinct.missing.any()),
            seen={feature: tuple(seen[feature]) for feature in sorted(seen)},
        )

    @property
    def num_hashed(self) -> int:
        """The number of features that words fall into."""
        return 1 << self.bits

    @property
    def num_features(self) -> int:
        """The number of features."""
        return self.num_hashed + self.has_missing

    @property
    def feature_names(self) -> list[str]:
        """The number of each feature with its words, then ``(missing)``."""
        names = [f"{self.column}#{feature}" for feature in range(self.num_hashed)]
        for feature, words in self.seen.items():
            shown = words[:WORDS_IN_NAME]
            signed = [("−" if self._hash(word)[1] < 0 else "") + word for word in shown]
            names[feature] += "=" + ",".join(signed + ["…"] * (len(words) > WORDS_IN_NAME))
        return [*names, *([f"{self.column}=(missing)"] if self.has_missing else [])]

    def encode_cell(self, cell: str | None) -> Mapping[int, int]:
        """Return the sum of the signs of the words at each feature."""
        if cell is None:
            return {self.num_hashed: 1} if self.has_missing else {}
        sums: Counter[int] = Counter()
        for feature, sign in map(self._hash, _hashed_words(cell, self.separator)):
            sums[feature] += sign
        return sums

    def _hash(self, word: str) -> tuple[int, int]:
        """Return the feature of a word, and whether it counts 1 or -1 there."""
        feature, sign = hash_word(word, self.bits)
        return feature, sign * self._first_signs.get(feature, 1)

    @cached_property
    def _first_signs(self) -> dict[int, int]:
        return {feature: hash_word(words[0], self.bits)[1] for feature, words in self.seen.items()}


def _hashed_words(cell: str, separator: Separator | None) -> list[str]:
    if separator is not None:
        return split_words(cell, separator)
    whole = WHOLE.fullmatch(cell)
    return [whole[1] if whole else cell]
