"""The strongest pairs among features that meet: those that some node has both of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.explanation.best import SLACK, Best
from crossgcn.explanation.cross_rule import CrossRule
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.occurrence import root_mean_square
from crossgcn.explanation.pair_factors import PairFactors

__all__ = ["count_meetings", "search_meetings"]

Ints = NDArray[np.int64]

_CHUNK_MEETINGS = 4_000_000
_CHUNK_PAIRS = 16_384


def count_meetings(inputs: sp.csr_array) -> Ints:
    """With how many entries of its nodes each feature shares a node, itself included."""
    lengths = np.diff(inputs.indptr).astype(np.int64)
    met = np.bincount(inputs.indices, np.repeat(lengths, lengths), minlength=inputs.shape[1])
    return met.astype(np.int64)


def search_meetings(
    factors: PairFactors,
    lengths: Floats,
    inputs: sp.csr_array,
    rule: CrossRule | None,
    best: Sequence[Best],
) -> None:
    """Count the meetings of every feature with those after it, and weigh the promising pairs.

    Features come in the order of their reach, weight times occurrence at most, so that
    what is found early rules out most of the rest.

    Args:
        factors: Weights of all pairs for all classes.
        lengths: Each feature's bound for each class, ``[classes, features]``.
        inputs: The features, ``[nodes, features]``.
        rule: Which pairs may be named; all when left out.
        best: What is found, a list per class.
    """
    reach = lengths * root_mean_square(inputs)
    order = np.argsort(-reach.max(axis=0), kind="stable")
    furthest = np.maximum.accumulate(reach[:, order[::-1]], axis=1)[:, ::-1]
    sizes = sp.csr_array(abs(inputs)[:, order])
    by_feature = sp.csr_array(sizes.T)
    for start, stop in _blocks(sizes):
        bounds = furthest[:, start] ** 2
        needed = np.array([found.threshold * SLACK for found in best])
        labels = np.flatnonzero((bounds > 0) & (bounds >= needed))
        if not labels.size:
            continue
        together = sp.csr_array(by_feature[start:stop] @ sizes)
        first = np.repeat(np.arange(start, stop), np.diff(together.indptr))
        later = together.indices > first
        first, second = order[first[later]], order[together.indices[later]]
        if not first.size:
            continue
        occurrence = together.data[later] / sizes.shape[0]
        reachable = lengths[np.ix_(labels, first)] * lengths[np.ix_(labels, second)] * occurrence
        pairs = np.sort(np.stack([first, second], axis=1), axis=1)
        _Meetings(pairs, occurrence, reachable, labels.tolist()).weigh(factors, rule, best)


def _blocks(sizes: sp.csr_array) -> Iterator[tuple[int, int]]:
    """Ranges of features with about equally many meetings."""
    work = np.cumsum(count_meetings(sizes))
    start = 0
    while start < work.size:
        done = work[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(work, done + _CHUNK_MEETINGS, side="right")))
        yield start, stop
        start = stop


@dataclass(frozen=True)
class _Meetings:
    """Pairs that meet, how often, and how strong each can be for the classes still open."""

    pairs: Ints
    occurrence: Floats
    reachable: Floats
    labels: list[int]

    def weigh(self, factors: PairFactors, rule: CrossRule | None, best: Sequence[Best]) -> None:
        """Weigh what may be good enough, the most promising first."""
        promise = self.reachable.max(axis=0)
        split = min(_CHUNK_PAIRS, promise.size - 1)
        ranked = np.argpartition(-promise, split)
        self._weigh_some(ranked[: split + 1], factors, rule, best)
        rest = self._within_reach(np.sort(ranked[split + 1 :]), best)
        for start in range(0, rest.size, _CHUNK_PAIRS):
            self._weigh_some(rest[start : start + _CHUNK_PAIRS], factors, rule, best)

    def _weigh_some(
        self, places: Ints, factors: PairFactors, rule: CrossRule | None, best: Sequence[Best]
    ) -> None:
        places = self._within_reach(places, best)
        pairs = self.pairs[places]
        if rule is not None:
            places = places[rule.allows(pairs[:, 0], pairs[:, 1])]
            pairs = self.pairs[places]
        weights = factors.weigh(pairs)
        for label in self.labels:
            best[label].offer(pairs, weights[:, label], self.occurrence[places])

    def _within_reach(self, places: Ints, best: Sequence[Best]) -> Ints:
        needed = np.array([best[label].threshold * SLACK for label in self.labels])
        return places[(self.reachable[:, places] >= needed[:, np.newaxis]).any(axis=0)]
