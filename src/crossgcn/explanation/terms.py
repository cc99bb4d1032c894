r"""The weights of products of features in a layer's units.

A unit's :math:`k`-th order part :math:`\alpha_k\prod_{m\le k}\mathbf{w}^m\mathbf{x}` multiplies
out to products of :math:`k` features. The order in which features meet projections is
arbitrary, so only the sum over all ways to assign them, the symmetrised weight, has a
meaning. Where a feature is 0 or 1, its powers are itself: :math:`x_i^2x_j` counts
towards the pair :math:`x_ix_j`. What remains is named by the features it multiplies,
ascending, a feature of other values as often as its power says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crossgcn.explanation.layer_reading import Floats, LayerReading

__all__ = ["block_products", "fold", "partitions", "term_weights"]

_CHUNK_CELLS = 2_000_000


def fold(features: Sequence[int], binary: NDArray[np.bool_]) -> tuple[int, ...]:
    """The name of a product of features: ascending, binary ones once.

    Args:
        features: What is multiplied, in any order.
        binary: Which features are 0 or 1.
    """
    kept: list[int] = []
    for feature in sorted(features):
        if not (kept and kept[-1] == feature and binary[feature]):
            kept.append(int(feature))
    return tuple(kept)


def term_weights(
    layer: LayerReading, terms: NDArray[np.int64], binary: NDArray[np.bool_]
) -> Floats:
    """Symmetrised and folded weights of some products, for every unit of a layer.

    The K projections are dealt out to the features of a product, each feature
    getting at least one, and a binary one any number, its powers being itself. Sums
    over all ways to deal grow feature by feature over the sets of projections that
    are gone, 3^K steps instead of one per way.

    Args:
        layer: The layer.
        terms: Features of each product, all products of one length, as :func:`fold`
            names them: ``[terms, length]``.
        binary: Which features are 0 or 1, ``[features]``.

    Returns:
        ``[terms, channels]``.
    """
    channels = layer.first_order.shape[0]
    step = max(1, _CHUNK_CELLS // (channels << layer.order))
    parts = [
        _weights_of_chunk(layer, terms[start : start + step], binary)
        for start in range(0, len(terms), step)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, channels))


def _weights_of_chunk(
    layer: LayerReading, terms: NDArray[np.int64], binary: NDArray[np.bool_]
) -> Floats:
    length, order = terms.shape[1], layer.order
    out = np.zeros((len(terms), layer.first_order.shape[0]))
    if length == 1:
        out += layer.first_order.T[terms[:, 0]]
    if order < max(2, length):
        return out
    sums: dict[int, Floats] = {0: np.ones_like(out)}
    for slot in range(length):
        blocks = block_products(layer, terms[:, slot], binary)
        grown: dict[int, Floats] = {}
        for gone, value in sums.items():
            for block, product in blocks.items():
                if not gone & block:
                    grown[gone | block] = grown.get(gone | block, 0.0) + value * product
        sums = grown
    for used in range(2, order + 1):
        dealt = sums.get((1 << used) - 1)
        if dealt is not None:
            out += layer.order_weights[used - 1] * dealt
    return out / _ways_to_swap(terms)[:, None]


def block_products(
    layer: LayerReading, features: NDArray[np.int64], binary: NDArray[np.bool_]
) -> dict[int, Floats]:
    """Products of a feature's weights over every set of projections it may be dealt.

    Args:
        layer: The layer.
        features: The features, ``[n]``.
        binary: Which features are 0 or 1; others take one projection at a time.

    Returns:
        For each set of projections, as bits of a number, ``[n, channels]``.
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
            products[block] = np.where(may_fold[:, None], product, 0.0)
    return products


def partitions(order: int) -> list[tuple[int, int]]:
    """Every way to part the first ``order`` projections in two, neither part empty."""
    full = (1 << order) - 1
    return [(part, full ^ part) for part in range(1, full) if part & 1]


def _ways_to_swap(terms: NDArray[np.int64]) -> Floats:
    """How often each product was counted because the same feature stands in several places."""
    swaps = np.ones(len(terms))
    run = np.ones(len(terms))
    for slot in range(1, terms.shape[1]):
        run = np.where(terms[:, slot] == terms[:, slot - 1], run + 1, 1.0)
        swaps *= run
    return swaps
