"""Who recommended the example shop to whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_friends"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ALIKE = 0.35
"""How often a friend is drawn among those who buy the same; else among all."""

POPULARITY_TAIL, MOST_POPULAR = 2.5, 10.0
"""Exponent of the power law of how popular customers are, and where it is cut off."""


def draw_friends(
    classes: Integers, askers: Integers, num_edges: int, random: np.random.Generator
) -> Integers:
    """Draw distinct pairs of two different customers, more of those who are popular.

    Args:
        classes: What each customer buys.
        askers: Those who have a friend to name: each of them once, then whoever comes.
        num_edges: How many pairs; at least one per asker.
        random: Source of randomness.

    Returns:
        ``[2, num_edges]``, an asker above the friend they named, who can be any customer.
    """
    num_nodes = len(classes)
    popularity = (1 - random.random(num_nodes)) ** (-1 / POPULARITY_TAIL)
    popularity = np.minimum(popularity, MOST_POPULAR)
    by_class = np.argsort(classes, kind="stable")
    reach = np.concatenate([[0.0], np.cumsum(popularity[by_class])])
    ends = np.cumsum(np.bincount(classes))
    start, stop = reach[np.concatenate([[0], ends[:-1]])], reach[ends]
    asking = popularity[askers] / popularity[askers].sum()
    pairs = np.empty((2, 0), np.int64)
    while pairs.shape[1] < num_edges:
        first = np.concatenate([askers, random.choice(askers, num_edges, p=asking)])
        alike = random.random(len(first)) < ALIKE
        low = np.where(alike, start[classes[first]], 0.0)
        high = np.where(alike, stop[classes[first]], reach[-1])
        position = low + random.random(len(first)) * (high - low)
        at = np.searchsorted(reach, position, side="right") - 1
        second = by_class[np.minimum(at, num_nodes - 1)]
        pairs = np.concatenate([pairs, np.stack([first, second])], axis=1)
        pairs = _keep_distinct(pairs, num_nodes)
    return pairs[:, :num_edges]


def _keep_distinct(pairs: Integers, num_nodes: int) -> Integers:
    """Each pair where it first comes, whichever way round; nobody with themselves."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    _, first_come = np.unique(pairs.min(axis=0) * num_nodes + pairs.max(axis=0), return_index=True)
    return pairs[:, np.sort(first_come)]
