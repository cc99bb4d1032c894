r"""The strongest pairs of features, exactly, without listing all of them.

A class weighs the pair :math:`x_ix_j` by :math:`\sum_r a_r(p_{ri}q_{rj} + p_{rj}q_{ri})`, which
is at most :math:`\|\mathbf{u}_i\|\|\mathbf{u}_j\|` with :math:`\mathbf{u}` the two factors below
each other, and the pair occurs at most :math:`\sqrt{n_in_j}`, :math:`n_i` being the mean of
:math:`x_i^2`. Both by Cauchy and Schwarz. Two ways use these bounds. Where features are
sparse, only pairs that occur together are looked at, feature by feature, and weighed where
their bound reaches the best so far. Where most pairs occur, blocks of features are
multiplied, the longest vectors first, and those out of reach are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.explanation.layer_reading import Floats, LayerReading
from crossgcn.explanation.occurrence import SLACK, Best, CrossRule, PairOccurrence, root_mean_square
from crossgcn.explanation.terms import block_products, partitions

Ints = NDArray[np.int64]

_CHUNK = 16_384


@dataclass(frozen=True)
class PairFactors:
    """Weights of all pairs, factored.

    Attributes:
        left: One factor of each feature, ``[features, rank]``.
        right: The other.
        scale: What each rank counts for each class, ``[classes, rank]``.
    """

    left: Floats
    right: Floats
    scale: Floats

    def of_class(self, label: int) -> PairFactors:
        """The ranks that count for one class, its scale within the factors.

        Left and right are made equally long rank by rank, which changes no product and
        makes the bounds as tight as they get.
        """
        used = np.flatnonzero(self.scale[label])
        left, right, scale = self.left[:, used], self.right[:, used], self.scale[label, used]
        lengths = np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            balance = np.sqrt(lengths[1] / lengths[0])
        balance = np.where(np.isfinite(balance) & (balance > 0), balance, 1.0)
        root = np.sqrt(np.abs(scale))
        return PairFactors(
            left * (balance * root), right / balance * root, np.sign(scale)[np.newaxis]
        )

    def weigh(self, pairs: Ints) -> Floats:
        """The weights of some pairs ``[n, 2]`` for each class, ``[n, classes]``."""
        parts = [np.zeros((0, len(self.scale)))]
        for start in range(0, len(pairs), _CHUNK):
            i, j = pairs[start : start + _CHUNK].T
            products = self.left[i] * self.right[j]
            products += self.left[j] * self.right[i]
            parts.append(products @ self.scale.T)
        return np.concatenate(parts)

    def lengths(self) -> Floats:
        """The bound of each feature: a pair's weight is at most the product of its two."""
        squares: Floats = (self.left**2).sum(axis=1) + (self.right**2).sum(axis=1)
        return np.sqrt(squares)


def pair_factors(layer: LayerReading, readout: Floats, binary: NDArray[np.bool_]) -> PairFactors:
    """The factors of a layer's pairs, products of higher order that fold into pairs included.

    Args:
        layer: The layer.
        readout: What each unit counts for each class, ``[classes, channels]``.
        binary: Which features are 0 or 1, so that their powers are themselves.
    """
    blocks = block_products(layer, np.arange(layer.first_order.shape[1]), binary)
    left, right, scale = [], [], []
    for order in range(2, layer.order + 1):
        alpha = layer.order_weights[order - 1]
        for first, second in partitions(order):
            if alpha.any() and first in blocks and second in blocks:
                left.append(blocks[first])
                right.append(blocks[second])
                scale.append(readout * alpha)
    if not left:
        empty = np.zeros((layer.first_order.shape[1], 0))
        return PairFactors(empty, empty, np.zeros((len(readout), 0)))
    return PairFactors(*(np.concatenate(parts, axis=1) for parts in (left, right, scale)))


_BLOCK = 1024
_CHUNK_PAIRS = 16_384
_CORNER = 256


