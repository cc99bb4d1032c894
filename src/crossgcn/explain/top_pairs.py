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
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from crossgcn.explain.best import Best
from crossgcn.explain.layer_reading import Floats, LayerReading
from crossgcn.explain.occurrence import CrossRule, PairOccurrence
from crossgcn.explain.terms import block_products, partitions

__all__ = ["PairFactors", "pair_factors", "top_pairs"]

Ints = NDArray[np.int64]

MEETINGS = 500_000_000
"""Most pairs of entries of one node, over all nodes, for which meetings are counted."""

_BLOCK = 2048
_CHUNK_MEETINGS = 4_000_000
_CHUNK_PAIRS = 16_384
_SLACK = 1.0 - 1e-9


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
        for start in range(0, len(pairs), _CHUNK_PAIRS):
            i, j = pairs[start : start + _CHUNK_PAIRS].T
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
            if alpha and first in blocks and second in blocks:
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
    """The pairs of different features with the largest weight × occurrence, for each class.

    Args:
        factors: Weights of all pairs.
        inputs: The features, ``[nodes, features]``; ``None`` ranks by weight alone.
        top: How many pairs per class.
        rule: Which pairs may be named; all of them when left out.
    """
    classes = [factors.of_class(label) for label in range(len(factors.scale))]
    best = [Best(top, 2) for _ in classes]
    if inputs is not None and _meetings(inputs).sum() <= MEETINGS:
        lengths = np.stack([each.lengths() for each in classes])
        _search_meetings(factors, lengths, inputs, rule, best)
    else:
        occurrence = None if inputs is None else PairOccurrence(inputs)
        size = None if inputs is None else _root_mean_square(inputs)
        for each, found in zip(classes, best, strict=True):
            _search_blocks(each, size, occurrence, rule, found)
    return best


def _meetings(inputs: sp.csr_array) -> Ints:
    """With how many entries, itself included, each entry shares its node, per feature."""
    lengths = np.diff(inputs.indptr).astype(np.int64)
    return np.bincount(
        inputs.indices, np.repeat(lengths, lengths), minlength=inputs.shape[1]
    ).astype(np.int64)


def _root_mean_square(inputs: sp.csr_array) -> Floats:
    squares = np.bincount(inputs.indices, inputs.data**2, minlength=inputs.shape[1])
    return np.sqrt(squares / inputs.shape[0])


def _search_meetings(
    factors: PairFactors,
    lengths: Floats,
    inputs: sp.csr_array,
    rule: CrossRule | None,
    best: Sequence[Best],
) -> None:
    reach = lengths * _root_mean_square(inputs)
    order = np.argsort(-reach.max(axis=0), kind="stable")
    lengths, reach = lengths[:, order], reach[:, order]
    furthest = np.maximum.accumulate(reach[:, ::-1], axis=1)[:, ::-1]
    sizes = sp.csr_array(abs(inputs)[:, order])
    for start, block in _meeting_blocks(sizes):
        bounds = furthest[:, start] ** 2
        open_classes = [
            label
            for label, found in enumerate(best)
            if bounds[label] > 0 and bounds[label] >= found.threshold * _SLACK
        ]
        if not open_classes:
            continue
        first, second, occurrence = block()
        reachable = lengths[open_classes][:, first] * lengths[open_classes][:, second] * occurrence
        near = np.arange(first.size)
        while near.size:
            needed = np.array([best[label].threshold * _SLACK for label in open_classes])
            near = near[(reachable[:, near] >= needed[:, np.newaxis]).any(axis=0)]
            if not needed.all():
                near = near[np.argsort(-reachable[:, near].max(axis=0), kind="stable")]
            chosen, near = near[:_CHUNK_PAIRS], near[_CHUNK_PAIRS:]
            pairs = np.sort(order[np.stack([first[chosen], second[chosen]], axis=1)], axis=1)
            allowed = slice(None) if rule is None else rule.allows(pairs[:, 0], pairs[:, 1])
            pairs, often = pairs[allowed], occurrence[chosen][allowed]
            weights = factors.weigh(pairs)
            for label in open_classes:
                best[label].offer(pairs, weights[:, label], often)


