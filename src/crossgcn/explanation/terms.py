r"""Compute the weights of products of features in the units of a layer.

The :math:`k`-th order part of a unit, :math:`\alpha_k\prod_{m\le k}\mathbf{w}^m\mathbf{x}`,
multiplies out to products of :math:`k` features. Only the symmetrised weight, the sum over all
assignments of features to projections, has a meaning. For a binary feature (0 or 1) all powers
are equal, so :math:`x_i^2x_j` counts towards the pair :math:`x_ix_j`. A product is identified by
its features in ascending order; a feature that is not binary is repeated as its power says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crossgcn.explanation.reading import Bools, Floats, Ints, LayerReading

_CHUNK_CELLS = 2_000_000


def fold(features: Sequence[int], binary: Bools) -> tuple[int, ...]:
    """Return the identity of a product: features in ascending order, binary ones once."""
    kept: list[int] = []
    for feature in sorted(features):
        if not (kept and kept[-1] == feature and binary[feature]):
            kept.append(int(feature))
    return tuple(kept)


def term_weights(layer: LayerReading, terms: Ints, binary: Bools) -> Floats:
    """Return the symmetrised and folded weights of products, ``[terms, channels]``.

    Every feature of a product is assigned at least one of the K projections; a binary feature
    may get several. The sum over all assignments is built feature by feature over the sets of
    projections already used, in 3^K steps instead of one step per assignment.

    ``terms [terms, length]`` are products of one length as :func:`fold` returns them.
    """
    channels = layer.first_order.shape[0]
    step = max(1, _CHUNK_CELLS // (channels << layer.order))
    parts = [
        _weights_of_chunk(layer, terms[start : start + step], binary)
        for start in range(0, len(terms), step)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, channels))


def _weights_of_chunk(layer: LayerReading, terms: Ints, binary: Bools) -> Floats:
    length, order = terms.shape[1], layer.order
    out = np.zeros((len(terms), layer.first_order.shape[0]))
    if length == 1:
        out += layer.first_order.T[terms[:, 0]]
    if order < max(2, length):
        return out
    sums: dict[int, Floats] = {0: np.ones_like(out)}
    for place in range(length):
        blocks = block_products(layer, terms[:, place], binary)
        grown: dict[int, Floats] = {}
        for used, value in sums.items():
            for block, product in blocks.items():
                if not used & block:
                    grown[used | block] = grown.get(used | block, 0.0) + value * product
        sums = grown
    for highest in range(2, order + 1):
        assigned = sums.get((1 << highest) - 1)
        if assigned is not None:
            out += layer.order_weights[highest - 1] * assigned
    return out / _repetitions(terms)[:, np.newaxis]


def block_products(layer: LayerReading, features: Ints, binary: Bools) -> dict[int, Floats]:
    """Return the product of each feature's weights over every set of projections.

    A set is given as the bits of a number; each product is ``[features, channels]``. Features that
    are not binary get one projection at a time.
    """
    weights = layer.projections[: layer.order, :, features].transpose(0, 2, 1)
    may_fold = binary[features]
    products: dict[int, Floats] = {}
    for block in range(1, 1 << layer.order):
        members = [position for position in range(layer.order) if block >> position & 1]
        if len(members) == 1:
            products[block] = weights[members[0]]
        elif may_fold.any():
            product = weights[members].prod(axis=0)
            products[block] = np.where(may_fold[:, np.newaxis], product, 0.0)
    return products


def _repetitions(terms: Ints) -> Floats:
    """Return how often each product was counted because a feature occurs in several places."""
    count, run = np.ones(len(terms)), np.ones(len(terms))
    for place in range(1, terms.shape[1]):
        run = np.where(terms[:, place] == terms[:, place - 1], run + 1, 1.0)
        count *= run
    return count


def list_terms(binary: Bools, length: int) -> Ints:
    """Return all products of ``length`` features in ascending order, binary ones at most once."""
    terms = np.arange(binary.size)[:, np.newaxis]
    for _ in range(1, length):
        first = terms[:, -1] + binary[terms[:, -1]]
        counts = binary.size - first
        starts = np.cumsum(counts) - counts
        last = np.arange(counts.sum()) + np.repeat(first - starts, counts)
        terms = np.concatenate([np.repeat(terms, counts, axis=0), last[:, np.newaxis]], axis=1)
    return terms


def count_terms(num_features: Ints, order: int) -> Floats:
    """Return how many products of at most ``order`` factors each number of features has."""
    features = num_features.astype(np.float64)
    total, count = np.zeros_like(features), np.ones_like(features)
    for length in range(1, order + 1):
        count = count * (features + length - 1) / length
        total += count
    return total
