"""Columns of numbers: their ranges, their ranks and the standardised numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat
from scipy import sparse

from crossgcn.data.tables.cells import CODE, NumberStyle, are_whole, find_contradictions
from crossgcn.data.tables.kinds.base import (
    MIN_SHARE_OF_KIND,
    ColumnEncoder,
    Inference,
    Wrong,
    ones_at,
)
from crossgcn.data.tables.table import Distinct

MAX_CODES = 12
"""Whole numbers with at most this many different values are codes, unless they count things."""

SURE_COUNTS = 5
"""So many numbers from 0 or 1, with one peak, are counts whatever the column is called."""

COUNT_NAMES = {"count", "counts", "n", "nb", "no", "nr", "num", "number", "qty", "quantity"}
CODE_NAMES = {
    *("cat", "category", "class", "cluster", "code", "codes", "grade", "group", "id", "kind"),
    *("label", "level", "region", "sector", "segment", "status", "type", "types", "zone"),
    *("day", "hour", "month", "weekday", "year"),
}

MAX_DEVIATIONS = 5.0
"""Standardised numbers are clipped to this distance from the mean."""

MAX_KNOTS = 201
"""Numbers of which the rank is kept; ranks between them are interpolated."""

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


def infer_numeric(name: str, distinct: Distinct) -> Inference:
    """Tell numbers from codes, which are categories or begin with 0, and from numbers of rows."""
    is_number = ~np.isnan(distinct.numbers)
    num_cells, num_present = distinct.num_cells(is_number), distinct.num_present
    if num_cells < MIN_SHARE_OF_KIND * num_present:
        return None
    numbers, of_value = np.unique(distinct.numbers[is_number], return_inverse=True)
    all_numbers, whole = num_cells == num_present, are_whole(numbers)
    num_values = len(distinct.texts_present)
    if whole and any(map(CODE.fullmatch, distinct.texts_present)):
        return None
    if whole and len(numbers) <= MAX_CODES and 2 * len(numbers) <= num_cells:
        counts = np.bincount(of_value, distinct.counts[is_number]).astype(np.float64)
        if _are_counts(name, numbers, counts):
            return "numeric", f"{len(numbers)} different whole numbers, taken as counts"
        if all_numbers:
            return "categorical", f"{num_values} different whole numbers, taken as codes"
        return "categorical", f"{num_values} different values, most of them whole numbers"
    if not all_numbers and len(numbers) <= MAX_CODES:
        return None
    num_rows = len(distinct.codes)
    all_different = all_numbers and len(numbers) == num_rows > MAX_CODES
    if whole and all_different and numbers[0] in (0, 1) and np.ptp(numbers) == num_rows - 1:
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / num_present:.1%} numbers"
    low, high = (f"{number:,.10g}" for number in (numbers[0], numbers[-1]))
    return "numeric", f"{share}{distinct.style} from {low} to {high}"


def _are_counts(name: str, numbers: NDArray[np.float64], counts: NDArray[np.float64]) -> bool:
    """Return whether few whole numbers count things, as beds and guests do.

    They start 0, 1, 2 or 1, 2, 3, and the nodes of each become more up to one peak and then
    fewer: but for chance, if a name such as ``beds`` or ``num_doors`` says that they count, and
    strictly, of five numbers or more, if not. Names such as ``zone`` or ``code`` are of codes.
    """
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    if not words or CODE_NAMES & set(words) or len(numbers) < 3:
        return False
    if numbers[0] not in (0, 1) or not (np.diff(numbers[:3]) == 1).all():
        return False
    is_plural = words[-1].endswith("s") and not words[-1].endswith(("ss", "us", "is"))
    says_so = is_plural or bool(COUNT_NAMES & set(words))
    chance = 2 * np.sqrt(counts[1:] + counts[:-1]) if says_so else 0.02 * counts.sum()
    steps = np.diff(counts)
    steps = np.sign(steps[abs(steps) > chance])
    has_one_peak = not (np.diff(steps) > 0).any()
    return has_one_peak and (says_so or (len(numbers) >= SURE_COUNTS and len(steps) > 0))


class NumberEncoder(ColumnEncoder):
    """One feature per range, ``age=[20, 25)``, then ``age rank``, and ``age`` standardised.

    Attributes:
        style: How numbers were written in training.
        ranges: Endings of the names of the ranges, such as ``=[20, 25)`` or ``=0``, ascending.
        bounds: Where all ranges but the first start.
        known: Numbers of which the rank is kept, ascending; others are interpolated.
        ranks: Their ranks, from -0.5 to 0.5; equal numbers have the middle of their ranks.
        deviation: The standard deviation; 1 where all numbers are the same.
        has_missing: Whether missing values have a feature; otherwise they are in no range.
            Standardised, they count as the mean; their rank is 0.
    """

    kind: Literal["numeric"] = "numeric"
    style: NumberStyle
    ranges: tuple[str, ...]
    bounds: tuple[FiniteFloat, ...]
    known: tuple[FiniteFloat, ...]
    ranks: tuple[FiniteFloat, ...]
    mean: FiniteFloat
    deviation: Annotated[FiniteFloat, Field(gt=0)]
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> NumberEncoder:
        """Choose ranges, rank the numbers, and measure mean and deviation.

        Infinities and text that is not a number count as missing.
        """
        is_finite = np.isfinite(distinct.numbers)
        # Adding zero makes -0 and 0 the same to the last bit.
        numbers, where = np.unique(distinct.numbers[is_finite] + 0.0, return_inverse=True)
        counts = np.bincount(where, distinct.counts[is_finite], len(numbers)).astype(np.int64)
        ranges = choose_ranges(numbers, counts)
        known, ranks = rank_numbers(numbers, counts)
        mean, deviation = measure(numbers, counts)
        return cls(
            column=column,
            style=distinct.style,
            ranges=tuple(name for _, name in ranges),
            bounds=tuple(start for start, _ in ranges[1:]),
            known=tuple(known.tolist()),
            ranks=tuple(ranks.tolist()),
            mean=mean,
            deviation=deviation,
            has_missing=not is_finite.all(),
        )

    @property
    def feature_names(self) -> list[str]:
        """The ranges, then ``(missing)``, then the rank and the number itself."""
        missing = ["=(missing)"] * self.has_missing
        return [f"{self.column}{ending}" for ending in (*self.ranges, *missing, " rank", "")]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one at the range of each value, its rank and the standardised value."""
        read = distinct.read_numbers(self.style)
        is_finite = np.isfinite(read)
        numbers = np.where(is_finite, read, self.mean)
        ranges = np.searchsorted(np.array(self.bounds), numbers, side="right")
        ranges = np.where(is_finite, ranges, len(self.ranges) if self.has_missing else -1)
        with np.errstate(over="ignore"):
            standard = (numbers - self.mean) / self.deviation
        standard = np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        ranks = np.where(is_finite, self._rank(numbers), 0.0)
        measures = sparse.csr_array(np.stack([ranks, standard], axis=1).astype(np.float32))
        rows = np.flatnonzero(ranges >= 0)
        shape = (len(numbers), len(self.ranges) + self.has_missing)
        in_ranges = ones_at(rows, ranges[rows], shape)
        return sparse.csr_array(sparse.hstack([in_ranges, measures]))

    def _rank(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.array(self.known)
        with np.errstate(all="ignore"):
            # The distance of two floats may be more than a float can hold.
            unit = 1.0 if np.isfinite(known[-1] - known[0]) else 2.0
            ranks = np.interp(numbers / unit, known / unit, np.array(self.ranks))
        return np.asarray(np.nan_to_num(ranks).clip(-0.5, 0.5))

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the values that are written otherwise than in training, or not finite."""
        found: list[Wrong] = []
        if not distinct.typed or self.style.sign == "%":
            cells = zip(distinct.texts, distinct.missing, strict=True)
            texts = ["" if is_missing else text for text, is_missing in cells]
            reasons = find_contradictions(texts, self.style)
            others = f"numbers{self.style}" if str(self.style) else "plain numbers"
            for reason in filter(None, dict.fromkeys(reasons)):
                wrong = np.array([each == reason for each in reasons]) & ~distinct.missing
                message = f"{{value}} {reason}, and the others are {others}"
                found.append((wrong, message, "write all numbers of the column alike"))
        is_finite = np.isfinite(distinct.read_numbers(self.style))
        remedy = "write a number such as 1234.5, or leave the cell empty"
        return [*found, (~is_finite & ~distinct.missing, "{value} is not a finite number", remedy)]


def measure(numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return centre and spread by which numbers are standardised: mean and deviation.

    Computed without overflow; the spread is 1 where all numbers are the same.
    """
    largest = float(abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return 0.0, 1.0
    scaled = numbers / largest
    shares = counts / counts.sum()
    mean = float((scaled * shares).sum())
    deviation = float(np.sqrt(((scaled - mean) ** 2 * shares).sum())) * largest
    return mean * largest, deviation if len(numbers) > 1 and deviation > 0.0 else 1.0


def rank_numbers(
    numbers: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return at most :data:`MAX_KNOTS` of the different, ascending numbers, and their ranks."""
    if len(numbers) == 0:
        return np.zeros(1), np.zeros(1)
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum() - 0.5
    kept = np.arange(len(ranks))
    if len(kept) > MAX_KNOTS:
        steps = np.linspace(ranks[0], ranks[-1], MAX_KNOTS)
        kept = np.unique(np.searchsorted(ranks, steps).clip(max=len(ranks) - 1))
    return numbers[kept], ranks[kept]


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
