r"""Find the strongest pairs of features exactly, without listing all pairs.

A class weighs the pair :math:`x_ix_j` by :math:`\sum_r a_r(p_{ri}q_{rj} + p_{rj}q_{ri})`. By the
Cauchy-Schwarz inequality this is at most :math:`\|\mathbf{u}_i\|\|\mathbf{u}_j\|`, where
:math:`\mathbf{u}` concatenates the two factors, and the pair occurs at most
:math:`\sqrt{n_in_j}`, where :math:`n_i` is the mean of :math:`x_i^2`. Two searches use these
bounds. For sparse features, the search visits only pairs that occur together and computes the
weights of those whose bound reaches the best found so far. Otherwise, it multiplies blocks of
features, those with the largest bounds first, and skips blocks that cannot reach the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.explanation.expansion import block_products
from crossgcn.explanation.occurrence import SLACK, Best, CrossRule, PairOccurrence, root_mean_square
from crossgcn.explanation.reading import Bools, Floats, Ints, LayerReading

MEETINGS = 500_000_000
"""The largest number of co-occurring entries, over all nodes, that the sparse search visits."""

_CHUNK_MEETINGS = 4_000_000
_CHUNK_PAIRS = 16_384
_BLOCK = 1024
_CORNER = 256


@dataclass(frozen=True)
class PairFactors:
    """The weights of all pairs as a factorisation.

    Attributes:
        left: First factor of each feature, ``[features, rank]``.
        right: Second factor.
        scale: Weight of each rank for each class, ``[classes, rank]``.
    """

    left: Floats
    right: Floats
    scale: Floats

    def of_class(self, label: int) -> PairFactors:
        """Return the factors for one class, without ranks of weight 0, scaled to signs ±1.

        The two factors of a rank get equal lengths, which makes the bounds as tight as possible.
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
        """Return the weights of pairs ``[n, 2]`` for each class, ``[n, classes]``."""
        parts = [np.zeros((0, len(self.scale)))]
        for start in range(0, len(pairs), _CHUNK_PAIRS):
            i, j = pairs[start : start + _CHUNK_PAIRS].T
            products = self.left[i] * self.right[j]
            products += self.left[j] * self.right[i]
            parts.append(products @ self.scale.T)
        return np.concatenate(parts)

    def lengths(self) -> Floats:
        """Return a bound per feature: a pair weighs at most the product of its two bounds."""
        squares: Floats = (self.left**2).sum(axis=1) + (self.right**2).sum(axis=1)
        return np.sqrt(squares)


def pair_factors(layer: LayerReading, readout: Floats, binary: Bools) -> PairFactors:
    """Factorise the weights of a layer's pairs, with the higher orders that fold into pairs.

    ``readout`` is the weight of each unit for each class, ``[classes, channels]``.
    """
    blocks = block_products(layer, np.arange(layer.first_order.shape[1]), binary)
    left, right, scale = [], [], []
    for order in range(2, layer.order + 1):
        alpha = layer.order_weights[order - 1]
        everything = (1 << order) - 1
        for first in range(1, everything, 2):  # each split of the projections in two, once
            second = everything ^ first
            if alpha.any() and first in blocks and second in blocks:
                left.append(blocks[first])
                right.append(blocks[second])
                scale.append(readout * alpha)
    if not left:
        empty = np.zeros((layer.first_order.shape[1], 0))
        return PairFactors(empty, empty, np.zeros((len(readout), 0)))
    return PairFactors(*(np.concatenate(parts, axis=1) for parts in (left, right, scale)))


def top_pairs(
    factors: PairFactors,
    inputs: sp.csr_array | None,
    top: int,
    rule: CrossRule | None = None,
) -> list[Best]:
    """Return the pairs of different features with the largest |weight| × occurrence, per class.

    Args:
        inputs: The features, ``[nodes, features]``; ``None`` ranks by weight alone.
        rule: Which pairs may be named; all pairs by default.
    """
    # One class at a time: the factors of all classes would be as many copies of the weights.
    classes = map(factors.of_class, range(len(factors.scale)))
    best = [Best(top, 2) for _ in factors.scale]
    if inputs is not None and count_meetings(inputs).sum() <= MEETINGS:
        lengths = np.stack([each.lengths() for each in classes])
        _search_meetings(factors, lengths, inputs, rule, best)
    else:
        occurrence = None if inputs is None else PairOccurrence(inputs)
        size = None if inputs is None else root_mean_square(inputs)
        for each, found in zip(classes, best, strict=True):
            _BlockSearch(each, occurrence, rule, found).run(size)
    return best


