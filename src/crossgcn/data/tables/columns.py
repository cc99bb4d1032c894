"""What a column looks like: a flag, categories, numbers, lists of words, or nothing of use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import find_separator, parse_number, shorten, split_words
from crossgcn.data.tables.table import Distinct

SEPARATED_SHARE = 0.1
"""Of the cells, at least so many hold more than one word in a column of lists."""

WORD_REPEATS = 3
"""So often a word of a list is repeated, on average, at least."""


def looks_like_lists(present: Sequence[tuple[str, int]]) -> str | None:
    """Why a column is taken for lists of words, or none.

    Enough cells hold several words, and the words repeat far more often than the cells do.
    A comma is in many a text and number, so with commas the lists must differ in length and the
    words must not be digits as well.

    Args:
        present: The different values, each with the number of cells that hold it.
    """
    separator = find_separator([cell for cell, _ in present])
    if separator == " ":
        return None
    words: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for cell, count in present:
        split = split_words(cell, separator)
        lengths[len(split)] += count
        for word in split:
            words[word] += count
    num_cells = lengths.total()
    several = num_cells - lengths[0] - lengths[1]
    if several < SEPARATED_SHARE * num_cells or words.total() < WORD_REPEATS * len(words):
        return None
    if separator == "," and (len(lengths) < 2 or _are_numbers(words)):
        return None
    if len(words) > len(present) and separator != "json":
        return None
    written = "as JSON" if separator == "json" else f"between {separator!r}"
    return f"lists of {len(words):,} words {written}"


def _are_numbers(words: Iterable[str]) -> bool:
    return all(parse_number(word) is not None for word in words)


FeatureKind = Literal["categorical", "flag", "numeric", "list", "ignored"]

FLAG_WORDS = frozenset({"0", "1", "false", "true", "0.0", "1.0"})
"""What the cells of a column that is taken for a flag say, in any case."""

MOST_CODES = 12
"""Whole numbers with at most so many different values are taken as codes."""

FEWEST_DIFFERENT = 20
"""Text with at most so many different values is never taken for names."""

MOSTLY = 0.9
"""The share of cells that makes a column what they are; the others are for the check to report."""

DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
)
CODE = re.compile(r"0\d+")


def look_at(distinct: Distinct) -> tuple[FeatureKind, str]:
    """What a column is best taken for, and why in a few words.

    Args:
        distinct: The column's values.
    """
    present = distinct.present
    if not present:
        return "ignored", "no cell has a value"
    values = {value for value, _ in present}
    if len(values) == 1 and not distinct.missing.any():
        return "ignored", f"always {shorten(next(iter(values)))}"
    if len(values) <= 2 and {value.lower() for value in values} <= FLAG_WORDS:
        return "flag", "only " + " and ".join(sorted(values))
    if len(values) == 1:
        return "categorical", f"{shorten(next(iter(values)))} or nothing"
    return (
        _look_for_numbers(distinct, values)
        or _look_for_text(present, values, distinct.num_present)
        or ("categorical", f"{len(values):,} different values")
    )


def _look_for_numbers(distinct: Distinct, values: set[str]) -> tuple[FeatureKind, str] | None:
    is_number = ~np.isnan(distinct.numbers)
    num_cells = int(distinct.counts[is_number].sum())
    if num_cells < MOSTLY * distinct.num_present:
        return None
    numbers = np.unique(distinct.numbers[is_number])
    all_numbers = num_cells == distinct.num_present
    are_whole = bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())
    if are_whole and any(CODE.fullmatch(value) for value in values):
        return _codes_with_zeros(values, distinct.num_present)
    if are_whole and len(numbers) <= MOST_CODES and 2 * len(numbers) <= num_cells:
        if not all_numbers:
            return "categorical", f"{len(values)} different values, most of them whole numbers"
        return "categorical", f"{len(values)} different whole numbers, taken as codes"
    if not all_numbers and len(numbers) <= MOST_CODES:
        return None
    if are_whole and all_numbers and _counts_the_rows(numbers, distinct):
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / distinct.num_present:.1%} numbers"
    return "numeric", f"{share} from {numbers[0]:g} to {numbers[-1]:g}"


def _codes_with_zeros(values: set[str], num_cells: int) -> tuple[FeatureKind, str]:
    if _are_names(len(values), num_cells):
        return "ignored", f"digits with leading zeros, {len(values):,} in {num_cells:,} cells"
    return "categorical", f"{len(values):,} different codes with leading zeros"


def _counts_the_rows(numbers: NDArray[np.float64], distinct: Distinct) -> bool:
    num_rows = len(distinct.codes)
    return bool(
        num_rows > MOST_CODES
        and numbers[0] in (0, 1)
        and len(numbers) == num_rows
        and numbers[-1] - numbers[0] == num_rows - 1
    )


def _look_for_text(
    present: list[tuple[str, int]], values: set[str], num_cells: int
) -> tuple[FeatureKind, str] | None:
    num_dates = sum(count for value, count in present if DATE.fullmatch(value))
    if num_dates >= MOSTLY * num_cells:
        return "ignored", "dates; write days since one as a number to use it"
    if reason := looks_like_lists(present):
        return "list", reason
    if _are_names(len(values), num_cells):
        return "ignored", f"{len(values):,} different texts in {num_cells:,} cells, as names are"
    return None


def _are_names(num_different: int, num_cells: int) -> bool:
    if num_different == num_cells:
        return num_cells >= 5
    return num_different > FEWEST_DIFFERENT and 2 * num_different > num_cells
