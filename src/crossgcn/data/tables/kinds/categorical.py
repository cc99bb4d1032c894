"""Columns of categories, such as cities and codes: one feature per category."""

from __future__ import annotations

from typing import Literal

from crossgcn.data.tables.kinds.base import MIN_COUNT, WordEncoder, count_words
from crossgcn.data.tables.table import Distinct

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
