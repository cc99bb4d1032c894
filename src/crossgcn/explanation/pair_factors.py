"""The weights of all pairs of features, factored, and the bounds that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossgcn.explanation.layer_reading import Floats, LayerReading
from crossgcn.explanation.terms import block_products, partitions

__all__ = ["PairFactors", "pair_factors"]

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
