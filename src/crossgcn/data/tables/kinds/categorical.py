"""Columns of categories, such as cities and codes, and of flags, such as 0 and 1."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from crossgcn.data.tables.cells import plain_id
from crossgcn.data.tables.kinds.base import (
    MIN_COUNT,
    ColumnEncoder,
    Inference,
    WordEncoder,
    count_words,
)
from crossgcn.data.tables.table import Distinct, Table

MAX_CATEGORIES_OF_NAMES = 20
"""Text with at most this many different values is never taken for names."""

MIN_SHARE_OF_NAMES = 0.9
"""Share of different values in a column of names."""

MIN_SHARE_OF_TEXTS = 0.5
MIN_WORDS_OF_TEXT = 6.0
"""Share of different values in a column of free text, and number of words on average."""


def infer_categorical(distinct: Distinct) -> tuple[str, str]:
    """Take text as categories, but leave out names and free text."""
    values = {text for text, _ in distinct.present}
    num_values, num_cells = len(values), distinct.num_present
    texts = f"{num_values:,} different texts in {num_cells:,} cells"
    is_many = num_values > MAX_CATEGORIES_OF_NAMES
    if num_values == num_cells >= 5 or (is_many and num_values > MIN_SHARE_OF_NAMES * num_cells):
        return "ignored", f"{texts}, as names are"
    num_words = sum(len(value.split()) for value in values) / num_values
    are_texts = is_many and num_values > MIN_SHARE_OF_TEXTS * num_cells
    if are_texts and num_words >= MIN_WORDS_OF_TEXT:
        return "ignored", f"{texts} of {num_words:.0f} words on average: free text"
    return "categorical", f"{num_values:,} different values"


class CategoryEncoder(WordEncoder):
    """One feature per category of several cells: ``gender=female``.

    Attributes:
        has_missing: Whether missing values have a feature; otherwise they count as ``(other)``.
    """

    kind: Literal["categorical"] = "categorical"
    has_missing: bool

    @classmethod
    def fit(cls, column: str, distinct: Distinct, min_count: int = MIN_COUNT) -> CategoryEncoder:
        """Give each category of at least ``min_count`` cells a feature."""
        counts = count_words([([cell], count) for cell, count in distinct.present])
        return cls(
            column=column,
            words=tuple(word for word in counts if counts[word] >= min_count),
            rare=tuple(sorted(word for word in counts if counts[word] < min_count)),
            has_missing=bool(distinct.missing.any()),
        )

    @property
    def feature_names(self) -> list[str]:
        """The categories, then ``(other)``, then ``(missing)``."""
        words = (*self.words, "(other)", *["(missing)"] * self.has_missing)
        return [f"{self.column}={word}" for word in words]

    def split(self, cell: str) -> list[str]:
        """Return the category as the only word."""
        return [cell]

    @property
    def missing(self) -> list[int]:
        """``(missing)``, or ``(other)`` if no value was missing in training."""
        return [len(self.words) + self.has_missing]


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
