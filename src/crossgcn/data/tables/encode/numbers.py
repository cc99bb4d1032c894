"""Encode numbers (the range, the rank and the standardised number) and dates (their parts)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat
from scipy import sparse

from crossgcn.data.tables.cells import NumberStyle, find_date_formats, parse_dates
from crossgcn.data.tables.encode.words import CategoryEncoder, ColumnEncoder, Refusals, one_hot
from crossgcn.data.tables.table import Distinct

MAX_DEVIATIONS = 5.0
"""Standardised numbers are clipped to this distance from the mean."""

NUM_BUCKETS = 4
"""About how many ranges a column of numbers is cut into."""

MAX_KNOTS = 201
"""Numbers of which the rank is kept; ranks between them are interpolated."""


class NumberEncoder(ColumnEncoder):
    """One feature per range, ``age=[20, 25)``, then ``age rank``, and ``age`` standardised.

    Ranges and frequent single values are numbered by places from the left: ``2i`` is the range
    between bounds ``i - 1`` and ``i``, which includes the lower bound unless that is a place of
    its own; ``2i + 1`` is bound ``i`` alone. A number at a place without a feature belongs to the
    next one to its left, or to the first.

    Attributes:
        style: How numbers were written in training.
        bounds: Lower ends of ranges, ascending.
        alone: The bounds with a feature of their own, such as 0 where it is frequent.
        places: Places with a feature, ascending: those with numbers in the training table.
        known: Numbers of which the rank is kept, ascending; others are interpolated.
        ranks: Their ranks, from -0.5 to 0.5; equal numbers have the middle of their ranks.
        deviation: The standard deviation; 1 where all numbers are the same.
        has_missing: Whether missing values have a feature; otherwise they are in no range.
            Standardised, they count as the mean; their rank is 0.
    """

    kind: Literal["numeric"] = "numeric"
    style: NumberStyle
    bounds: tuple[FiniteFloat, ...]
    alone: tuple[FiniteFloat, ...]
    places: tuple[int, ...]
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
        bounds, alone = choose_bounds(numbers, counts, NUM_BUCKETS)
        known, ranks = rank_numbers(numbers, counts)
        mean, deviation = measure(numbers, counts)
        return cls(
            column=column,
            style=distinct.style,
            bounds=tuple(bounds.tolist()),
            alone=tuple(alone.tolist()),
            places=tuple(np.unique(_find_places(numbers, bounds, alone)).tolist()) or (0,),
            known=tuple(known.tolist()),
            ranks=tuple(ranks.tolist()),
            mean=mean,
            deviation=deviation,
            has_missing=not is_finite.all(),
        )

    @property
    def feature_names(self) -> list[str]:
        """The ranges, then ``(missing)``, then the rank and the number itself."""
        missing = ["=(missing)"] if self.has_missing else []
        ends = (*map(self._name_place, self.places), *missing, " rank", "")
        return [f"{self.column}{end}" for end in ends]

    def _name_place(self, place: int) -> str:
        """Return the ending of a feature's name: ``<20``, ``=[20, 25)``, ``≥25``, ``=0``."""
        index, is_value = divmod(place, 2)
        if is_value:
            return f"={_write(self.bounds[index])}"
        upper = self.bounds[index] if index < len(self.bounds) else None
        if index == 0:
            return "=(any)" if upper is None else f"<{_write(upper)}"
        lower = self.bounds[index - 1]
        if upper is None:
            return f"{'>' if lower in self.alone else '≥'}{_write(lower)}"
        return f"={'(' if lower in self.alone else '['}{_write(lower)}, {_write(upper)})"

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one at the range of each value, its rank and the standardised value."""
        read = distinct.read_numbers(self.style)
        is_finite = np.isfinite(read)
        numbers = np.where(is_finite, read, self.mean)
        places = _find_places(numbers, np.array(self.bounds), np.array(self.alone))
        ranges = np.searchsorted(np.array(self.places), places, side="right") - 1
        missing = len(self.places) if self.has_missing else -1
        ranges = np.where(is_finite, np.maximum(ranges, 0), missing)
        with np.errstate(over="ignore"):
            standard = (numbers - self.mean) / self.deviation
        standard = np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        ranks = np.where(is_finite, self._rank(numbers), 0.0)
        measures = sparse.csr_array(np.stack([ranks, standard], axis=1).astype(np.float32))
        in_ranges = one_hot(ranges, len(self.places) + self.has_missing)
        return sparse.csr_array(sparse.hstack([in_ranges, measures]))

    def _rank(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.array(self.known)
        with np.errstate(all="ignore"):
            # The distance of two floats may be more than a float can hold.
            unit = 1.0 if np.isfinite(known[-1] - known[0]) else 2.0
            ranks = np.interp(numbers / unit, known / unit, np.array(self.ranks))
        return np.asarray(np.nan_to_num(ranks).clip(-0.5, 0.5))

    def refuse(self, distinct: Distinct) -> Refusals:
        """Return values that are no finite numbers, or written otherwise than in training."""
        numbers = distinct.read_numbers(self.style)
        wrong = np.flatnonzero(~np.isfinite(numbers) & ~distinct.missing).tolist()
        remedy = "write the number as in the table trained on, or leave the cell empty"
        found = {
            at: ("is not a number" if np.isnan(numbers[at]) else "is not a finite number", remedy)
            for at in wrong
        }
        for at, what in distinct.find_contradictions(self.style).items():
            trained = f"numbers{self.style}" if str(self.style) else "plain numbers"
            found[at] = (
                f"{what}, and the model was trained on {trained}",
                "write the column as in the table trained on",
            )
        return found


def _find_places(
    numbers: NDArray[np.float64], bounds: NDArray[np.float64], alone: NDArray[np.float64]
) -> NDArray[np.int64]:
    places = 2 * np.searchsorted(bounds, numbers, side="right") - np.isin(numbers, alone)
    return np.asarray(places)


def _write(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


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


SLACK = 0.25
"""Greatest distance of a bound from its quantile, as a share of a range."""

STEPS = ((1, 0, 0.0), (5, -1, 0.05), (2, -1, 0.25))
"""Digit, power of ten and cost of the steps whose multiples are round numbers.

