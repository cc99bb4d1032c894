"""Cut a column of numbers into ranges with round bounds: ``<20``, ``=[20, 25)``, ``≥25``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

NUM_RANGES = 4
"""About how many ranges a column of numbers is cut into."""

SLACK = 0.25
"""Greatest distance of a bound from its quantile, as a share of a range."""

STEPS = ((1, 0, 0.0), (5, -1, 0.05), (2, -1, 0.25))
"""Digit, power of ten and cost of the steps whose multiples are round numbers.

Costs are distances from the quantile, as shares of a range: a bound may move that much further
to be a multiple of 10 instead of 5, or of 5 instead of 2.
"""

DIGIT_COST = 0.3
"""Cost of one more digit."""


def choose_ranges(
    numbers: NDArray[np.float64], counts: NDArray[np.int64]
) -> list[tuple[float, str]]:
    """Return where ranges with about equally many cells start, and what they are called.

    A value in more than a quarter of the cells, such as 0, gets a range of its own. The numbers
    below, between and above such values are cut at quantiles, into parts in proportion to their
    cells. Each cut then moves to a round number at most a quarter of a range away. Ranges without
    a number are left out: theirs belong to the next range to the left.

    Args:
        numbers: The different values, finite and ascending.
        counts: The number of cells of each.
    """
    is_alone = counts * NUM_RANGES > counts.sum()
    alone = numbers[is_alone]
    bounds = set(alone.tolist())
    parts = np.searchsorted(alone, numbers)
    for part in range(len(alone) + 1):
        inside = (parts == part) & ~is_alone
        if inside.any():
            num_ranges = round(float(counts[inside].sum() / counts.sum()) * NUM_RANGES)
            bounds.update(_cut(numbers[inside], counts[inside], num_ranges))
    ranges = _name_ranges(sorted(bounds), set(alone.tolist()))
    starts = [start for start, _ in ranges]
    filled = np.unique(np.searchsorted(starts, numbers, side="right") - 1).tolist()
    return [ranges[position] for position in filled or [0]]


def _cut(numbers: NDArray[np.float64], counts: NDArray[np.int64], num_ranges: int) -> list[float]:
    """Return round bounds between ranges with about equally many cells."""
    share_below = (np.cumsum(counts) - counts) / counts.sum()
    bounds: list[float] = []
    first = 1
    for number in range(1, num_ranges):
        if first == len(numbers):
            break
        distance = abs(share_below - number / num_ranges)
        distance[:first] = np.inf
        nearest = int(distance.argmin())
        near = np.flatnonzero(distance <= max(SLACK / num_ranges, distance[nearest]))
        low, high, wish = numbers[[near[0] - 1, near[-1], nearest]].tolist()
        costs = {
            bound: cost + float(distance[np.searchsorted(numbers, bound)]) * num_ranges
            for bound, cost in _list_round_numbers(low, high, wish)
        }
        bounds.append(min(costs, key=lambda bound: costs[bound]))
        first = int(np.searchsorted(numbers, bounds[-1])) + 1
    return bounds


def _list_round_numbers(low: float, high: float, wish: float) -> Iterator[tuple[float, float]]:
    """Yield different round numbers in ``(low, high]``, the roundest first, and their costs.

    Round numbers are multiples of 10, 5, 2 and 1 times a power of ten; the larger the step, the
    rounder. Of each step, it is the multiple nearest to ``wish``. The first costs nothing, and the
    last at most :data:`SLACK`. Where no number is round, it is ``wish``.
    """
    exponent = math.floor(math.log10(max(abs(low), abs(high)))) + 1
    given: set[float] = set()
    cost_of_first = 0.0
    for digits in range(18):
        for digit, shift, cost_of_digit in STEPS:
            step = Decimal(digit).scaleb(exponent - digits + shift)
            least = math.floor(Decimal(low) / step) + 1
            most = math.floor(Decimal(high) / step)
            number = float(min(max(round(Decimal(wish) / step), least), most) * step)
            if least > most or not low < number <= high or number in given:
                continue
            cost = cost_of_digit + DIGIT_COST * digits
            cost_of_first = cost_of_first if given else cost
            if cost - cost_of_first > SLACK:
                return
            given.add(number)
            yield number, cost - cost_of_first
    if not given:
        yield wish, 0.0


def _name_ranges(bounds: list[float], alone: set[float]) -> list[tuple[float, str]]:
    """Return where each range starts, and its name: ``<20``, ``=[20, 25)``, ``≥25``, ``=0``."""
    if not bounds:
        return [(-math.inf, "=(any)")]
    ranges = [(-math.inf, f"<{_write(bounds[0])}")]
    for lower, upper in zip(bounds, [*bounds[1:], None], strict=True):
        start, mark, bracket = lower, "≥", "["
        if lower in alone:
            ranges.append((lower, f"={_write(lower)}"))
            start, mark, bracket = math.nextafter(lower, math.inf), ">", "("
        if upper is None:
            ranges.append((start, f"{mark}{_write(lower)}"))
        else:
            ranges.append((start, f"={bracket}{_write(lower)}, {_write(upper)})"))
    return ranges


def _write(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
