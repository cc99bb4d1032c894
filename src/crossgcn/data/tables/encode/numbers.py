"""Encode numbers (the range, the rank and the standardised number) and dates (their parts)."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, FiniteFloat, model_validator
from scipy import sparse

from crossgcn.data.tables.cells import DateOrder, find_date_order, parse_date
from crossgcn.data.tables.cells import Decimal as DecimalSign
from crossgcn.data.tables.encode.words import CategoryEncoder, ColumnEncoder, one_hot
from crossgcn.data.tables.plan import SavedModel
from crossgcn.data.tables.table import Distinct, Mask

NUM_BUCKETS = 4
"""About how many ranges a column of numbers is cut into."""

SLACK = 0.25
"""Greatest distance of a bound from its quantile, as a share of a bucket."""

STEPS = ((1, 0, 0.0), (5, -1, 0.05), (2, -1, 0.25))
"""Digit, power of ten and cost of the steps whose multiples are round numbers.

Costs are distances from the quantile, as shares of a bucket: a bound may move that much further
to be a multiple of 10 instead of 5, or of 5 instead of 2.
"""

DIGIT_COST = 0.3
"""Cost of one more digit."""


def _check_ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    if any(first >= second for first, second in itertools.pairwise(values)):
        raise ValueError(f"{list(values)} does not ascend")
    return values


Ascending = Annotated[tuple[FiniteFloat, ...], AfterValidator(_check_ascending)]


class NumberBuckets(SavedModel):
    """A partition of all numbers into ranges and frequent single values.

    Places are numbered from the left: ``2i`` is the range between bounds ``i - 1`` and ``i``,
    which includes the lower bound unless that is a place of its own; ``2i + 1`` is bound ``i``
    alone. A number at a place without a bucket belongs to the next bucket to its left, or to
    the first bucket.

    Attributes:
        bounds: Lower ends of ranges, ascending.
        alone: The bounds with a bucket of their own.
        places: Places with a bucket, ascending: those with numbers in the training table.
    """

    bounds: Ascending
    alone: tuple[FiniteFloat, ...]
    places: Annotated[tuple[int, ...], AfterValidator(_check_ascending)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not set(self.alone) <= set(self.bounds):
            raise ValueError(f"alone {list(self.alone)} are not all bounds")
        odd = {2 * self.bounds.index(value) + 1 for value in self.alone}
        allowed = {*range(0, 2 * len(self.bounds) + 1, 2), *odd}
        if not self.places or not set(self.places) <= allowed:
            raise ValueError(f"places {list(self.places)} do not fit the bounds")
        return self

    @classmethod
    def fit(
        cls, numbers: NDArray[np.float64], counts: NDArray[np.int64], num_buckets: int
    ) -> NumberBuckets:
        """Choose buckets with about equally many cells.

        A value in more than one of ``num_buckets`` cells, such as 0, gets a bucket of its own.
        The numbers below, between and above such values are cut at quantiles, into parts in
        proportion to their cells. Each cut then moves to a round number at most a quarter of a
        bucket away. ``numbers`` are the different values, finite and ascending.
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
        places = _find_places(numbers, np.array(sorted(bounds)), alone)
        return cls(
            bounds=tuple(sorted(bounds)),
            alone=tuple(alone.tolist()),
            places=tuple(np.unique(places).tolist()) or (0,),
        )

    def find(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bucket of each finite number."""
        places = _find_places(numbers, np.array(self.bounds), np.array(self.alone))
        return np.maximum(np.searchsorted(np.array(self.places), places, side="right") - 1, 0)

    def list_names(self) -> list[str]:
        """Return the ending of each bucket's feature name: ``<20``, ``=[20, 25)``, ``≥25``."""
        return list(map(self._name, self.places))

    def _name(self, place: int) -> str:
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


def _find_places(
    numbers: NDArray[np.float64], bounds: NDArray[np.float64], alone: NDArray[np.float64]
) -> NDArray[np.int64]:
    return 2 * np.searchsorted(bounds, numbers, side="right") - np.isin(numbers, alone)


def _write(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


MAX_DEVIATIONS = 5.0
"""Standardised numbers are clipped to this distance from the mean."""


MAX_KNOTS = 201
"""Numbers of which the rank is kept; ranks between them are interpolated."""


class NumberRanks(SavedModel):
    """Ranks between -0.5, of small numbers, and 0.5; unknown numbers are interpolated.

    Attributes:
        numbers: Ascending.
        ranks: Of the numbers; the same number in many cells has the middle of their ranks.
    """

    numbers: Ascending
    ranks: Ascending

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.numbers) != len(self.ranks) or not self.numbers:
            raise ValueError(f"{len(self.numbers)} numbers have {len(self.ranks)} ranks")
        return self

    @classmethod
    def fit(cls, numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> NumberRanks:
        """Rank different numbers, finite and ascending, in so many cells each."""
        if len(numbers) == 0:
            return cls(numbers=(0.0,), ranks=(0.0,))
        ranks = (np.cumsum(counts) - counts / 2) / counts.sum() - 0.5
        steps = np.linspace(ranks[0], ranks[-1], MAX_KNOTS)
        kept = np.arange(len(ranks))
        if len(kept) > MAX_KNOTS:
            kept = np.unique(np.searchsorted(ranks, steps).clip(max=len(ranks) - 1))
        return cls(numbers=tuple(numbers[kept].tolist()), ranks=tuple(ranks[kept].tolist()))

    def find(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rank of each finite number."""
        known = np.array(self.numbers)
        with np.errstate(all="ignore"):
            # The distance of two floats may be more than a float can hold.
            unit = 1.0 if np.isfinite(known[-1] - known[0]) else 2.0
            ranks = np.interp(numbers / unit, known / unit, np.array(self.ranks))
        return np.asarray(np.nan_to_num(ranks).clip(-0.5, 0.5))


class NumberEncoder(ColumnEncoder):
    """One feature per bucket, ``age=[20, 25)``, then ``age rank``, and ``age`` standardised.

    Attributes:
        decimal: The decimal sign of the column.
        deviation: The standard deviation; 1 where all numbers are the same.
        has_missing: Whether missing values have a feature; otherwise they are in no bucket.
            Standardised, they count as the mean; their rank is 0.
    """

    refusal = (
        "{value} is not a number",
        "write the number as in the table trained on, or leave the cell empty",
    )
    kind: Literal["numeric"] = "numeric"
    decimal: DecimalSign = "."
    buckets: NumberBuckets
    ranks: NumberRanks
    mean: FiniteFloat
    deviation: Annotated[FiniteFloat, Field(gt=0)]
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> NumberEncoder:
        """Choose the buckets and measure mean and deviation.

        Infinities and text that is not a number count as missing.
        """
        is_finite = np.isfinite(distinct.numbers)
        # Adding zero makes -0 and 0 the same to the last bit.
        numbers, where = np.unique(distinct.numbers[is_finite] + 0.0, return_inverse=True)
        counts = np.bincount(where, distinct.counts[is_finite], len(numbers)).astype(np.int64)
        mean, deviation = _measure(numbers, counts)
        return cls(
            column=column,
            decimal=distinct.decimal,
            buckets=NumberBuckets.fit(numbers, counts, NUM_BUCKETS),
            ranks=NumberRanks.fit(numbers, counts),
            mean=mean,
            deviation=deviation,
            has_missing=not is_finite.all(),
        )

    @property
    def feature_names(self) -> list[str]:
        """The buckets, then ``(missing)``, then the rank and the number itself."""
        missing = ["=(missing)"] if self.has_missing else []
        ends = (*self.buckets.list_names(), *missing, " rank", "")
        return [f"{self.column}{end}" for end in ends]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one at the bucket of each value, its rank and the standardised value."""
        read = distinct.read_numbers(self.decimal)
        is_finite = np.isfinite(read)
        numbers = np.where(is_finite, read, self.mean)
        num_buckets = len(self.buckets.places)
        missing = num_buckets if self.has_missing else -1
        features = np.where(is_finite, self.buckets.find(numbers), missing)
        with np.errstate(over="ignore"):
            standard = (numbers - self.mean) / self.deviation
        standard = np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        ranks = np.where(is_finite, self.ranks.find(numbers), 0.0)
        ranges = one_hot(features, num_buckets + self.has_missing)
        measures = sparse.csr_array(np.stack([ranks, standard], axis=1).astype(np.float32))
        return sparse.csr_array(sparse.hstack([ranges, measures]))

    def find_wrong(self, distinct: Distinct) -> Mask:
        """Return which values are not numbers."""
        return np.isnan(distinct.read_numbers(self.decimal)) & ~distinct.missing


def _measure(numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return mean and standard deviation without overflow."""
    largest = float(abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return 0.0, 1.0
    scaled = numbers / largest
    shares = counts / counts.sum()
    mean = float((scaled * shares).sum())
    deviation = float(np.sqrt(((scaled - mean) ** 2 * shares).sum())) * largest
    return mean * largest, deviation if len(numbers) > 1 and deviation > 0.0 else 1.0


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class DateEncoder(ColumnEncoder):
    """Categories ``joined year=2024``, ``joined month=5`` and ``joined weekday=Mon``, and a number.

    The number ``joined days`` counts the days since the earliest date of the training table.
    """

    refusal = ("{value} is not a date", "write it as 2024-05-17, or leave the cell empty")
    kind: Literal["date"] = "date"
    order: DateOrder
    earliest: datetime.date
    year: CategoryEncoder
    month: CategoryEncoder
    weekday: CategoryEncoder
    days: NumberEncoder

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> DateEncoder:
        """Fit an encoder to each part of the dates."""
        order = find_date_order(distinct.texts)
        known = [date for date in _read(distinct, order) if date is not None]
        earliest = min(known, default=datetime.date(1970, 1, 1))
        year, month, weekday, days = _parts(distinct, order, earliest, of_cells=True)
        return cls(
            column=column,
            order=order,
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
        parts = zip(self.parts, _parts(distinct, self.order, self.earliest), strict=True)
        blocks = [part.encode_values(values)[values.codes] for part, values in parts]
        return sparse.csr_array(sparse.hstack(blocks))

    def find_wrong(self, distinct: Distinct) -> Mask:
        """Return which values are not dates."""
        is_none = np.array([date is None for date in _read(distinct, self.order)], bool)
        return is_none & ~distinct.missing


def _read(distinct: Distinct, order: DateOrder) -> list[datetime.date | None]:
    return [parse_date(text, order) for text in distinct.texts]


def _parts(
    distinct: Distinct, order: DateOrder, earliest: datetime.date, *, of_cells: bool = False
) -> list[Distinct]:
    """Return year, month, weekday and days since the earliest of each value, or of each cell."""
    rows = [
        ("", "", "", "")
        if day is None
        else (str(day.year), str(day.month), WEEKDAYS[day.weekday()], str((day - earliest).days))
        for day in _read(distinct, order)
    ]
    frame = pd.DataFrame(rows, columns=["year", "month", "weekday", "days"], dtype="str")
    if of_cells:
        frame = frame.iloc[distinct.codes]
    return [Distinct.of(frame[part]) for part in frame.columns]
