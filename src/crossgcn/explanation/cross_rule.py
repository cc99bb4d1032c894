"""Which features may be called a cross."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.data.feature_space import FeatureSpace

__all__ = ["CrossRule", "binary_columns"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CrossRule:
    """Which features name a cross with each other.

    Features of different fields always do. A number and a range of that same number never
    do: their product tells of one column only. Nor do two categories or ranges of one
    column, which no node has both of; where features are summed over neighbours they meet,
    but say no more than how a neighbourhood is mixed. Two words of one list do, as some
    node has two of its words.

    The rule goes by the features as the nodes have them, whatever a layer makes of them
    before it crosses them.

    Attributes:
        field: A number for the field of each feature.
        group: A number for its group; the numbers of a field are one, all else another.
        shared: Whether some node has two features of that group, for each feature.
    """

    field: Ints
    group: Ints
    shared: NDArray[np.bool_]

    @classmethod
    def of(cls, space: FeatureSpace, features: sp.csr_array) -> CrossRule:
        """The rule for named features.

        A feature that has its field's name is that field's number. Where no feature of a
        field has, its numbers are what is not always 0 or 1.

        Args:
            space: Names and fields.
            features: What the nodes have, ``[nodes, features]``.
        """
        field = _number_off(space.fields)
        named = np.array(space.names, dtype=object) == np.array(space.fields, dtype=object)
        has_number = np.bincount(field, named, minlength=1)[field] > 0
        number = np.where(has_number, named, ~binary_columns(features))
        group = 2 * field + number
        crowded = np.bincount(group)[group] > 1
        row = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
        kept = crowded[features.indices] & (features.data != 0)
        num_groups = 2 * len(space) + 2
        held, times = np.unique(
            row[kept] * num_groups + group[features.indices[kept]], return_counts=True
        )
        return cls(field, group, np.isin(group, held[times > 1] % num_groups))

    def allows(self, first: Any, second: Any) -> NDArray[np.bool_]:
        """Whether features, or arrays of them, may be crossed; a feature with itself may."""
        same_field = self.field[first] == self.field[second]
        same_group = self.group[first] == self.group[second]
        allowed: NDArray[np.bool_] = (
            ~same_field | (same_group & self.shared[first]) | np.equal(first, second)
        )
        return allowed


def binary_columns(features: sp.csr_array) -> NDArray[np.bool_]:
    """Which columns hold nothing but 0 and 1."""
    other = (features.data != 1.0) & (features.data != 0.0)
    found: NDArray[np.bool_] = (
        np.bincount(features.indices[other], minlength=features.shape[1]) == 0
    )
    return found


def _number_off(fields: tuple[str, ...]) -> Ints:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in fields], np.int64)
