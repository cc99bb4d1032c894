"""Columns of flags, such as 0 and 1: one feature that is 1 where the flag is set."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from crossgcn.data.tables.cells import plain_id
from crossgcn.data.tables.kinds.base import ColumnEncoder, Inference
from crossgcn.data.tables.table import Distinct, Table

FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "y", "t"), True),
    **dict.fromkeys(("0", "false", "no", "n", "f"), False),
}
"""What a column of flags may hold, in lower case."""

FLAG_WORDS = frozenset({"0", "1", "false", "true", "0.0", "1.0"})
"""What makes a column one of flags, in lower case; yes and no are categories."""


def infer_flag(distinct: Distinct) -> Inference:
    """Take columns of 0 and 1, or of true and false, as flags."""
    values = {text for text, _ in distinct.present}
    if len(values) > 2 or not {value.lower() for value in values} <= FLAG_WORDS:
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
        is_set = np.array(
            [FLAGS.get(plain_id(text.lower()), False) for text in distinct.texts], bool
        )
        features = np.stack([is_set & ~distinct.missing, distinct.missing], axis=1)
        return sparse.csr_array(features[:, : 1 + self.has_missing].astype(np.float32))

    def refuse_cells(self, nodes: Table) -> None:
        """Refuse words that are no flag."""
        distinct = nodes.distinct(self.column)
        is_flag = np.array([plain_id(text.lower()) in FLAGS for text in distinct.texts], bool)
        wrong = ~(is_flag | distinct.missing)[distinct.codes]
        remedy = "write 1 or 0, true or false, yes or no, or leave the cell empty"
        nodes.refuse_cells(self.column, wrong, "{value} is not a flag", remedy)
