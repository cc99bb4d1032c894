"""Columns of dates: year, month and weekday as categories, and a number of days."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from crossgcn.data.tables.kinds.base import MIN_SHARE_OF_KIND, ColumnEncoder, Inference, Wrong
from crossgcn.data.tables.kinds.numeric import NumberEncoder
from crossgcn.data.tables.kinds.words import WordEncoder
from crossgcn.data.tables.table import Distinct

DATE_FORMATS = (
    *("%Y-%m-%d", "%Y-%m", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%m.%d.%Y"),
    *("%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%b %d %Y", "%B %d %Y", "%b %d, %Y", "%B %d, %Y"),
)
"""Formats of dates; of those that fit equally many cells, the first is taken."""

_MAY_BE_DATE = re.compile(
    r"(\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{4}"
    r"|[A-Za-z]{3,9} \d{1,2},? \d{4})(?:[T ]\d{1,2}:\d{2}.*)?"
)


def parse_dates(texts: Sequence[str], format_: str) -> pd.Series[pd.Timestamp]:
    """Parse the date in each cell, without the time of day; NaT where there is none."""
    found = [_MAY_BE_DATE.fullmatch(text) for text in texts]
    days = pd.Series([match and match[1] for match in found], dtype="str")
    return pd.to_datetime(days, format=format_, errors="coerce")


def find_date_formats(texts: Sequence[str]) -> tuple[list[str], int]:
    """Return the formats that fit most texts, and how many they fit."""
    likely = [text for text in texts if _MAY_BE_DATE.fullmatch(text)]
    if not likely:
        return list(DATE_FORMATS), 0
    fits = {each: int(parse_dates(likely, each).notna().sum()) for each in DATE_FORMATS}
    most = max(fits.values())
    return [each for each in fits if fits[each] == most], most


def infer_date(distinct: Distinct) -> Inference:
    """Infer dates in a common format."""
    values = distinct.texts_present
    formats, num_dates = find_date_formats(list(values))
    if num_dates < MIN_SHARE_OF_KIND * len(values):
        return None
    others = f", though {' or '.join(formats[1:])} fits as well" if len(formats) > 1 else ""
    return "date", f"{len(values):,} different dates, written {formats[0]}{others}"


class DateEncoder(ColumnEncoder):
    """Categories ``joined year=2024``, ``joined month=5`` and ``joined weekday=Mon``, and a number.

    The number ``joined days`` counts the days since the earliest date of the training table.

    Attributes:
        written: Format of the dates in training.
        parts: The encoders of year, month, weekday and days.
    """

    kind: Literal["date"] = "date"
    written: str
    earliest: str
    parts: tuple[WordEncoder, WordEncoder, WordEncoder, NumberEncoder]

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> DateEncoder:
        """Fit an encoder to each part of the dates."""
        written = find_date_formats(list(distinct.texts_present))[0][0]
        dates = parse_dates(distinct.texts, written)
        earliest = "1970-01-01" if dates.isna().all() else str(dates.min().date())
        parts = _split_dates(dates, earliest)
        year, month, weekday, days = (Distinct.of(part.iloc[distinct.codes]) for part in parts)
        encoders = (
            WordEncoder.fit(f"{column} year", year),
            WordEncoder.fit(f"{column} month", month),
            WordEncoder.fit(f"{column} weekday", weekday),
            NumberEncoder.fit(f"{column} days", days),
        )
        return cls(column=column, written=written, earliest=earliest, parts=encoders)

    @property
    def feature_names(self) -> list[str]:
        """The features of each part."""
        return [name for part in self.parts for name in part.feature_names]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each date."""
        dates = parse_dates(distinct.texts, self.written)
        parts = map(Distinct.of, _split_dates(dates, self.earliest))
        pairs = zip(self.parts, parts, strict=True)
        blocks = [encoder.encode_values(part)[part.codes] for encoder, part in pairs]
        return sparse.csr_array(sparse.hstack(blocks))

    def read_back(self, x: NDArray[np.float32]) -> Distinct:
        """Return the dates that features encode."""
        days = self.parts[-1].read_back(x[:, -len(self.parts[-1].feature_names) :])
        dates = pd.Series(pd.Timestamp(self.earliest) + pd.to_timedelta(days, unit="D"))
        return Distinct.of(dates.dt.strftime(self.written).fillna(""))

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The number of days."""
        return self.parts[-1].number_columns

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the values that do not have the date format of training."""
        wrong = parse_dates(distinct.texts, self.written).isna().to_numpy() & ~distinct.missing
        example = pd.Timestamp("2024-05-17").strftime(self.written)
        message = f"{{value}} is not a date written {self.written} as others are, such as {example}"
        remedy = "write all dates alike, or leave the cell empty"
        return [(wrong, message, remedy)]


def _split_dates(dates: pd.Series[pd.Timestamp], earliest: str) -> list[pd.Series[str]]:
    """Return year, month, weekday and days since the earliest of each date, as text."""
    days = (dates - pd.Timestamp(earliest)).dt.days
    numbers = [each.astype("Int64").astype("str") for each in (dates.dt.year, dates.dt.month, days)]
    year, month, since = numbers
    return [part.fillna("") for part in (year, month, dates.dt.day_name().str[:3], since)]
