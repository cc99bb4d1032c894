"""What every encoded column has: features with names, and a way to fill them in."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy import sparse

from crossgcn.data.tables.columns import shorten
from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.table import Table
from crossgcn.data.tables.unseen import Unseen
from crossgcn.errors import BadInput

__all__ = ["EncodedColumn", "one_hot", "refuse_values"]


class EncodedColumn(BaseModel):
    """How one column becomes features, settled by the table it was fitted to.

    Attributes:
        column: Its header.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """One per feature, perhaps not all different from those of other columns."""

    @abstractmethod
    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """The features of each different value, float32 [values, features]."""

    def encode(self, nodes: Table) -> sparse.csr_array:
        """The features of each cell, float32 [rows, features].

        Args:
            nodes: A table that has the column.
        """
        distinct = nodes.distinct(self.column)
        return self.encode_values(distinct)[distinct.codes]

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """What the column fitted to did not have; there is none where any value has a meaning.

        Args:
            distinct: The values of the same column of another table.
        """
        return None


def refuse_values(
    nodes: Table, column: str, wrong: NDArray[np.bool_], what: str, remedy: str
) -> None:
    """Refuse a table for values that cannot be encoded.

    Args:
        nodes: The table.
        column: Its column.
        wrong: Which of the different values of the column are meant.
        what: What they are not.
        remedy: What to write instead.

    Raises:
        BadInput: Naming the first cell that holds one, if there is any.
    """
    distinct = nodes.distinct(column)
    cells = np.flatnonzero(wrong[distinct.codes])
    if len(cells):
        value = distinct.values[distinct.codes[cells[0]]]
        raise BadInput(
            f"{nodes.name}, row {nodes.row_number(cells[0])}, column {column}: {shorten(value)} is "
            f"no {what} ({len(cells)} such in all); {remedy}"
        )


def one_hot(features: NDArray[np.int64], num_features: int) -> sparse.csr_array:
    """A row per entry with a one at that feature, or none where it is negative."""
    is_set = features >= 0
    starts = np.concatenate([[0], np.cumsum(is_set)])
    chosen = features[is_set]
    ones = np.ones(len(chosen), np.float32)
    return sparse.csr_array((ones, chosen, starts), shape=(len(features), num_features))
