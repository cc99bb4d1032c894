"""Lists of words as features."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Self

import numpy as np
from pydantic import model_validator
from scipy import sparse

from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.encoded_column import EncodedColumn
from crossgcn.data.tables.word_lists import Separator, find_separator, split_words

__all__ = ["EncodedList"]

MOST_WORDS = 5_000
"""Words beyond the most frequent so many share a feature."""


class EncodedList(EncodedColumn):
    """One feature per word: ``tags:sale``.

    Attributes:
        separator: What stands between the words of a cell.
        words: Those with a feature of their own, the most frequent first; others share one.
    """

    kind: Literal["list"] = "list"
    separator: Separator
    words: tuple[str, ...]

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
        return cls(column=column, separator=separator, words=tuple(common[:MOST_WORDS]))

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
        for value in distinct.values:
            found = {positions.get(word, other) for word in split_words(value, self.separator)}
            features.extend(sorted(found))
            starts.append(len(features))
        ones = np.ones(len(features), np.float32)
        return sparse.csr_array(
            (ones, np.array(features, np.int64), np.array(starts, np.int64)),
            shape=(len(distinct.values), other + 1),
        )
