"""Encode the rows of one table as another table was encoded."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.encode import AnyEncoder, TableEncoder
from crossgcn.data.tables.kinds.date import DateEncoder
from crossgcn.data.tables.kinds.numeric import MAX_DEVIATIONS, NumberEncoder
from crossgcn.data.tables.table import Distinct

_DIGITS = 5
"""Digits of the deviation to which a number is read back from its features."""

Features = NDArray[np.float32]


def recode(x: Features, given: TableEncoder, wanted: TableEncoder) -> Features:
    """Return the features that one encoder has for rows that another one encoded.

    Both must have the same columns. Numbers and dates are read back from their features. A word
    that has no feature in both encodings counts as ``(other)``.
    """
    ends = np.cumsum([len(each.feature_names) for each in given.columns])
    blocks = zip(given.columns, np.split(x, ends[:-1], axis=1), strict=True)
    of_column = {encoder.column: (encoder, block) for encoder, block in blocks}
    return np.hstack([_recode(*of_column[each.column], each) for each in wanted.columns])


def _recode(given: AnyEncoder, x: Features, wanted: AnyEncoder) -> Features:
    """Recode the features of one column."""
    if given == wanted:
        return x
    if isinstance(given, NumberEncoder) and isinstance(wanted, NumberEncoder):
        return wanted.encode_numbers(_read_numbers(given, x))
    if isinstance(given, DateEncoder) and isinstance(wanted, DateEncoder):
        days = _read_numbers(given.parts[-1], x[:, -len(given.parts[-1].feature_names) :])
        dates = pd.Series(pd.Timestamp(given.earliest) + pd.to_timedelta(days, unit="D"))
        cells = Distinct.of(dates.dt.strftime(wanted.written).fillna(""))
        encoded: Features = wanted.encode_values(cells).toarray()[cells.codes]
        return encoded
    place_of = {name: place for place, name in enumerate(wanted.feature_names)}
    others = [place for name, place in place_of.items() if name.endswith("(other)")]
    places = [place_of.get(name, *others[-1:]) for name in given.feature_names]
    shared = np.zeros((x.shape[1], len(place_of)), np.float32)
    for row, place in enumerate(places):
        if place is not None:
            shared[row, place] = 1
    features: Features = np.minimum(x @ shared, 1)
    return features


def _read_numbers(encoder: NumberEncoder, x: Features) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN where they are missing.

    Those that are cut off are read from their ranks.
    """
    ranks, standard = x[:, -2:].astype(np.float64).T
    digits = _DIGITS - math.floor(math.log10(encoder.deviation))
    numbers = np.round(encoder.mean + encoder.deviation * standard, digits)
    by_rank = np.interp(ranks, encoder.ranks, encoder.known)
    numbers = np.where(np.abs(standard) < MAX_DEVIATIONS, numbers, by_rank)
    return np.where(x[:, : len(encoder.ranges)].any(axis=1), numbers, np.nan)
