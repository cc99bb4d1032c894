"""What every kind of column has in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy import sparse

from crossgcn.data.tables.table import Distinct, Table

MIN_SHARE_OF_KIND = 0.9
"""Share of numbers, or of dates, that decides the kind of a column."""

Inference = tuple[str, str] | None
"""A kind, or ``ignored``, and a short reason; None if other kinds are to be tried."""

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


class ColumnEncoder(BaseModel):
    """Encodes one column as features; fitted to one table and then applied to others.

    Its fields are what ``preprocess.json`` keeps of the column.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
