"""Cells that hold several words: ``red;blue``, ``red|blue``, ``["red", "blue"]``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from crossgcn.data.tables.distinct import parse_number

__all__ = ["Separator", "find_separator", "looks_like_lists", "split_words"]

Separator = Literal["json", ";", "|", ",", " "]

SEPARATED_SHARE = 0.1
"""Of the cells, at least so many hold more than one word in a column of lists."""

WORD_REPEATS = 3
"""So often a word of a list is repeated, on average, at least."""


def split_words(cell: str, separator: Separator) -> list[str]:
    """The different words of a cell, in order, without space around them.

    Args:
        cell: What is written; an empty one has no words.
        separator: What stands between words; ``json`` for JSON arrays, of which text that
            is none is read as words between commas, brackets and quotes dropped.
    """
    if separator == "json":
        words = _split_json(cell)
    else:
        words = cell.split(None if separator == " " else separator)
    return list(dict.fromkeys(filter(None, map(str.strip, words))))


def find_separator(cells: Sequence[str]) -> Separator:
    """What stands between the words: whatever is in the most cells.

    Args:
        cells: The different values of a column, missing ones left out.
    """
    if sum(_is_bracketed(cell) for cell in cells) * 2 > len(cells):
        return "json"
    marks: tuple[Separator, ...] = (";", "|", ",")
    holding = {mark: sum(mark in cell for cell in cells) for mark in marks}
    best = max(marks, key=lambda mark: holding[mark])
    return best if holding[best] else " "


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


def _is_bracketed(cell: str) -> bool:
    return cell.startswith("[") and cell.endswith("]")


def _split_json(cell: str) -> list[str]:
    try:
        content = json.loads(cell)
    except ValueError:
        content = None
    if isinstance(content, list):
        return [item if isinstance(item, str) else json.dumps(item) for item in content]
    return [word.strip().strip("'\"") for word in cell.strip().strip("[]").split(",")]
