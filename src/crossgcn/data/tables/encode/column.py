"""The base of column encoders, and the simplest of them, for flags."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from crossgcn.data.tables.cells import FALSE_WORDS, TRUE_WORDS
from crossgcn.data.tables.plan import SavedModel
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
