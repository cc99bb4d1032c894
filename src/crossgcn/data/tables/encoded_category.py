"""Categories and flags as features."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import model_validator
from scipy import sparse

from crossgcn.data.tables.columns import FLAG_WORDS
from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.encoded_column import EncodedColumn, one_hot

__all__ = ["EncodedCategory", "EncodedFlag"]

WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")


class EncodedCategory(EncodedColumn):
    """One feature per category: ``gender=female``.

    Attributes:
        categories: Those with a feature of their own, the most frequent first.
        has_missing: Whether a cell without a value has a feature, because there were such.
            Otherwise it counts as another category, like a rare or a new one.
    """

    kind: Literal["categorical"] = "categorical"
    categories: tuple[str, ...]
    has_missing: bool

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
            column=column, categories=tuple(common), has_missing=bool(distinct.missing.any())
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
        features = np.array([self._find(value.strip(), other) for value in distinct.values])
        features = np.where(distinct.missing, missing, features)
        return one_hot(features, other + 1 + self.has_missing)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {category: at for at, category in enumerate(self.categories)}

    def _find(self, value: str, other: int) -> int:
        found = self._positions.get(value)
        if found is None:
            # A column of codes with gaps is written with .0 by some programs.
            whole = WHOLE.fullmatch(value)
            found = self._positions.get(whole[1] if whole else f"{value}.0")
        return other if found is None else found


class EncodedFlag(EncodedColumn):
    """One feature, which is 1 where the flag is set.

    Attributes:
        has_missing: Whether a cell without a value has a feature, because there were such.
            Otherwise it counts as not set, and so does a word that is no flag.
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
        states = (FLAG_WORDS.get(value.strip().lower()) for value in distinct.values)
        features = np.array([missing if state is None else state - 1 for state in states])
        return one_hot(features, 1 + self.has_missing)
