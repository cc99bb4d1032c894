r"""The weights of products of features in a layer's units.

A unit's :math:`k`-th order part :math:`\alpha_k\prod_{m\le k}\mathbf{w}^m\mathbf{x}` multiplies
out to products of :math:`k` features. The order in which features meet projections is
arbitrary, so only the sum over all ways to assign them, the symmetrised weight, has a
meaning. Where a feature is 0 or 1, its powers are itself: :math:`x_i^2x_j` counts
towards the pair :math:`x_ix_j`. What remains is named by the features it multiplies,
ascending, a feature of other values as often as its power says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats, LayerReading

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


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TermCodes:
    """A number for each product of some features.

    Its digits in base ``len(features) + 1`` are the features, counted from 1 in
    ``features``, ascending, after zeros where the product is shorter.

    Attributes:
        features: The features that occur.
        length: Most features of a product.
    """

    features: Ints
    length: int

    @property
    def base(self) -> int:
        """One more than there are features."""
        return len(self.features) + 1

    def encode(self, members: Ints) -> Ints:
        """The codes of products, each a row of places in ``features``, ascending."""
        code = members[:, 0] + 1
        for place in range(1, members.shape[1]):
            code = code * self.base + members[:, place] + 1
        return code

    def digits(self, codes: Ints) -> Ints:
        """The digits of each code, ``[codes, length]``."""
        places = reversed(range(self.length))
        return np.stack([codes // self.base**place % self.base for place in places], axis=1)

    def decode(self, codes: Ints) -> list[tuple[int, ...]]:
        """The features of each code, ascending."""
        names = np.concatenate([[-1], self.features])[self.digits(codes)]
        return [tuple(name for name in row if name >= 0) for row in names.tolist()]


MAX_SUMS = 20_000_000
"""Different products whose contributions are added up: 320 MB."""

_DENSE_CODES = 10_000_000
_PENDING = 4_000_000
_CHUNK_SUM_CELLS = 1_000_000
_CHUNK_TERMS = 4096


def sum_codes(codes: TermCodes, parts: Iterable[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """Each code once, with its contributions added up; not those that add up to 0.

    Args:
        codes: What the codes mean.
        parts: Codes and contributions, which are taken one part after the other.
    """
    space = codes.base**codes.length
    if space <= _DENSE_CODES:
        total = np.zeros(space)
        for some, contributions in parts:
            np.add.at(total, some, contributions)
        present = np.flatnonzero(total)
        return present, total[present]
    found, sums = np.zeros(0, np.int64), np.zeros(0)
    waiting: list[tuple[Ints, Floats]] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += part[0].size
        if size > max(_PENDING, found.size):
            found, sums = _merge([(found, sums), *waiting])
            waiting, size = [], 0
    found, sums = _merge([(found, sums), *waiting])
    present = np.flatnonzero(sums)
    return found[present], sums[present]


def sum_products(
    layer: LayerReading,
    inputs: sp.csr_array,
    coefficients: Floats,
    binary: NDArray[np.bool_],
    codes: TermCodes,
) -> tuple[Ints, Floats]:
    """As :func:`sum_codes`, product by product rather than node by node.

    A product's weights in the units are the same at all nodes, so they are found once and
    multiplied with the sums over nodes of the units' coefficients times the product's
    value. Where most nodes have most of the features this is a small part of the work.

    Args:
        layer: The first layer, those of its units that count.
        inputs: What the nodes have of all features.
        coefficients: With what each unit counts at each node, ``[nodes, units]``.
        binary: Which features are 0 or 1.
        codes: The features that occur.
    """
    dense = inputs[:, codes.features].toarray()
    step = max(1, _CHUNK_SUM_CELLS // _CHUNK_TERMS)
    found, sums = [np.zeros(0, np.int64)], [np.zeros(0)]
    for length in range(1, codes.length + 1):
        terms = list_terms(binary[codes.features], length)
        for start in range(0, len(terms), _CHUNK_TERMS):
            some = terms[start : start + _CHUNK_TERMS]
            moments = np.zeros((len(some), coefficients.shape[1]))
            for row in range(0, len(dense), step):
                values = dense[row : row + step]
                products = values[:, some[:, 0]]
                for place in range(1, length):
                    products *= values[:, some[:, place]]
                moments += products.T @ coefficients[row : row + step]
            weights = term_weights(layer, codes.features[some], binary)
            total = np.einsum("tu,tu->t", weights, moments)
            present = np.flatnonzero(total)
            found.append(codes.encode(some[present]))
            sums.append(total[present])
    return np.concatenate(found), np.concatenate(sums)


def list_terms(binary: NDArray[np.bool_], length: int) -> Ints:
    """All products of some features, ascending; a binary one stands in each at most once."""
    terms = np.arange(binary.size)[:, np.newaxis]
    for _ in range(1, length):
        first = terms[:, -1] + binary[terms[:, -1]]
        counts = binary.size - first
        starts = np.cumsum(counts) - counts
        last = np.arange(counts.sum()) + np.repeat(first - starts, counts)
        terms = np.concatenate([np.repeat(terms, counts, axis=0), last[:, np.newaxis]], axis=1)
    return terms


def count_terms(num_features: NDArray[np.int64], order: int) -> Floats:
    """How many products of up to some order there are of so many features each."""
    features = num_features.astype(np.float64)
    total, count = np.zeros_like(features), np.ones_like(features)
    for length in range(1, order + 1):
        count = count * (features + length - 1) / length
        total += count
    return total


def _merge(parts: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    codes, inverse = np.unique(columns[0], return_inverse=True)
    if codes.size > MAX_SUMS:
        raise BadInput(
            f"the score is made of more than {MAX_SUMS:,} different products of features, too "
            "many to add up; explain a model of lower order, or with fewer features"
        )
    sums = np.bincount(inverse, columns[1], minlength=codes.size)
    return codes, sums.astype(np.float64, copy=False)