def _meeting_blocks(sizes: sp.csr_array) -> Iterator[tuple[int, Any]]:
    """Blocks of features, each with what finds its pairs with the features after them."""
    by_feature = sp.csr_array(sizes.T)
    work = np.cumsum(_meetings(sizes))
    start, num_features = 0, sizes.shape[1]
    while start < num_features:
        done = work[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(work, done + _CHUNK_MEETINGS, side="right")))

        def block(start: int = start, stop: int = stop) -> tuple[Ints, Ints, Floats]:
            together = sp.csr_array(by_feature[start:stop] @ sizes)
            first = np.repeat(np.arange(start, stop), np.diff(together.indptr))
            later = together.indices > first
            return (
                first[later],
                together.indices[later].astype(np.int64),
                together.data[later] / sizes.shape[0],
            )

        yield start, block
        start = stop


def _search_blocks(
    factors: PairFactors,
    size: Floats | None,
    occurrence: PairOccurrence | None,
    rule: CrossRule | None,
    best: Best,
) -> None:
    reach = factors.lengths() * (1.0 if size is None else size)
    order = np.argsort(-reach, kind="stable")
    order = order[reach[order] > 0]
    reach = reach[order]
    scale = 1.0 if size is None else size[order][:, np.newaxis]
    left, right = factors.left[order] * scale, factors.right[order] * scale
    rows = torch.from_numpy(
        np.concatenate([left * factors.scale, right * factors.scale], axis=1)
    ).float()
    columns = torch.from_numpy(np.concatenate([right, left], axis=1)).float()
    rounding = (rows.shape[1] + 8) * 2.0**-23
    for start in range(0, len(order), _BLOCK):
        if reach[start] ** 2 < best.threshold * _SLACK:
            return
        for other in range(start, len(order), _BLOCK):
            bound = reach[start] * reach[other]
            if bound < best.threshold * _SLACK:
                break
            sizes = (rows[start : start + _BLOCK] @ columns[other : other + _BLOCK].T).abs_()
            if other == start:
                sizes = sizes.triu_(1)
            _look_through(
                sizes,
                bound * rounding,
                (order[start : start + _BLOCK], order[other : other + _BLOCK]),
                factors,
                occurrence,
                rule,
                best,
            )


def _look_through(
    sizes: torch.Tensor,
    rounding: float,
    features: tuple[Ints, Ints],
    factors: PairFactors,
    occurrence: PairOccurrence | None,
    rule: CrossRule | None,
    best: Best,
) -> None:
    """Weigh the pairs of a block that may be good enough, the most promising first."""
    if float(sizes.amax()) + rounding < best.threshold * _SLACK:
        return
    flat = sizes.flatten()
    near = torch.nonzero(flat > max(0.0, best.threshold * _SLACK - rounding)).flatten()
    while near.numel():
        take = min(_CHUNK_PAIRS if best.threshold else 8 * best.num, near.numel())
        values = flat[near]
        chosen = torch.topk(values, take).indices
        rows, columns = np.divmod(near[chosen].numpy(), sizes.shape[1])
        first, second = features[0][rows], features[1][columns]
        share = np.ones(take) if occurrence is None else occurrence.of(first, second)
        _offer(factors, first, second, share, rule, best)
        values[chosen] = -1.0
        near = near[values > max(0.0, best.threshold * _SLACK - rounding)]


def _offer(
    factors: PairFactors,
    first: Ints,
    second: Ints,
    occurrence: Floats,
    rule: CrossRule | None,
    best: Best,
) -> None:
    if rule is not None:
        allowed = rule.allows(first, second)
        first, second, occurrence = first[allowed], second[allowed], occurrence[allowed]
    pairs = np.sort(np.stack([first, second], axis=1), axis=1)
    best.offer(pairs, factors.weigh(pairs)[:, 0], occurrence)
