"""Contributions added up over nodes, without a row for every node's every product."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats, LayerReading
from crossgcn.explanation.term_codes import TermCodes
from crossgcn.explanation.terms import term_weights

__all__ = ["count_terms", "list_terms", "sum_codes", "sum_products"]

MAX_SUMS = 20_000_000
"""Different products whose contributions are added up: 320 MB."""

_DENSE_CODES = 10_000_000
_PENDING = 4_000_000
_CHUNK_CELLS = 1_000_000
_CHUNK_TERMS = 4096

Ints = NDArray[np.int64]


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
    step = max(1, _CHUNK_CELLS // _CHUNK_TERMS)
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
