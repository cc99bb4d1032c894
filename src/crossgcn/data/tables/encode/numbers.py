"""Numbers as features: the range each falls into, and the number itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from scipy import sparse

from crossgcn.data.tables.encode.categories import EncodedColumn, one_hot, refuse_values
from crossgcn.data.tables.table import Distinct, Table

SLACK = 0.25
"""How far a bound may lie from its quantile, as a share of a bucket."""

STEPS = ((1, 0, 0.0), (5, -1, 0.05), (2, -1, 0.25))
"""Digit, power of ten and cost of the steps that nice numbers are multiples of.

The cost is how much further from its quantile, as a share of a bucket, a bound may lie to be a
multiple of 10 rather than of 5 only, or of 5 rather than of 2 only.
"""

DIGIT_COST = 0.3
"""What another digit costs."""


class NumberBuckets(BaseModel):
    """A partition of all numbers: ranges, and single values held by very many cells.

    The places on the line are numbered from the left: ``2i`` is the range before bound ``i``,
    which the bound before it belongs to unless it stands alone; ``2i + 1`` is bound ``i``
    alone. A number at a place without a bucket counts for the next bucket to its left, or
    for the first.

    Attributes:
        bounds: Where a range begins, ascending.
        alone: The bounds that have a bucket to themselves.
        places: Those that have a bucket, ascending: the places where numbers were seen.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bounds: tuple[FiniteFloat, ...]
    alone: tuple[FiniteFloat, ...]
    places: tuple[int, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        for numbers in (self.bounds, self.places):
            if any(first >= second for first, second in itertools.pairwise(numbers)):
                raise ValueError(f"{list(numbers)} does not ascend")
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
        """Choose buckets that hold about equally many cells.

        A value that more than one in ``num_buckets`` cells hold, such as a heap of zeros,
        has a bucket of its own. What lies below, between and above such values is cut at
        quantiles, in proportion to the cells it holds; each cut is then moved to a nice number
        nearby, from which at most a quarter of a bucket's cells separate it.

        Args:
            numbers: The different values, finite and ascending; there may be none.
            counts: How many cells hold each.
            num_buckets: How many buckets to aim for.
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
        """Which bucket each number falls into.

        Args:
            numbers: Finite.
        """
        places = _find_places(numbers, np.array(self.bounds), np.array(self.alone))
        return np.maximum(np.searchsorted(np.array(self.places), places, side="right") - 1, 0)

    def list_names(self) -> list[str]:
        """What follows the column's name for each bucket: ``<20``, ``=[20, 25)``, ``≥25``."""
        return [self._name(place) for place in self.places]

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


def list_nice_numbers(low: float, high: float, wish: float) -> Iterator[tuple[float, float]]:
    """Numbers above ``low`` and up to ``high``, the nicest first, and what each costs.

    Nice are the multiples of 10, 5, 2 and 1 times a power of ten, and the larger the nicer. Of
    each that has multiples in the range, the one nearest to the wish is given. The first is
    free.

    Args:
        low: Below the range, which this bound does not belong to.
        high: The end of the range.
        wish: A number in it.
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
            nice = float(min(max(round(Decimal(wish) / step), first), last) * step)
            if low < nice <= high:
                total = cost + DIGIT_COST * digits
                free = total if free is None else free
                yield nice, total - free
    if free is None:
        yield wish, 0.0


def _cut(numbers: NDArray[np.float64], counts: NDArray[np.int64], wanted: int) -> list[float]:
    """Nice bounds between ``wanted`` parts of about the same number of cells."""
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
        for nice, cost in list_nice_numbers(low, high, wish):
            if cost > SLACK:
                break
            away = float(distance[np.searchsorted(numbers, nice)]) * wanted
            costs.setdefault(nice, cost + away)
        bounds.append(min(costs, key=lambda nice: costs[nice]))
        first = int(np.searchsorted(numbers, bounds[-1])) + 1
    return bounds


def _find_places(
    numbers: NDArray[np.float64], bounds: NDArray[np.float64], alone: NDArray[np.float64]
) -> NDArray[np.int64]:
    return 2 * np.searchsorted(bounds, numbers, side="right") - np.isin(numbers, alone)


def _write(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


MOST_DEVIATIONS = 5.0
"""Beyond so many standard deviations from the mean a number counts as that far off."""


class EncodedNumber(EncodedColumn):
    """A feature per bucket, ``age=[20, 25)``, for crosses; and ``age`` itself, standardised.

    Attributes:
        buckets: The ranges.
        mean: Of the cells fitted to.
        deviation: Their standard deviation; 1 where they are all the same.
        has_missing: Whether a cell without a number has a feature, because there were such.
            Otherwise it falls into no bucket. Either way it counts as the mean.
    """

    kind: Literal["numeric"] = "numeric"
    buckets: NumberBuckets
    mean: FiniteFloat
    deviation: Annotated[FiniteFloat, Field(gt=0)]
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct, *, num_buckets: int) -> EncodedNumber:
        """Choose the buckets, and measure mean and deviation.

        Infinities and text that is no number count as missing.

        Args:
            column: The header.
            distinct: The column's values.
            num_buckets: How many buckets to aim for.
        """
        is_finite = np.isfinite(distinct.numbers)
        # Adding zero makes -0 and 0 the same to the last bit.
        numbers, where = np.unique(distinct.numbers[is_finite] + 0.0, return_inverse=True)
        counts = np.bincount(where, distinct.counts[is_finite], len(numbers)).astype(np.int64)
        mean, deviation = _measure(numbers, counts)
        return cls(
            column=column,
            buckets=NumberBuckets.fit(numbers, counts, num_buckets),
            mean=mean,
            deviation=deviation,
            has_missing=not is_finite.all(),
        )

    @property
    def feature_names(self) -> list[str]:
        """The buckets, then its being missing, then the number itself."""
        missing = ["=(missing)"] if self.has_missing else []
        return [f"{self.column}{end}" for end in (*self.buckets.list_names(), *missing, "")]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """A one at the bucket of each value, and the standardised value."""
        is_finite = np.isfinite(distinct.numbers)
        numbers = np.where(is_finite, distinct.numbers, self.mean)
        num_buckets = len(self.buckets.places)
        missing = num_buckets if self.has_missing else -1
        features = np.where(is_finite, self.buckets.find(numbers), missing)
        with np.errstate(over="ignore"):
            standard = (numbers - self.mean) / self.deviation
        standard = np.clip(standard, -MOST_DEVIATIONS, MOST_DEVIATIONS).astype(np.float32)
        ranges = one_hot(features, num_buckets + self.has_missing)
        return sparse.csr_array(sparse.hstack([ranges, sparse.csr_array(standard[:, None])]))

    def encode(self, nodes: Table) -> sparse.csr_array:
        """The features of each cell.

        Raises:
            BadInput: A cell is neither empty nor a number.
        """
        distinct = nodes.distinct(self.column)
        refuse_values(
            nodes,
            self.column,
            np.isnan(distinct.numbers) & ~distinct.missing,
            "number",
            "write a number with a point for decimals, or leave the cell empty",
        )
        return super().encode(nodes)


def _measure(numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and standard deviation, of numbers of any size."""
    largest = float(abs(numbers).max(initial=0.0))
    if largest == 0.0:
        return 0.0, 1.0
    scaled = numbers / largest
    shares = counts / counts.sum()
    mean = float((scaled * shares).sum())
    deviation = float(np.sqrt(((scaled - mean) ** 2 * shares).sum())) * largest
    return mean * largest, deviation if len(numbers) > 1 and deviation > 0.0 else 1.0
