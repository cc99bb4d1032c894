"""Columns of numbers: their ranges, their ranks and the standardised numbers."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from itertools import product
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat
from scipy import sparse

from crossgcn.data.tables.cells import CODE, NumberStyle, are_whole, find_contradictions
from crossgcn.data.tables.kinds.base import MIN_SHARE_OF_KIND, ColumnEncoder, Inference, Wrong
from crossgcn.data.tables.table import Distinct

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MAX_CODES = 12  # columns with at most so many distinct whole numbers are codes, if not counts
SURE_COUNTS = 5  # at least so many numbers, with one peak, are counts without a telling name
COUNT_NAMES = {"count", "counts", "n", "nb", "no", "nr", "num", "number", "qty", "quantity"}
CODE_NAMES = {
    *("cat", "category", "class", "cluster", "code", "codes", "grade", "group", "id", "kind"),
    *("label", "level", "region", "sector", "segment", "status", "type", "types", "zone"),
    *("day", "hour", "month", "weekday", "year"),
}

MAX_DEVIATIONS = 5.0  # standardised numbers are clipped to this distance from the mean
DIGITS = 5  # digits of the deviation to which numbers are read back from their features
MAX_KNOTS = 201  # numbers whose ranks are saved; ranks between them are interpolated
NUM_RANGES = 4  # approximate number of ranges of a column
SLACK = 0.25  # largest distance of a bound from its quantile, as a share of a range
STEPS = ((1, 0, 0.0), (5, -1, 0.05), (2, -1, 0.25))
"""Digit, power of ten and cost of the steps whose multiples are round numbers.

Costs are distances from the quantile, as shares of a range: a bound may move that much further
to be a multiple of 10 instead of 5, or of 5 instead of 2.
"""
DIGIT_COST = 0.3  # cost of each further digit


def infer_numeric(name: str, distinct: Distinct) -> Inference:
    """Infer numbers, as opposed to codes, which are categories, and to row numbers."""
    is_number = ~np.isnan(distinct.numbers)
    num_cells, num_present = distinct.num_cells(is_number), distinct.num_present
    if num_cells < MIN_SHARE_OF_KIND * num_present:
        return None
    numbers, of_value = np.unique(distinct.numbers[is_number], return_inverse=True)
    all_numbers, whole = num_cells == num_present, are_whole(numbers)
    if whole and any(map(CODE.fullmatch, distinct.texts_present)):
        return None
    if whole and len(numbers) <= MAX_CODES and 2 * len(numbers) <= num_cells:
        counts = np.bincount(of_value, distinct.counts[is_number]).astype(np.float64)
        if _are_counts(name, numbers, counts):
            return "numeric", f"{len(numbers)} different whole numbers, taken as counts"
        what = "whole numbers, taken as codes" if all_numbers else "values, most whole numbers"
        return "categorical", f"{len(distinct.texts_present)} different {what}"
    if not all_numbers and len(numbers) <= MAX_CODES:
        return None
    num_rows = len(distinct.codes)
    all_different = all_numbers and len(numbers) == num_rows > MAX_CODES
    if whole and all_different and numbers[0] in (0, 1) and np.ptp(numbers) == num_rows - 1:
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / num_present:.1%} numbers"
    low, high = (f"{number:,.10g}" for number in (numbers[0], numbers[-1]))
    return "numeric", f"{share}{distinct.style} from {low} to {high}"


def _are_counts(name: str, numbers: Floats, counts: Floats) -> bool:
    """Return whether few whole numbers are counts, such as numbers of beds or guests.

    Counts start 0, 1, 2 or 1, 2, 3, and their histogram has one peak. Names such as ``beds`` or
    ``num_doors`` allow deviations by chance; without such a name, at least five numbers are
    needed, and almost no deviation. Names such as ``zone`` or ``code`` exclude counts.
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
        ranges: Suffixes of the names of the ranges, such as ``=[20, 25)`` or ``=0``, ascending.
        bounds: Start of each range but the first.
        known: Numbers whose ranks are saved, ascending; other ranks are interpolated.
        ranks: Ranks of ``known``, from -0.5 to 0.5; equal numbers have their mean rank.
        deviation: The standard deviation; 1 where all numbers are the same.
        has_missing: Whether missing values have a feature. They are in no range, and their rank
            and standardised value are 0.
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
        # Adding zero turns -0.0 into 0.0.
        numbers, where = np.unique(distinct.numbers[is_finite] + 0.0, return_inverse=True)
        counts = np.bincount(where, distinct.counts[is_finite], len(numbers)).astype(np.int64)
        ranges = _choose_ranges(numbers, counts)
        known, ranks = _rank(numbers, counts)
        mean, deviation = _measure(numbers, counts)
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
        return sparse.csr_array(self.encode_numbers(distinct.read_numbers(self.style)))

    def encode_numbers(self, read: Floats) -> NDArray[np.float32]:
        """Return the features of numbers; those that are not finite are missing."""
        rows = np.flatnonzero(np.isfinite(read))
        numbers = read[rows]
        with np.errstate(all="ignore"):
            standard = (numbers - self.mean) / self.deviation
            # The difference of two floats may overflow; that of their halves does not.
            known = np.array(self.known)
            ranks = np.interp(numbers / 2, known / 2, self.ranks)
        # Halves of the tiniest numbers are equal.
        place = np.searchsorted(known, numbers).clip(max=len(known) - 1)
        ranks = np.where(known[place] == numbers, np.array(self.ranks)[place], ranks)
        features = np.zeros((len(read), len(self.feature_names)), np.float32)
        features[:, len(self.ranges) : -2] = ~np.isfinite(read)[:, None]
        features[rows, np.searchsorted(self.bounds, numbers, side="right")] = 1.0
        features[rows, -2] = np.nan_to_num(ranks).clip(-0.5, 0.5)
        features[rows, -1] = standard.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        return features

    def read_back(self, x: NDArray[np.float32]) -> Floats:
        """Return the numbers that features encode; those that were cut off are read from ranks."""
        ranks, standard = x[:, -2:].astype(np.float64).T
        digits = DIGITS - math.floor(math.log10(self.deviation))
        numbers = np.round(self.mean + self.deviation * standard, digits)
        by_rank = np.interp(ranks, self.ranks, self.known)
        numbers = np.where(np.abs(standard) < MAX_DEVIATIONS, numbers, by_rank)
        return np.where(x[:, : len(self.ranges)].any(axis=1), numbers, np.nan)

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The number itself."""
        return (self.column,)

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the values that are not finite or not in the number style of training."""
        found: list[Wrong] = []
        if not distinct.typed or self.style.sign == "%":
            texts = np.where(distinct.missing, "", np.array(distinct.texts, object)).tolist()
            reasons = find_contradictions(texts, self.style)
            others = f"numbers{self.style}" if str(self.style) else "plain numbers"
            for reason in filter(None, dict.fromkeys(reasons)):
                wrong = np.array([each == reason for each in reasons]) & ~distinct.missing
                message = f"{{value}} {reason}, and the others are {others}"
                found.append((wrong, message, "write all numbers of the column alike"))
        is_finite = np.isfinite(distinct.read_numbers(self.style))
        remedy = "write a number such as 1234.5, or leave the cell empty"
        return [*found, (~is_finite & ~distinct.missing, "{value} is not a finite number", remedy)]


