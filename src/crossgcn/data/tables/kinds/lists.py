"""Columns of lists of words, such as tags: one feature per word."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from crossgcn.data.tables.cells import parse_numbers
from crossgcn.data.tables.kinds.base import MIN_COUNT, Inference, WordEncoder, count_words
from crossgcn.data.tables.table import Distinct

MIN_SHARE_OF_LISTS = 0.1
"""Share of cells with several words in a column of lists."""

MIN_WORD_REPEATS = 3
"""How often a word of a list occurs at least, on average."""

MAX_WORDS = 5_000
"""Number of words with a feature of their own."""

Separator = Literal["json", ";", "|", ",", " "]


def find_separator(cells: Sequence[str]) -> Separator:
    """Return the separator that most cells of a column contain."""
    if sum(cell.startswith("[") and cell.endswith("]") for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


def split_words(cell: str, separator: Separator) -> list[str]:
    """Return the different words of a cell in order, without surrounding space.

    With ``json``, a cell that is not a JSON array is split at commas; brackets and quotes are
    dropped.
    """
    words: Iterable[str]
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def _split_json(cell: str) -> list[str]:
    try:
        content = json.loads(cell)
        if isinstance(content, list):
            return [item if isinstance(item, str) else json.dumps(item) for item in content]
    except (ValueError, RecursionError):  # too many nested brackets
        pass
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]


def infer_list(distinct: Distinct) -> Inference:
    """Infer lists of words.

    Enough cells hold several words, and words repeat far more often than cells do. Commas are
    common in text and numbers, so lists with commas must also differ in length and hold words
    that are not numbers.
    """
    separator = find_separator([cell for cell, _ in distinct.present])
    if separator == " ":
        return None
    cells = [(split_words(cell, separator), count) for cell, count in distinct.present]
    words = count_words(cells)
    lengths: Counter[int] = Counter()
    for split, count in cells:
        lengths[len(split)] += count
    num_several = lengths.total() - lengths[0] - lengths[1]
    are_lists = num_several >= MIN_SHARE_OF_LISTS * lengths.total()
    are_repeated = sum(words.values()) >= MIN_WORD_REPEATS * len(words)
    if not are_lists or not are_repeated:
        return None
    are_numbers = not np.isnan(parse_numbers(list(words))).any()
    if separator == "," and (len(lengths) < 2 or are_numbers):
        return None
    if len(words) > len(distinct.present) and separator != "json":
        return None
    written = "as JSON" if separator == "json" else f"between {separator!r}"
    return "list", f"lists of {len(words):,} words {written}"


class ListEncoder(WordEncoder):
    """One feature per word of several lists: ``tags:sale``."""

    kind: Literal["list"] = "list"
    separator: Separator

    @classmethod
    def fit(cls, column: str, distinct: Distinct) -> ListEncoder:
        """Give each word in several cells a feature."""
        separator = find_separator([cell for cell, _ in distinct.present])
        counts = count_words([(split_words(cell, separator), n) for cell, n in distinct.present])
        words = [word for word in counts if counts[word] >= MIN_COUNT][:MAX_WORDS]
        rare = tuple(sorted(counts.keys() - set(words)))
        return cls(column=column, words=tuple(words), rare=rare, separator=separator)

    @property
    def feature_names(self) -> list[str]:
        """The words, then ``(other)``."""
        return [f"{self.column}:{word}" for word in (*self.words, "(other)")]

    def split(self, cell: str) -> list[str]:
        """Return the words of a list."""
        return split_words(cell, self.separator)
