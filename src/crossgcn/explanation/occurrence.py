"""Measure how often features occur together, and keep the strongest crosses found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.reading import Bools, Floats, Ints, binary_columns

_DENSE_SHARE = 0.2
_CHUNK_ENTRIES = 20_000_000


class PairOccurrence:
    """The mean absolute product of two features over all nodes, for chosen pairs."""

    def __init__(self, inputs: sp.csr_array) -> None:
        self.num_nodes, num_features = inputs.shape
        self._columns: Any = sp.csr_array(abs(inputs).T)
        if inputs.nnz > _DENSE_SHARE * self.num_nodes * num_features:
            self._columns = self._columns.toarray()

    def of(self, first: Ints, second: Ints) -> Floats:
        """Return one mean per pair."""
        step = max(1, _CHUNK_ENTRIES // max(1, self.num_nodes))
        parts = [
            self._sums(first[start : start + step], second[start : start + step])
            for start in range(0, len(first), step)
        ]
        return np.concatenate(parts) / self.num_nodes if parts else np.zeros(0)

    def _sums(self, first: Ints, second: Ints) -> Floats:
        if isinstance(self._columns, np.ndarray):
            sums: Floats = np.einsum("pn,pn->p", self._columns[first], self._columns[second])
            return sums
        return np.asarray(self._columns[first].multiply(self._columns[second]).sum(axis=1)).ravel()


def cross_products(inputs: sp.csr_array, terms: Sequence[Sequence[int]]) -> sp.csc_array:
    """Return the value of each product of features at each node, ``[nodes, terms]``.

    Products that are 0 are not stored.
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
    """Return the root mean square of each feature, which bounds mean products of two."""
    squares = np.bincount(inputs.indices, inputs.data**2, minlength=inputs.shape[1])
    return np.sqrt(squares / inputs.shape[0])


@dataclass(frozen=True)
class CrossRule:
    """Decides which features may form a named cross.

    - Features of different fields may.
    - A number and a range of the same number may not: their product describes one column only.
    - Two categories or ranges of one column may not: no node has both. Sums over neighbours
      may contain both, but their product only describes how mixed a neighbourhood is.
    - Two words of one list may, because some node has two of its words.

    The rule depends on the nodes' own features, also for layers that aggregate first.

    Attributes:
        field: A number for the field of each feature.
        group: A number for its group: a field has one group of numbers and one of all others.
        shared: Whether some node has two features of that group.
    """

    field: Ints
    group: Ints
    shared: Bools

    @classmethod
    def of(cls, space: FeatureSpace, features: sp.csr_array) -> CrossRule:
        """Create the rule for named features, ``[nodes, features]``.

        A feature with the name of its field is the number of that field. If a field has no
        such feature, its numbers are the features with values other than 0 and 1.
        """
        numbers: dict[str, int] = {}
        field = np.array([numbers.setdefault(name, len(numbers)) for name in space.fields])
        field = field.astype(np.int64)
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

    def allows(self, first: Any, second: Any) -> Bools:
        """Return whether features may be crossed; a feature may be crossed with itself."""
        same_field = self.field[first] == self.field[second]
        same_group = self.group[first] == self.group[second]
        allowed: Bools = ~same_field | (same_group & self.shared[first]) | np.equal(first, second)
        return allowed


SLACK = 1.0 - 1e-9
"""Bounds are compared with ``threshold * SLACK``, because bounds are rounded, too."""


class Best:
    """The crosses of largest strength, |weight| × occurrence; ties go to the first by features.

    ``features [found, length]`` are the crosses, at most ``num``, with their ``weight`` and
    ``occurrence``; ``threshold`` is the strength that a new cross must reach.
    """

    def __init__(self, num: int, length: int) -> None:
        self.num = num
        self.features = np.zeros((0, length), np.int64)
        self.weight, self.occurrence = np.zeros(0), np.zeros(0)
        self.threshold = 0.0

    def offer(self, features: Ints, weight: Floats, occurrence: Floats) -> None:
        """Keep the crosses that are stronger than those kept so far; never those of strength 0."""
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
