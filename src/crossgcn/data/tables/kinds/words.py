"""Columns of words: flags, categories such as cities and codes, and lists such as tags."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Literal

import numpy as np
from scipy import sparse

from crossgcn.data.tables.cells import parse_numbers, plain_id
from crossgcn.data.tables.kinds.base import ColumnEncoder, Inference, Unseen, Wrong
from crossgcn.data.tables.table import Distinct

NOT_SET, SET = ("0", "0.0", "false"), ("1", "1.0", "true")
"""Values of flags, in lower case; yes and no are categories."""

MAX_CATEGORIES_OF_NAMES = 20  # columns with at most so many distinct texts are never names
MIN_SHARE_OF_NAMES = 0.9  # share of distinct texts in a column of names
MIN_SHARE_OF_TEXTS = 0.5  # share of distinct texts in a column of free text
MIN_WORDS_OF_TEXT = 6.0  # mean number of words in a cell of free text
MIN_SHARE_OF_LISTS = 0.1  # share of cells with several words in a column of lists
MIN_WORD_REPEATS = 3  # mean number of cells per word of a column of lists
MIN_COUNT = 2  # words in fewer cells share the feature ``(other)``
MAX_WORDS = 5_000  # the most words of a column of lists that get a feature

Separator = Literal["json", ";", "|", ",", " "]


def infer_flag(distinct: Distinct) -> Inference:
    """Infer flags: columns of 0 and 1, or of true and false."""
    values = distinct.texts_present
    if len(values) > 2 or not {value.lower() for value in values} <= {*NOT_SET, *SET}:
        return None
    return "flag", "only " + " and ".join(sorted(values))


def infer_categorical(distinct: Distinct) -> tuple[str, str]:
    """Infer categories; names and free text are ignored."""
    values = distinct.texts_present
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


def infer_list(distinct: Distinct) -> Inference:
    """Infer lists of words.

    Enough cells hold several words, and words repeat far more often than cells do. Commas are
    common in text and numbers, so lists with commas must also differ in length and hold words
    that are not numbers.
    """
    cells = distinct.texts_present
    separator = find_separator(cells)
    if separator == " ":
        return None
    words = count_words(cells, separator)
    lengths = {cell: len(split_words(cell, separator)) for cell in cells}
    num_several = sum(count for cell, count in cells.items() if lengths[cell] > 1)
    are_lists = num_several >= MIN_SHARE_OF_LISTS * distinct.num_present
    if not are_lists or sum(words.values()) < MIN_WORD_REPEATS * len(words):
        return None
    are_numbers = not np.isnan(parse_numbers(list(words))).any()
    if separator == "," and (len(set(lengths.values())) < 2 or are_numbers):
        return None
    if len(words) > len(cells) and separator != "json":
        return None
    written = "as JSON" if separator == "json" else f"between {separator!r}"
    return "list", f"lists of {len(words):,} words {written}"


def find_separator(cells: Collection[str]) -> Separator:
    """Return the separator that most cells of a column contain."""
    if sum(cell.startswith("[") and cell.endswith("]") for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def split_words(cell: str, separator: Separator | None) -> list[str]:
    """Return the different words of a cell in order, without surrounding space.

    Without a separator, the cell is one word. With ``json``, a cell that is not a JSON array is
    split at commas; brackets and quotes are dropped.
    """
    if separator is None:
        return [cell]
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def _split_json(cell: str) -> list[str]:
    with suppress(ValueError, RecursionError):  # too many nested brackets
        content = json.loads(cell)
        if isinstance(content, list):
            return [item if isinstance(item, str) else json.dumps(item) for item in content]
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]


def count_words(cells: Mapping[str, int], separator: Separator | None) -> dict[str, int]:
    """Return the words of cells and their counts, the most frequent first."""
    counts: Counter[str] = Counter()
    for cell, count in cells.items():
        for word in split_words(cell, separator):
            counts[word] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


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
        """Return the values that are not flags."""
        is_flag = distinct.missing | distinct.is_one_of({*NOT_SET, *SET})
        remedy = "write 1 or 0, true or false, or leave the cell empty"
        return [(~is_flag, "{value} is not a flag", remedy)]


class WordEncoder(ColumnEncoder):
    """One feature per frequent word, and ``(other)`` for the rest.

    A category is one word, ``gender=female``; a list has several, ``tags:sale`` and ``tags:new``.

    Attributes:
        words: Words with a feature of their own, the most frequent first.
        rare: Other words of the training table, sorted.
        separator: What separates the words of a list; None for categories.
        has_missing: Whether missing categories have a feature; otherwise they count as
            ``(other)``. A missing list has no words.
    """

    kind: Literal["categorical", "list"] = "categorical"
    words: tuple[str, ...]
    rare: tuple[str, ...]
    separator: Separator | None = None
    has_missing: bool = False

    @classmethod
    def fit(
        cls,
        column: str,
        distinct: Distinct,
        *,
        is_list: bool = False,
        min_count: int = MIN_COUNT,
    ) -> WordEncoder:
        """Give each word in at least ``min_count`` cells a feature."""
        separator = find_separator(distinct.texts_present) if is_list else None
        counts = count_words(distinct.texts_present, separator)
        words = [word for word, count in counts.items() if count >= min_count]
        words = words[:MAX_WORDS] if is_list else words
        return cls(
            kind="list" if is_list else "categorical",
            column=column,
            words=tuple(words),
            rare=tuple(sorted(counts.keys() - set(words))),
            separator=separator,
            has_missing=not is_list and bool(distinct.missing.any()),
        )

    @property
    def feature_names(self) -> list[str]:
        """The words, then ``(other)``, then ``(missing)``."""
        mark = "=" if self.kind == "categorical" else ":"
        words = (*self.words, "(other)", *["(missing)"] * self.has_missing)
        return [f"{self.column}{mark}{word}" for word in words]

    def encode_values(self, distinct: Distinct) -> sparse.csr_array:
        """Return a one at each word of each value."""
        known, other = _find_positions(self.words), len(self.words)
        of_missing = {other + self.has_missing} if self.kind == "categorical" else set()
        found = [
            {known.get(word, known.get(plain_id(word), other)) for word in words} or of_missing
            for words in self._split(distinct)
        ]
        rows = np.repeat(np.arange(len(found)), list(map(len, found)))
        entries = np.ones(len(rows), np.float32), (rows, list(chain.from_iterable(found)))
        return sparse.csr_array(entries, shape=(len(found), len(self.feature_names)))

    def find_unseen(self, distinct: Distinct) -> Unseen | None:
        """Return the words that the training table did not have."""
        known = _find_positions((*self.words, *self.rare))
        count, example = 0, ""
        for words, num_cells in zip(self._split(distinct), distinct.counts.tolist(), strict=True):
            unseen = [word for word in words if word not in known and plain_id(word) not in known]
            if unseen:
                count, example = count + num_cells, example or unseen[0]
        return Unseen(self.column, count, example) if count else None

    def _split(self, distinct: Distinct) -> Iterator[list[str]]:
        """Yield the words of each value; a missing value has none."""
        for text, is_missing in zip(distinct.texts, distinct.missing, strict=True):
            yield [] if is_missing else split_words(text, self.separator)


def _find_positions(words: Sequence[str]) -> dict[str, int]:
    """Return the position of each word; ``7.0`` is also found as ``7``."""
    known = {plain_id(word): at for at, word in reversed(list(enumerate(words)))}
    return known | {word: at for at, word in enumerate(words)}
