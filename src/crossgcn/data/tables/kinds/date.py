"""Columns of dates: year, month and weekday as categories, and a number of days."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import pandas as pd
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
"""How dates may be written; of formats that fit as many cells, the first is taken."""

_MAY_BE_DATE = re.compile(
    r"(?P<day>\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{4}"
    r"|[A-Za-z]{3,9} \d{1,2},? \d{4})(?:[T ]\d{1,2}:\d{2}.*)?"
)


def parse_dates(texts: Sequence[str], format_: str) -> pd.Series[pd.Timestamp]:
    """Return the day in each cell, NaT where there is none; the time of day is left out."""
    found = [_MAY_BE_DATE.fullmatch(text) for text in texts]
    days = pd.Series([match["day"] if match else None for match in found], dtype="str")
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
    """Infer dates that are written alike."""
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
        written: The format of the dates in training.
        parts: The encoders of year, month, weekday and days.
    """

    kind: Literal["date"] = "date"
    written: str
    earliest: str
    parts: tuple[WordEncoder, WordEncoder, WordEncoder, NumberEncoder]

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> DateEncoder:
        """Fit an encoder to each part of the dates."""
        written = find_date_formats([text for text, _ in distinct.present])[0][0]
        earliest = str(parse_dates(distinct.texts, written).min())[:10]
        earliest = "1970-01-01" if earliest == "NaT" else earliest
        parts = _split_dates(distinct, written, earliest)
        year, month, weekday, days = (Distinct.of(part.iloc[distinct.codes]) for part in parts)
        encoders = (
            WordEncoder.fit_categories(f"{column} year", year),
            WordEncoder.fit_categories(f"{column} month", month),
            WordEncoder.fit_categories(f"{column} weekday", weekday),
            NumberEncoder.fit(f"{column} days", days),
        )
        return cls(column=column, written=written, earliest=earliest, parts=encoders)

    @property
    def feature_names(self) -> list[str]:
        """The features of each part."""
        return [name for part in self.parts for name in part.feature_names]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return the features of each date."""
        parts = map(Distinct.of, _split_dates(distinct, self.written, self.earliest))
        blocks = [
            encoder.encode_values(part)[part.codes]
            for encoder, part in zip(self.parts, parts, strict=True)
        ]
        return sparse.csr_array(sparse.hstack(blocks))

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the values that are no dates in the format of the others."""
        wrong = parse_dates(distinct.texts, self.written).isna().to_numpy() & ~distinct.missing
        example = pd.Timestamp("2024-05-17").strftime(self.written)
        message = f"{{value}} is not a date written {self.written} as others are, such as {example}"
        remedy = "write all dates alike, or leave the cell empty"
        return [(wrong, message, remedy)]


def _split_dates(distinct: Distinct, written: str, earliest: str) -> list[pd.Series[str]]:
    """Return year, month, weekday and days since the earliest of each different value."""
    dates = parse_dates(distinct.texts, written)
    days = (dates - pd.Timestamp(earliest)).dt.days
    year, month, since = (
        part.astype("Int64").astype("str") for part in (dates.dt.year, dates.dt.month, days)
    )
    return [part.fillna("") for part in (year, month, dates.dt.day_name().str[:3], since)]
