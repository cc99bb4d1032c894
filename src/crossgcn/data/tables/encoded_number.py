"""Numbers as features: the range each falls into, and the number itself."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat
from scipy import sparse

from crossgcn.data.tables.distinct import Distinct
from crossgcn.data.tables.encoded_column import EncodedColumn, one_hot, refuse_values
from crossgcn.data.tables.number_buckets import NumberBuckets
from crossgcn.data.tables.table import Table

__all__ = ["EncodedNumber"]

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
