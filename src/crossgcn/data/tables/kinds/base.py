"""What all kinds of columns have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict
from scipy import sparse

from crossgcn.data.tables.table import Distinct, Mask

MIN_SHARE_OF_KIND = 0.9
"""Share of numbers, or of dates, that decides the kind of a column."""

Inference = tuple[str, str] | None
"""A kind, or ``ignored``, and a short reason; None if other kinds are to be tried."""

Wrong = tuple[Mask, str, str]
"""Which values are wrong, what is wrong with each ``{value}``, and what to do."""


@dataclass(frozen=True)
class Unseen:
    """Values that a column of the training table did not have: in how many cells, and the first."""

    column: str
    count: int
    example: str

    def __str__(self) -> str:
        return (
            f"column {self.column}: {self.count:,} values not seen in training, such as "
            f"{self.example!r}; they count as {self.column}=(other)"
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

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the values that cannot be encoded; by default, every value can."""
        return []

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the values of another table that count as ``(other)``, if any."""
        return None


def ones_at(rows: Any, features: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """Return a matrix of zeros, with a one at each row and feature."""
    return sparse.csr_array((np.ones(len(rows), np.float32), (rows, features)), shape=shape)
