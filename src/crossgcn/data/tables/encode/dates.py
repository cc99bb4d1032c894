"""Encode dates: year, month, weekday, and the days since the earliest."""

from __future__ import annotations

import datetime
from typing import Literal

import numpy as np
import pandas as pd
from scipy import sparse

from crossgcn.data.tables.cells import DateOrder, find_date_order, parse_date
from crossgcn.data.tables.encode.column import ColumnEncoder
from crossgcn.data.tables.encode.numbers import NumberEncoder
from crossgcn.data.tables.encode.words import CategoryEncoder
from crossgcn.data.tables.table import Distinct, Mask

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
    def fit(
        cls, column: str, distinct: Distinct, *, min_count: int, num_buckets: int
    ) -> DateEncoder:
        """Fit an encoder to each part of the dates."""
        order = find_date_order(distinct.texts)
        known = [date for date in _read(distinct, order) if date is not None]
        earliest = min(known, default=datetime.date(1970, 1, 1))
        year, month, weekday, days = _parts(distinct, order, earliest, of_cells=True)
        return cls(
            column=column,
            order=order,
            earliest=earliest,
            year=CategoryEncoder.fit(f"{column} year", year, min_count=min_count),
            month=CategoryEncoder.fit(f"{column} month", month, min_count=min_count),
            weekday=CategoryEncoder.fit(f"{column} weekday", weekday, min_count=min_count),
            days=NumberEncoder.fit(f"{column} days", days, num_buckets=num_buckets),
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
