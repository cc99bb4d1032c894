"""Who recommended the example shop to whom."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_friends"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ALIKE = 0.45
"""How often a friend is drawn among those who buy the same; else among all."""

POPULARITY_TAIL, MOST_POPULAR = 2.5, 15.0
"""Exponent of the power law of how often customers are named, and where it is cut off."""


def draw_friends(
    classes: Integers, askers: Integers, num_edges: int, random: np.random.Generator
) -> Integers:
    """Draw distinct pairs of two different customers; every asker is in one at least.

    Args:
        classes: What each customer buys.
        askers: Those who name a friend; they take turns. Any customer can be named.
        num_edges: How many pairs.
        random: Source of randomness.

    Returns:
        ``[2, num_edges]``, an asker above the friend they named.
    """
    power = np.minimum((1 - random.random(len(classes))) ** (-1 / POPULARITY_TAIL), MOST_POPULAR)
    by_class = np.argsort(classes, kind="stable")
    reach = np.concatenate([[0.0], np.cumsum(power[by_class])])
    ends = np.cumsum(np.bincount(classes))
    start, stop = reach[np.concatenate([[0], ends[:-1]])], reach[ends]
    pairs = np.empty((2, 0), np.int64)
    while pairs.shape[1] < num_edges:
        turns = -(-num_edges // len(askers))
        first = np.tile(askers, turns)
        alike = random.random(len(first)) < ALIKE
        low = np.where(alike, start[classes[first]], 0.0)
        high = np.where(alike, stop[classes[first]], reach[-1])
        position = low + random.random(len(first)) * (high - low)
        at = np.searchsorted(reach, position, side="right") - 1
        second = by_class[np.minimum(at, len(classes) - 1)]
        pairs = _keep_distinct(np.concatenate([pairs, np.stack([first, second])], axis=1))
    return pairs[:, :num_edges]


def _keep_distinct(pairs: Integers) -> Integers:
    """Each pair where it first comes, whichever way round; none of a customer with themselves."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    _, first_come = np.unique(np.sort(pairs, axis=0), axis=1, return_index=True)
    return pairs[:, np.sort(first_come)]
