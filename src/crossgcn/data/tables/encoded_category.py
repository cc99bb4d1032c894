"""Categories and flags as features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator
from scipy import sparse

from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.encoded_column import EncodedColumn, one_hot, refuse_values
from crossgcn.data.tables.table import Table
from crossgcn.data.tables.unseen import Unseen, gather_unseen

__all__ = ["EncodedCategory", "EncodedFlag"]

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
        is_known = _is_set(distinct) | (distinct.numbers == 0) | distinct.says(NOT_SET)
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
    return distinct.says(SET) | is_one