Costs are distances from the quantile, as shares of a range: a bound may move that much further
to be a multiple of 10 instead of 5, or of 5 instead of 2.
"""

DIGIT_COST = 0.3
"""Cost of one more digit."""


def choose_bounds(
    numbers: NDArray[np.float64], counts: NDArray[np.int64], num_buckets: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return bounds of ranges with about equally many cells, and those that are a range alone.

    A value in more than one of ``num_buckets`` cells, such as 0, gets a range of its own. The
    numbers below, between and above such values are cut at quantiles, into parts in proportion
    to their cells. Each cut then moves to a round number at most a quarter of a range away.

    Args:
        numbers: The different values, finite and ascending.
    """
    total = counts.sum()
    is_alone = counts * num_buckets > total
    alone = numbers[is_alone]
    bounds = set(alone.tolist())
    parts = np.searchsorted(alone, numbers)
    for part in range(len(alone) + 1):
        inside = (parts == part) & ~is_alone
        if inside.any():
            wanted = max(1, round(float(counts[inside].sum() / total) * num_buckets))
            bounds.update(_cut(numbers[inside], counts[inside], wanted))
    return np.array(sorted(bounds)), alone


def _cut(numbers: NDArray[np.float64], counts: NDArray[np.int64], wanted: int) -> list[float]:
    """Return round bounds between ``wanted`` parts with about equally many cells."""
    share_below = (np.cumsum(counts) - counts) / counts.sum()
    bounds: list[float] = []
    first = 1
    for part in range(1, wanted):
        if first == len(numbers):
            break
        distance = abs(share_below - part / wanted)
        distance[:first] = np.inf
        nearest = int(distance.argmin())
        near = np.flatnonzero(distance <= max(SLACK / wanted, distance[nearest]))
        low, high, wish = numbers[[near[0] - 1, near[-1], nearest]].tolist()
        costs: dict[float, float] = {}
        for round_number, cost in list_round_numbers(low, high, wish):
            if cost > SLACK:
                break
            away = float(distance[np.searchsorted(numbers, round_number)]) * wanted
            costs.setdefault(round_number, cost + away)
        bounds.append(min(costs, key=lambda round_number: costs[round_number]))
        first = int(np.searchsorted(numbers, bounds[-1])) + 1
    return bounds