def _measure(numbers: Floats, counts: Counts) -> tuple[float, float]:
    """Return mean and standard deviation, computed without overflow; 1 if all are the same."""
    largest = float(abs(numbers).max(initial=0.0)) or 1.0
    scaled, shares = numbers / largest, counts / max(counts.sum(), 1)
    mean = float((scaled * shares).sum())
    deviation = float(np.sqrt(((scaled - mean) ** 2 * shares).sum())) * largest
    return mean * largest, deviation if len(numbers) > 1 and deviation > 0.0 else 1.0


def _rank(numbers: Floats, counts: Counts) -> tuple[Floats, Floats]:
    """Return at most ``MAX_KNOTS`` of the distinct, ascending numbers, and their ranks."""
    if len(numbers) == 0:
        return np.zeros(1), np.zeros(1)
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum() - 0.5
    kept = np.arange(len(ranks))
    if len(kept) > MAX_KNOTS:
        steps = np.linspace(ranks[0], ranks[-1], MAX_KNOTS)
        kept = np.unique(np.searchsorted(ranks, steps).clip(max=len(ranks) - 1))
    return numbers[kept], ranks[kept]


def _choose_ranges(numbers: Floats, counts: Counts) -> list[tuple[float, str]]:
    """Return start and name of ranges with about equally many cells.

    A value in more than a quarter of the cells, such as 0, gets a range of its own. The numbers
    below, between and above such values are cut at quantiles, in proportion to their cells. Each
    cut then moves to a round number at most a quarter of a range away. Empty ranges are merged
    with the next range to the left.
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


def _cut(numbers: Floats, counts: Counts, num_ranges: int) -> list[float]:
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
        low, high, quantile = numbers[[near[0] - 1, near[-1], nearest]].tolist()
        costs = _find_round_numbers(low, high, quantile)
        for bound in costs:
            costs[bound] += float(distance[np.searchsorted(numbers, bound)]) * num_ranges
        bounds.append(min(costs, key=lambda bound: costs[bound]))
        first = int(np.searchsorted(numbers, bounds[-1])) + 1
    return bounds


def _find_round_numbers(low: float, high: float, quantile: float) -> dict[float, float]:
    """Return the roundest numbers in ``(low, high]`` and their costs, from 0 to ``SLACK``.

    Round numbers are multiples of 10, 5, 2 and 1 times a power of ten; the larger the step, the
    rounder. Each step gives its multiple nearest to ``quantile``. Without a round number, return
    ``quantile``.
    """
    exponent = math.floor(math.log10(max(abs(low), abs(high)))) + 1
    costs: dict[float, float] = {}
    cost_of_first = 0.0
    for digits, (digit, power, cost) in product(range(18), STEPS):
        step = Decimal(digit).scaleb(exponent - digits + power)
        least, most = math.floor(Decimal(low) / step) + 1, math.floor(Decimal(high) / step)
        number = float(min(max(round(Decimal(quantile) / step), least), most) * step)
        if least > most or not low < number <= high:
            continue
        total = cost + DIGIT_COST * digits
        cost_of_first = cost_of_first if costs else total
        if total - cost_of_first > SLACK:
            break
        costs.setdefault(number, total - cost_of_first)
    return costs or {quantile: 0.0}


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
