"""What all kinds of columns have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from scipy import sparse

from crossgcn.data.tables.table import Distinct, Mask

MIN_SHARE_OF_KIND = 0.9  # columns with this share of numbers or dates are of that kind

Inference = tuple[str, str] | None
"""A kind, or ``ignored``, and a short reason; None if other kinds are to be tried."""

Wrong = tuple[Mask, str, str]
"""Mask of the wrong values, a message about one ``{value}``, and the remedy."""


@dataclass(frozen=True)
class Unseen:
    """Values of a column that are not in the training table: number of cells, and an example."""

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

    Its fields are saved in ``preprocess.json``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """One name per feature; other columns may have the same names."""

    @abstractmethod
    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each distinct value, float32 ``[values, features]``."""

    @property
    def number_columns(self) -> tuple[str, ...]:
        """Names of the features that are numbers, which models clip to the range of training."""
        return ()

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the values that cannot be encoded; by default, every value can."""
        return []
