"""Columns of flags: 0 and 1, or false and true."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from crossgcn.data.tables.kinds.base import ColumnEncoder, Inference, Wrong
from crossgcn.data.tables.table import Distinct

NOT_SET, SET = ("0", "0.0", "false"), ("1", "1.0", "true")
"""What a column of flags holds, in lower case; yes and no are categories."""


def infer_flag(distinct: Distinct) -> Inference:
    """Take columns of 0 and 1, or of true and false, as flags."""
    values = distinct.texts_present
    if len(values) > 2 or not {value.lower() for value in values} <= {*NOT_SET, *SET}:
        return None
    return "flag", "only " + " and ".join(sorted(values))


class FlagEncoder(ColumnEncoder):
    """One feature, ``member``.

    Attributes:
        has_missing: Whether missing values have a feature; otherwise they count as false.
    """

    kind: Literal["flag"] = "flag"
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> FlagEncoder:
        """Give missing values a feature if there are some."""
        return cls(column=column, has_missing=bool(distinct.missing.any()))

    @property
    def feature_names(self) -> list[str]:
        """The flag, then ``(missing)``."""
        return [self.column, *[f"{self.column}=(missing)"] * self.has_missing]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one where the flag is set."""
        features = np.stack([distinct.is_one_of(set(SET)), distinct.missing], axis=1)
        return sparse.csr_array(features[:, : 1 + self.has_missing].astype(np.float32))

    def find_wrong(self, distinct: Distinct) -> list[Wrong]:
        """Return the words that are no flag."""
        is_flag = distinct.missing | distinct.is_one_of({*NOT_SET, *SET})
        remedy = "write 1 or 0, true or false, or leave the cell empty"
        return [(~is_flag, "{value} is not a flag", remedy)]
