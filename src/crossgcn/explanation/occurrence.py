"""How often features occur together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.layer_reading import Floats

Ints = NDArray[np.int64]

_DENSE_SHARE = 0.2
_CHUNK_ENTRIES = 20_000_000


class PairOccurrence:
    """Mean size of the product of two features, for chosen pairs.

    Args:
        inputs: The features, ``[nodes, features]``.
    """

    def __init__(self, inputs: sp.csr_array) -> None:
        self.num_nodes, num_features = inputs.shape
        sizes = abs(inputs)
        share = inputs.nnz / max(1, self.num_nodes * num_features)
        self._dense: Floats | None = sizes.toarray().T.copy() if share > _DENSE_SHARE else None
        self._sparse: Any = None if self._dense is not None else sp.csr_array(sizes.T)

    def of(self, first: Ints, second: Ints) -> Floats:
        """The mean of the sizes of the products over all nodes, one per pair."""
        step = max(1, _CHUNK_ENTRIES // max(1, self.num_nodes))
        parts = [
            self._sums(first[start : start + step], second[start : start + step])
            for start in range(0, len(first), step)
        ]
        return np.concatenate(parts) / self.num_nodes if parts else np.zeros(0)

    def _sums(self, first: Ints, second: Ints) -> Floats:
        if self._dense is not None:
            sums: Floats = np.einsum("pn,pn->p", self._dense[first], self._dense[second])
            return sums
        return np.asarray(self._sparse[first].multiply(self._sparse[second]).sum(axis=1)).ravel()


def cross_products(inputs: sp.csr_array, terms: Sequence[Sequence[int]]) -> sp.csc_array:
    """Products of features at every node.

    Args:
        inputs: The features, ``[nodes, features]``.
        terms: The features of each product.

    Returns:
        ``[nodes, terms]``; where a product is 0 nothing is stored.
    """
    columns = sp.csc_array(inputs)
    parts, places = [], []
    for length in sorted({len(term) for term in terms}):
        chosen = [place for place, term in enumerate(terms) if len(term) == length]
        members = np.array([terms[place] for place in chosen], np.int64)
        product: Any = columns[:, members[:, 0]]
        for position in range(1, length):
            product = product.multiply(columns[:, members[:, position]])
        parts.append(sp.csc_array(product))
        places += chosen
    if not parts:
        return sp.csc_array((inputs.shape[0], 0))
    products = sp.csc_array(sp.hstack(parts, format="csc"))[:, np.argsort(places)]
    products.eliminate_zeros()
    return sp.csc_array(products)


def root_mean_square(inputs: sp.csr_array) -> Floats:
    """The size of each feature: two features' mean product is at most that of their sizes."""
    squares = np.bincount(inputs.indices, inputs.data**2, minlength=inputs.shape[1])
    return np.sqrt(squares / inputs.shape[0])


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


SLACK = 1.0 - 1e-9
"""A bound that comes this near to the threshold is not ruled out: it was rounded, too."""


class Best:
    """The crosses of largest strength, whatever its sign; among equals the first by features.

    Args:
        num: How many are wanted, at least 1.
        length: Features of each.

    Attributes:
        features: ``[found, length]``.
        weight: Of each.
        occurrence: Of each.
        threshold: The size that a newcomer must reach; 0 until enough are found.
    """

    def __init__(self, num: int, length: int) -> None:
        self.num = num
        self.features = np.zeros((0, length), np.int64)
        self.weight, self.occurrence = np.zeros(0), np.zeros(0)
        self.threshold = 0.0

    def offer(self, features: NDArray[np.int64], weight: Floats, occurrence: Floats) -> None:
        """Take what is better than what is there; what has no strength is not taken."""
        size = np.abs(weight) * occurrence
        good = (size >= self.threshold) & (size > 0)
        if not good.any():
            return
        features = np.concatenate([self.features, features[good]])
        weight = np.concatenate([self.weight, weight[good]])
        occurrence = np.concatenate([self.occurrence, occurrence[good]])
        size = np.abs(weight) * occurrence
        order = np.lexsort((*features.T[::-1], -size))[: self.num]
        self.features, self.weight = features[order], weight[order]
        self.occurrence = occurrence[order]
        if order.size == self.num:
            self.threshold = float(size[order[-1]])