def search_blocks(
    factors: PairFactors,
    size: Floats | None,
    occurrence: PairOccurrence | None,
    rule: CrossRule | None,
    best: Best,
) -> None:
    """Multiply blocks of features, those of the largest bounds first, and skip what they rule out.

    The products are made in 32 bits; what comes near the best found, rounding allowed for,
    is weighed again in 64.

    Args:
        factors: Weights of all pairs for one class.
        size: Root mean square of each feature; ``None`` ranks by weight alone.
        occurrence: Counts chosen pairs; ``None`` likewise.
        rule: Which pairs may be named; all when left out.
        best: What is found.
    """
    reach = factors.lengths() * (1.0 if size is None else size)
    order = np.argsort(-reach, kind="stable")
    order = order[reach[order] > 0]
    reach = reach[order]
    scale = 1.0 if size is None else size[order][:, np.newaxis]
    left, right = factors.left[order] * scale, factors.right[order] * scale
    signed = np.concatenate([left * factors.scale, right * factors.scale], axis=1)
    rows = torch.from_numpy(signed).float()
    columns = torch.from_numpy(np.concatenate([right, left], axis=1)).float()
    rounding = (rows.shape[1] + 8) * 2.0**-23
    judge = _Judge(factors, occurrence, rule, best)
    for start in range(0, len(order), _BLOCK):
        for other in range(start, len(order), _BLOCK):
            bound = reach[start] * reach[other]
            if bound < best.threshold * SLACK:
                break
            sizes = (rows[start : start + _BLOCK] @ columns[other : other + _BLOCK].T).abs_()
            if other == start:
                sizes = sizes.triu_(1)
            here, there = order[start : start + _BLOCK], order[other : other + _BLOCK]
            judge.look_through(sizes, bound * rounding, here, there)


@dataclass(frozen=True)
class _Judge:
    """Weighs pairs exactly."""

    factors: PairFactors
    occurrence: PairOccurrence | None
    rule: CrossRule | None
    best: Best

    def look_through(self, sizes: Tensor, rounding: float, here: Ints, there: Ints) -> None:
        """Weigh the pairs of a block that may be good enough, the most promising first.

        Args:
            sizes: About what each pair can reach.
            rounding: How far off that may be.
            here: Features of the rows.
            there: Features of the columns.
        """
        if float(sizes.amax()) < self._needed(rounding):
            return
        flat = sizes.flatten()
        if not self.best.threshold:
            corner = sizes[:_CORNER, :_CORNER]
            leading = torch.topk(corner.flatten(), min(8 * self.best.num, corner.numel())).indices
            width = corner.shape[1]
            leading = leading // width * sizes.shape[1] + leading % width
            self._weigh(leading[flat[leading] > 0], sizes.shape[1], here, there)
            flat[leading] = -1.0
        near = torch.nonzero(flat > self._needed(rounding)).flatten()
        while near.numel():
            values = flat[near]
            chosen = torch.topk(values, min(_CHUNK_PAIRS, near.numel())).indices
            self._weigh(near[chosen], sizes.shape[1], here, there)
            values[chosen] = -1.0
            near = near[values > self._needed(rounding)]

    def _needed(self, rounding: float) -> float:
        return max(0.0, self.best.threshold * SLACK - rounding)

    def _weigh(self, places: Tensor, width: int, here: Ints, there: Ints) -> None:
        rows, columns = np.divmod(places.numpy(), width)
        pairs = np.sort(np.stack([here[rows], there[columns]], axis=1), axis=1)
        if self.rule is not None:
            pairs = pairs[self.rule.allows(pairs[:, 0], pairs[:, 1])]
        often = np.ones(len(pairs))
        if self.occurrence is not None:
            often = self.occurrence.of(pairs[:, 0], pairs[:, 1])
        self.best.offer(pairs, self.factors.weigh(pairs)[:, 0], often)


_CHUNK_MEETINGS = 4_000_000


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


MEETINGS = 500_000_000
"""Most pairs of entries of one node, over all nodes, for which meetings are counted."""


def top_pairs(
    factors: PairFactors,
    inputs: sp.csr_array | None,
    top: int,
    rule: CrossRule | None = None,
) -> list[Best]:
    """The pairs of different features with the largest weight × occurrence, for each class.

    Args:
        factors: Weights of all pairs.
        inputs: The features, ``[nodes, features]``; ``None`` ranks by weight alone.
        top: How many pairs per class.
        rule: Which pairs may be named; all of them when left out.
    """
    # One class at a time: the factors of all would be as many copies of the weights.
    classes = map(factors.of_class, range(len(factors.scale)))
    best = [Best(top, 2) for _ in factors.scale]
    if inputs is not None and count_meetings(inputs).sum() <= MEETINGS:
        lengths = np.stack([each.lengths() for each in classes])
        search_meetings(factors, lengths, inputs, rule, best)
    else:
        occurrence = None if inputs is None else PairOccurrence(inputs)
        size = None if inputs is None else root_mean_square(inputs)
        for each, found in zip(classes, best, strict=True):
            search_blocks(each, size, occurrence, rule, found)
    return best