def list_round_numbers(low: float, high: float, wish: float) -> Iterator[tuple[float, float]]:
    """Yield round numbers in ``(low, high]``, the roundest first, and their costs.

    Round numbers are multiples of 10, 5, 2 and 1 times a power of ten; the larger the step, the
    rounder. For each step, the multiple nearest to ``wish`` is yielded. The first costs nothing.
    """
    exponent = math.floor(math.log10(max(abs(low), abs(high)))) + 1
    free = None
    for digits in range(18):
        for digit, shift, cost in STEPS:
            step = Decimal(digit).scaleb(exponent - digits + shift)
            first = math.floor(Decimal(low) / step) + 1
            last = math.floor(Decimal(high) / step)
            if first > last:
                continue
            round_number = float(min(max(round(Decimal(wish) / step), first), last) * step)
            if low < round_number <= high:
                total = cost + DIGIT_COST * digits
                free = total if free is None else free
                yield round_number, total - free
    if free is None:
        yield wish, 0.0


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class DateEncoder(ColumnEncoder):
    """Categories ``joined year=2024``, ``joined month=5`` and ``joined weekday=Mon``, and a number.

    The number ``joined days`` counts the days since the earliest date of the training table.

    Attributes:
        written: The format of the dates in training.
    """

    kind: Literal["date"] = "date"
    written: str
    earliest: str
    year: CategoryEncoder
    month: CategoryEncoder
    weekday: CategoryEncoder
    days: NumberEncoder

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> DateEncoder:
        """Fit an encoder to each part of the dates."""
        formats = find_date_formats([text for text, _ in distinct.present])
        written = formats[0][0] if formats else "%Y-%m-%d"
        earliest = str(parse_dates(distinct.texts, written).min())[:10]
        earliest = "1970-01-01" if earliest == "NaT" else earliest
        parts = _date_parts(distinct, written, earliest)
        year, month, weekday, days = (Distinct.of(part.iloc[distinct.codes]) for part in parts)
        return cls(
            column=column,
            written=written,
            earliest=earliest,
            year=CategoryEncoder.fit(f"{column} year", year),
            month=CategoryEncoder.fit(f"{column} month", month),
            weekday=CategoryEncoder.fit(f"{column} weekday", weekday),
            days=NumberEncoder.fit(f"{column} days", days),
        )

    @property
    def parts(self) -> tuple[ColumnEncoder, ...]:
        """The encoders of the parts."""
        return self.year, self.month, self.weekday, self.days

    @property
    def feature_names(self) -> list[str]:
        """The features of each part."""
        return [name for part in self.parts for name in part.feature_names]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each date."""
        blocks = []
        for part, cells in zip(
            self.parts, _date_parts(distinct, self.written, self.earliest), strict=True
        ):
            values = Distinct.of(cells)
            blocks.append(part.encode_values(values)[values.codes])
        return sparse.csr_array(sparse.hstack(blocks))

    def refuse(self, distinct: Distinct) -> Refusals:
        """Return values that are no dates as in training."""
        is_none = parse_dates(distinct.texts, self.written).isna().to_numpy()
        example = pd.Timestamp("2024-05-17").strftime(self.written)
        wrong = f"is not a date written as in training, such as {example}"
        remedy = "write the column as in the table trained on, or leave the cell empty"
        return dict.fromkeys(np.flatnonzero(is_none & ~distinct.missing).tolist(), (wrong, remedy))


def _date_parts(distinct: Distinct, written: str, earliest: str) -> list[pd.Series[str]]:
    """Return year, month, weekday and days since the earliest of each different value."""
    days = parse_dates(distinct.texts, written)
    since = (days - pd.Timestamp(earliest)).dt.days
    weekdays = days.dt.day_of_week.map(dict(enumerate(WEEKDAYS)))
    parts = (days.dt.year, days.dt.month, weekdays, since)
    return [
        part.astype(object).where(days.notna(), "").map(_as_word).astype("str") for part in parts
    ]


def _as_word(part: object) -> str:
    return str(int(part)) if isinstance(part, float) else str(part)
