"""Draw the edges of random graphs: few nodes have very many, and friends are often alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class WeightedNodes:
    """Nodes that are drawn in proportion to random weights, from all nodes or from one class.

    Args:
        classes: The class of each node; no class is empty.
        tail: Exponent of the power law of the weights.
        largest: The largest weight.
    """

    def __init__(
        self, classes: Integers, tail: float, largest: float, random: np.random.Generator
    ) -> None:
        self.weights = np.minimum((1 - random.random(len(classes))) ** (-1 / tail), largest)
        self._classes = classes
        self._by_class = np.argsort(classes, kind="stable")
        self._reach = np.concatenate([[0.0], np.cumsum(self.weights[self._by_class])])
        ends = np.cumsum(np.bincount(classes))
        self._low, self._high = self._reach[ends - np.bincount(classes)], self._reach[ends]

    def draw(self, count: int, random: np.random.Generator) -> Integers:
        """Draw nodes from all nodes."""
        return self._find(random.random(count) * self._reach[-1])

    def draw_edges(
        self,
        num_edges: int,
        same_class: float,
        draw_first: Callable[[], Integers],
        random: np.random.Generator,
    ) -> Integers:
        """Draw pairs of different nodes until enough are distinct in either direction.

        Args:
            same_class: Share of second ends drawn from the class of the first.
            draw_first: Draws first ends; called as often as needed.

        Returns:
            ``[2, num_edges]``, in the order drawn.
        """
        pairs = np.empty((2, 0), np.int64)
        while pairs.shape[1] < num_edges:
            first = draw_first()
            same = random.random(len(first)) < same_class
            low = np.where(same, self._low[self._classes[first]], 0.0)
            high = np.where(same, self._high[self._classes[first]], self._reach[-1])
            second = self._find(low + random.random(len(first)) * (high - low))
            pairs = np.concatenate([pairs, np.stack([first, second])], axis=1)
            pairs = pairs[:, pairs[0] != pairs[1]]
            keys = pairs.min(axis=0) * len(self._classes) + pairs.max(axis=0)
            _, first_come = np.unique(keys, return_index=True)
            pairs = pairs[:, np.sort(first_come)]
        return pairs[:, :num_edges]

    def _find(self, position: Floats) -> Integers:
        """Return the node whose interval of the cumulative weights holds each position."""
        at = np.searchsorted(self._reach, position, side="right") - 1
        nodes: Integers = self._by_class[np.minimum(at, len(self._classes) - 1)]
        return nodes
