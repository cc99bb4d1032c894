r"""Find the strongest products of three or more features exactly, among those that occur.

The search grows products feature by feature (depth-first branch and bound). The nodes that have
all features so far show which features can follow, and how often, so products that never occur
cost nothing. A branch is cut when its bound does not reach the best found: the weight of a product
is at most :math:`\sum_e|a_e|\prod_i\sum_m|w^m_{ei}|`, and a longer product occurs at most as
often as its prefix, times the largest values of the features to come.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from crossgcn.explanation.expansion import term_weights
from crossgcn.explanation.occurrence import SLACK, Best, CrossRule
from crossgcn.explanation.reading import Floats, Ints, LayerReading, binary_columns

LIMIT = 2_000_000
"""How many tuples the search visits for one class before it gives up."""

_MANY = 30
"""Above one node in 30, multiplying with all nodes is faster than selecting rows."""

_WEIGHED_AT_ONCE = 4096
"""Products whose weights are computed together, except for the first ones, which bound others."""


class _LimitReached(Exception):
    """The search visited too many tuples."""


class TupleSearch:
    """The products of ``length`` features with the largest |weight| × occurrence, for one class.

    At least two of the features differ; a feature that is not binary may be repeated.

    Args:
        readout: Weight of each unit for the class, ``[channels]``.
        inputs: The features, ``[nodes, features]``.
        rule: Which features may be crossed.
        length: Number of features of a product, at least 2.
        top: How many products.
        limit: How many tuples to visit before giving up.

    Attributes:
        best: The strongest products found.
        looked_at: How many tuples were visited.
        complete: Whether all others were visited or ruled out; if not, a stronger one may exist.
    """

    def __init__(
        self,
        layer: LayerReading,
        readout: Floats,
        inputs: sp.csr_array,
        rule: CrossRule,
        *,
        length: int,
        top: int,
        limit: int = LIMIT,
    ) -> None:
        used = np.flatnonzero(readout)
        self.layer, self.readout, self.rule = layer.of_units(used), readout[used], rule
        self.length, self.limit, self.looked_at = length, limit, 0
        self.best, self.complete = Best(top, length), True
        self.num_nodes = inputs.shape[0]
        self._waiting: list[tuple[Ints, Floats]] = []
        self._num_waiting = self._num_weighed = 0
        self._bound(inputs)
        if not self.scale.any():
            return
        everything = np.arange(len(self.order))
        try:
            self._visit((), np.ones_like(self.scale), everything, self.means, None)
        except _LimitReached:
            self.complete = False
        self._weigh()

    def _bound(self, inputs: sp.csr_array) -> None:
        """Compute the bounds, and sort the features by them."""
        layer, length = self.layer, self.length
        sizes = np.abs(layer.projections[: layer.order])
        single = sizes.sum(axis=0)
        folded = (1.0 + sizes).prod(axis=0) - 1.0 if layer.order > length else single
        scale = np.abs(self.readout) * np.abs(layer.order_weights[length - 1 :]).sum(axis=0)
        self.folds = binary_columns(inputs)
        bounds = np.where(self.folds, folded, single)
        means = np.bincount(inputs.indices, np.abs(inputs.data), minlength=inputs.shape[1])
        self.order = np.argsort(-(scale @ bounds) * means, kind="stable")
        self.means = means[self.order] / self.num_nodes
        self.bounds, self.scale = bounds[:, self.order].T.copy(), scale
        self.binary = self.folds[self.order]
        self.sizes = sp.csr_array(abs(inputs)[:, self.order])
        self.sizes.sort_indices()
        self.by_feature = sp.csr_array(self.sizes.T)
        largest = np.zeros(inputs.shape[1])
        np.maximum.at(largest, self.sizes.indices, self.sizes.data)
        ahead = self.bounds * largest[:, np.newaxis]
        self.ahead = np.maximum.accumulate(ahead[::-1], axis=0)[::-1]

    def _visit(
        self,
        prefix: tuple[int, ...],
        weight: Floats,
        features: Ints,
        occurrence: Floats,
        sizes: Floats | None,
    ) -> None:
        """Extend a product by each of some features, the most promising first.

        Args:
            prefix: The features so far, as ranks in ``order``, like the candidates.
            weight: Bound of their weight in each unit.
            occurrence: How often the product occurs with each candidate.
            sizes: The product at each node; ``None`` before the first feature.
        """
        left = self.length - len(prefix) - 1
        units = self.bounds[features] * (weight * self.scale)
        if left:
            units = units * self.ahead[features] ** left
        reach = units.sum(axis=1) * occurrence
        near = np.flatnonzero((reach > 0) & (reach >= self.best.threshold * SLACK))
        if not left:
            self._offer(prefix, features[near], occurrence[near])
            return
        for place in near[np.argsort(-reach[near], kind="stable")].tolist():
            if reach[place] < self.best.threshold * SLACK:
                return
            feature = int(features[place])
            grown = (*prefix, feature)
            nodes, own = self._nodes(feature, sizes)
            following, often = self._extensions(grown, nodes, own)
            everywhere = None
            if left > 1:
                everywhere = np.zeros(self.num_nodes)
                everywhere[nodes] = own
            self._visit(grown, weight * self.bounds[feature], following, often, everywhere)

    def _extensions(
        self, prefix: tuple[int, ...], nodes: Ints, sizes: Floats
    ) -> tuple[Ints, Floats]:
        """Return the features, from the last on, that occur with a prefix, and how often.

        Args:
            nodes: The nodes that have all features of the prefix.
            sizes: Their product there.
        """
        last = prefix[-1]
        again = not self.binary[last] and (self.length - len(prefix) > 1 or prefix[0] != last)
        found, often = self._met_by(nodes, sizes, last if again else last + 1)
        allowed = np.ones(found.size, np.bool_)
        for feature in prefix:
            allowed &= self.rule.allows(self.order[found], self.order[feature])
        self.looked_at += found.size
        if self.looked_at > self.limit:
            raise _LimitReached
        return found[allowed], often[allowed] / self.num_nodes

    def _met_by(self, nodes: Ints, sizes: Floats, first: int) -> tuple[Ints, Floats]:
        """Return the features from ``first`` on that nodes have, and the sums of their sizes."""
        if _MANY * nodes.size > self.num_nodes:
            everywhere = np.zeros(self.num_nodes)
            everywhere[nodes] = sizes
            sums: Floats = (self.by_feature @ everywhere)[first:]
            return np.flatnonzero(sums) + first, sums[sums != 0]
        starts = self.sizes.indptr[nodes]
        lengths = self.sizes.indptr[nodes + 1] - starts
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        places += np.arange(places.size)
        features, values = self.sizes.indices[places], self.sizes.data[places]
        values = values * np.repeat(sizes, lengths)
        later = features >= first
        features, values = features[later], values[later]
        if _MANY * features.size > self.order.size:
            all_sums = np.bincount(features, values, minlength=self.order.size)
            sums = all_sums[first:].astype(np.float64, copy=False)
            return np.flatnonzero(sums) + first, sums[sums != 0]
        found, inverse = np.unique(features, return_inverse=True)
        sums = np.bincount(inverse, values, minlength=found.size).astype(np.float64)
        return found.astype(np.int64), sums

    def _nodes(self, feature: int, sizes: Floats | None) -> tuple[Ints, Floats]:
        """Return the nodes that have a feature and a product, and the product of both there."""
        matrix = self.by_feature
        row = slice(matrix.indptr[feature], matrix.indptr[feature + 1])
        nodes, own = matrix.indices[row].astype(np.int64), matrix.data[row]
        if sizes is None:
            return nodes, own
        own = own * sizes[nodes]
        met = np.flatnonzero(own)
        return nodes[met], own[met]

    def _offer(self, prefix: tuple[int, ...], features: Ints, occurrence: Floats) -> None:
        """Remember products whose weights are to be computed, many of them at once."""
        if not features.size:
            return
        tuples = np.empty((features.size, self.length), np.int64)
        tuples[:, :-1] = self.order[list(prefix)]
        tuples[:, -1] = self.order[features]
        self._waiting.append((tuples, occurrence))
        self._num_waiting += features.size
        if self._num_waiting > min(self._num_weighed, _WEIGHED_AT_ONCE):
            self._weigh()

    def _weigh(self) -> None:
        if not self._waiting:
            return
        tuples, occurrence = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        self._waiting, self._num_waiting = [], 0
        self._num_weighed += len(tuples)
        tuples.sort(axis=1)
        weights = term_weights(self.layer, tuples, self.folds) @ self.readout
        self.best.offer(tuples, weights, occurrence)
