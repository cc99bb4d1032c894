"""The best so far of a long search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossgcn.explanation.layer_reading import Floats

__all__ = ["SLACK", "Best"]

SLACK = 1.0 - 1e-9
"""A bound that comes this near to the threshold is not ruled out: it was rounded, too."""


class Best:
    """The crosses of largest strength, whatever its sign; among equals the first by features.

    Args:
        num: How many are wanted, at least 1.
        length: Features of each.

    Attributes:
        features: ``[found, length]``.
        weight: Of each.
        occurrence: Of each.
        threshold: The size that a newcomer must reach; 0 until enough are found.
    """

    def __init__(self, num: int, length: int) -> None:
        self.num = num
        self.features = np.zeros((0, length), np.int64)
        self.weight, self.occurrence = np.zeros(0), np.zeros(0)
        self.threshold = 0.0

    def offer(self, features: NDArray[np.int64], weight: Floats, occurrence: Floats) -> None:
        """Take what is better than what is there; what has no strength is not taken."""
        size = np.abs(weight) * occurrence
        good = (size >= self.threshold) & (size > 0)
        if not good.any():
            return
        features = np.concatenate([self.features, features[good]])
        weight = np.concatenate([self.weight, weight[good]])
        occurrence = np.concatenate([self.occurrence, occurrence[good]])
        size = np.abs(weight) * occurrence
        order = np.lexsort((*features.T[::-1], -size))[: self.num]
        self.features, self.weight = features[order], weight[order]
        self.occurrence = occurrence[order]
        if order.size == self.num:
            self.threshold = float(size[order[-1]])
