"""Lists of words as features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, Self

import numpy as np
from pydantic import model_validator
from scipy import sparse

from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.encoded_column import EncodedColumn
from crossgcn.data.tables.unseen import Unseen, gather_unseen
from crossgcn.data.tables.word_lists import Separator, find_separator, split_words

__all__ = ["EncodedList"]

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