@dataclass(frozen=True)
class _BlockSearch:
    """Multiplies blocks of features for one class, and skips blocks that the bounds rule out.

    Products are computed in 32 bits. Pairs that come near the best found, allowing for
    rounding, are computed again in 64 bits.
    """

    factors: PairFactors
    occurrence: PairOccurrence | None
    rule: CrossRule | None
    best: Best

    def run(self, size: Floats | None) -> None:
        """Search all pairs; ``size`` is the root mean square of each feature."""
        factors, best = self.factors, self.best
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
        for start in range(0, len(order), _BLOCK):
            for other in range(start, len(order), _BLOCK):
                bound = reach[start] * reach[other]
                if bound < best.threshold * SLACK:
                    break
                sizes = (rows[start : start + _BLOCK] @ columns[other : other + _BLOCK].T).abs_()
                if other == start:
                    sizes = sizes.triu_(1)
                here, there = order[start : start + _BLOCK], order[other : other + _BLOCK]
                self._search_block(sizes, bound * rounding, here, there)

    def _search_block(self, sizes: Tensor, rounding: float, here: Ints, there: Ints) -> None:
        """Weigh the pairs of a block that may be strong enough, the most promising first."""

        def needed() -> float:
            return max(0.0, self.best.threshold * SLACK - rounding)

        if float(sizes.amax()) < needed():
            return
        flat = sizes.flatten()
        if not self.best.threshold:
            corner = sizes[:_CORNER, :_CORNER]
            leading = torch.topk(corner.flatten(), min(8 * self.best.num, corner.numel())).indices
            width = corner.shape[1]
            leading = leading // width * sizes.shape[1] + leading % width
            self._weigh(leading[flat[leading] > 0], here, there)
            flat[leading] = -1.0
        near = torch.nonzero(flat > needed()).flatten()
        while near.numel():
            values = flat[near]
            chosen = torch.topk(values, min(_CHUNK_PAIRS, near.numel())).indices
            self._weigh(near[chosen], here, there)
            values[chosen] = -1.0
            near = near[values > needed()]

    def _weigh(self, places: Tensor, here: Ints, there: Ints) -> None:
        rows, columns = np.divmod(places.numpy(), len(there))
        pairs = np.sort(np.stack([here[rows], there[columns]], axis=1), axis=1)
        if self.rule is not None:
            pairs = pairs[self.rule.allows(pairs[:, 0], pairs[:, 1])]
        often = np.ones(len(pairs))
        if self.occurrence is not None:
            often = self.occurrence.of(pairs[:, 0], pairs[:, 1])
        self.best.offer(pairs, self.factors.weigh(pairs)[:, 0], often)


def count_meetings(inputs: sp.csr_array) -> Ints:
    """Return with how many entries of its nodes each feature co-occurs, itself included."""
    lengths = np.diff(inputs.indptr).astype(np.int64)
    met = np.bincount(inputs.indices, np.repeat(lengths, lengths), minlength=inputs.shape[1])
    return met.astype(np.int64)


def _search_meetings(
    factors: PairFactors,
    lengths: Floats,
    inputs: sp.csr_array,
    rule: CrossRule | None,
    best: Sequence[Best],
) -> None:
    """Count how often each feature co-occurs with later ones, and weigh the promising pairs.

    Features are visited in the order of their bounds, weight times occurrence, so that early
    finds rule out most other pairs. ``lengths`` are bounds of the weights, ``[classes, features]``.
    """
    reach = lengths * root_mean_square(inputs)
    order = np.argsort(-reach.max(axis=0), kind="stable")
    furthest = np.maximum.accumulate(reach[:, order[::-1]], axis=1)[:, ::-1]
    sizes = sp.csr_array(abs(inputs)[:, order])
    by_feature = sp.csr_array(sizes.T)
    for start, stop in _feature_ranges(sizes):
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
        _weigh_meetings(factors, pairs, occurrence, reachable, labels, rule, best)


def _feature_ranges(sizes: sp.csr_array) -> Iterator[tuple[int, int]]:
    """Yield ranges of features with about equally many co-occurrences."""
    work = np.cumsum(count_meetings(sizes))
    start = 0
    while start < work.size:
        done = work[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(work, done + _CHUNK_MEETINGS, side="right")))
        yield start, stop
        start = stop


def _weigh_meetings(
    factors: PairFactors,
    pairs: Ints,
    occurrence: Floats,
    reachable: Floats,
    labels: Ints,
    rule: CrossRule | None,
    best: Sequence[Best],
) -> None:
    """Weigh the pairs that may be strong enough, the most promising first.

    ``reachable`` bounds the strength of each pair for each class of ``labels``.
    """

    def within_reach(places: Ints) -> Ints:
        needed = np.array([best[label].threshold * SLACK for label in labels])
        return places[(reachable[:, places] >= needed[:, np.newaxis]).any(axis=0)]

    def weigh(places: Ints) -> None:
        places = within_reach(places)
        if rule is not None:
            places = places[rule.allows(pairs[places, 0], pairs[places, 1])]
        weights = factors.weigh(pairs[places])
        for label in labels:
            best[label].offer(pairs[places], weights[:, label], occurrence[places])

    promise = reachable.max(axis=0)
    split = min(_CHUNK_PAIRS, promise.size - 1)
    ranked = np.argpartition(-promise, split)
    weigh(ranked[: split + 1])
    rest = within_reach(np.sort(ranked[split + 1 :]))
    for start in range(0, rest.size, _CHUNK_PAIRS):
        weigh(rest[start : start + _CHUNK_PAIRS])
