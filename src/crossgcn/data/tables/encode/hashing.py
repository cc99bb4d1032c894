"""Categories and lists of words as hashed features, for vocabularies that never end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from crossgcn.data.tables.cells import Separator, find_separator, split_words
from crossgcn.data.tables.encode.categories import WHOLE, EncodedColumn
from crossgcn.data.tables.table import Distinct

MOST_BITS = 22
"""Four million features, each with a name and weights."""

NAMED = 3
"""So many of a feature's words are in its name, the most frequent ones."""


def hash_word(word: str, bits: int) -> tuple[int, int]:
    """The feature of a word, and a sign.

    MurmurHash3 of the word in UTF-8, the same on every machine: its low bits are the
    feature and its highest one the sign. With signs, words that share a feature cancel
    as often as they add up.

    Args:
        word: Any text.
        bits: There are two to the power of so many features.
    """
    from sklearn.utils import murmurhash3_32

    drawn = int(murmurhash3_32(word.encode("utf-8", "surrogatepass"), seed=0, positive=True))
    return drawn & ((1 << bits) - 1), -1 if drawn >> 31 else 1


class EncodedHash(EncodedColumn):
    """Features that words fall into by their hash: ``city#12=Porto``.

    Every word has a feature, those of new nodes too, and no vocabulary is kept. Words may
    share one; the most frequent then counts 1 and others, by their signs, 1 or -1. A minus
    in the name marks the latter.

    Attributes:
        bits: There are two to the power of so many features.
        separator: What stands between the words of a cell; none where a cell is one word.
        has_missing: Whether a cell without a value has a feature, because there were such.
        seen: The most frequent words that fell into a feature, one more than are named.
    """

    kind: Literal["hashed"] = "hashed"
    bits: Annotated[int, Field(ge=1, le=MOST_BITS)]
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
    def fit(cls, column: str, distinct: Distinct, *, bits: int, is_list: bool) -> EncodedHash:
        """See which words fall where.

        Args:
            column: The header.
            distinct: The column's values.
            bits: Decides the number of features.
            is_list: Whether a cell holds several words.
        """
        separator = find_separator([cell for cell, _ in distinct.present]) if is_list else None
        counts: Counter[str] = Counter()
        for cell, count in distinct.present:
            for word in _words(cell, separator):
                counts[word] += count
        fallen: defaultdict[int, list[str]] = defaultdict(list)
        for word in sorted(counts, key=lambda word: (-counts[word], word)):
            words = fallen[hash_word(word, bits)[0]]
            if len(words) <= NAMED:
                words.append(word)
        return cls(
            column=column,
            bits=bits,
            separator=separator,
            has_missing=bool(distinct.missing.any()),
            seen={feature: tuple(fallen[feature]) for feature in sorted(fallen)},
        )

    @property
    def num_hashed(self) -> int:
        """Features that words may fall into."""
        return 1 << self.bits

    @property
    def feature_names(self) -> list[str]:
        """The number of each, with the words seen in it; then missing ones."""
        names = [f"{self.column}#{feature}" for feature in range(self.num_hashed)]
        for feature, words in self.seen.items():
            signed = [("−" if self._place(word)[1] < 0 else "") + word for word in words[:NAMED]]
            names[feature] += "=" + ",".join(signed + ["…"] * (len(words) > NAMED))
        return [*names, *([f"{self.column}=(missing)"] if self.has_missing else [])]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """The signs of each value's words at their features, added up."""
        features: list[int] = []
        signs: list[int] = []
        starts = [0]
        for words in self._split(distinct):
            for word in words:
                feature, sign = self._place(word)
                features.append(feature)
                signs.append(sign)
            starts.append(len(features))
        hashed = sparse.csr_array(
            (np.array(signs, np.float32), np.array(features, np.int64), np.array(starts, np.int64)),
            shape=(len(distinct.values), self.num_hashed),
        )
        hashed.sum_duplicates()
        if not self.has_missing:
            return hashed
        missing = sparse.csr_array(distinct.missing[:, np.newaxis].astype(np.float32))
        return sparse.csr_array(sparse.hstack([hashed, missing], format="csr"))

    def _place(self, word: str) -> tuple[int, int]:
        """The feature of a word, and whether it counts 1 or -1 there."""
        feature, sign = hash_word(word, self.bits)
        return feature, sign * self._signs.get(feature, 1)

    @cached_property
    def _signs(self) -> dict[int, int]:
        """The sign of each feature's most frequent word."""
        return {feature: hash_word(words[0], self.bits)[1] for feature, words in self.seen.items()}

    def _split(self, distinct: Distinct) -> Iterator[list[str]]:
        """The words of each value, none where it is missing."""
        for value, is_missing in zip(distinct.values, distinct.missing, strict=True):
            yield [] if is_missing else _words(value, self.separator)


def _words(cell: str, separator: Separator | None) -> list[str]:
    if separator is not None:
        return split_words(cell, separator)
    # A column of codes with gaps is written with .0 by some programs.
    whole = WHOLE.fullmatch(cell.strip())
    return [whole[1] if whole else cell.strip()]
