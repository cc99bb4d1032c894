"""Infer what columns hold: kinds of features, ids, ends of edges, the split."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set
from typing import Literal

import numpy as np

from crossgcn.data.tables.cells import (
    CODE,
    SPLIT_WORDS,
    are_whole,
    find_separator,
    parse_number,
    plain_id,
    quote,
    split_words,
)
from crossgcn.data.tables.table import INDEX_COLUMN, Distinct, Table
from crossgcn.errors import BadInput

FeatureKind = Literal["categorical", "flag", "numeric", "date", "list", "ignored"]

MAX_CLASSES_OF_NUMBERS = 20
"""Whole numbers to predict with at most this many different values are taken as classes."""

FLAG_WORDS = frozenset({"0", "1", "false", "true", "0.0", "1.0"})

MAX_CODES = 12
"""Whole numbers with at most this many different values are taken as codes."""

MAX_CATEGORIES_OF_NAMES = 20
"""Text with at most this many different values is never taken for names."""

MIN_SHARE_OF_KIND = 0.9
"""Share of numbers, or of dates, that decides the kind of a column."""

MIN_SHARE_OF_LISTS = 0.1
"""Share of cells with several words in a column of lists."""

MIN_WORD_REPEATS = 3
"""How often a word of a list occurs at least, on average."""

MIN_SHARE_DIFFERENT = 0.9
"""Share of different values in a column of ids."""

MIN_SHARE_OF_TEXTS = 0.5
MIN_WORDS_OF_TEXT = 6.0
"""Share of different values in a column of free text, and number of words on average."""

MIN_SHARE_KNOWN = 0.5
"""Share of the ends of edges that occur among the ids."""

ID_NAMES = ("id", "node_id", "nodeid", "node", "identifier", "uid", "key", "vertex", "index")
EDGE_NAMES = (
    "source target, source destination, src dst, src dest, from to, u v, start end, head tail, "
    "sender receiver, node1 node2, node_1 node_2, id1 id2, id_1 id_2, left right, a b"
)
WEIGHT_NAMES = ("weight", "edge_weight")

Inference = tuple[FeatureKind, str] | None
"""A kind and a short reason; None if a column is of another kind."""


def infer_kind(distinct: Distinct) -> tuple[FeatureKind, str]:
    """Return the kind that fits a column best, and a short reason."""
    values = {text for text, _ in distinct.present}
    for infer in (_infer_few, _infer_numbers, _infer_dates, _infer_lists, _infer_names):
        inferred = infer(distinct, values)
        if inferred is not None:
            return inferred
    return "categorical", f"{len(values):,} different values"


def infer_task(target: Distinct) -> Literal["classification", "regression"]:
    """Return ``regression`` if nearly all cells are numbers, with fractions or very different."""
    numbers = target.numbers
    num_numbers = target.num_cells(~np.isnan(numbers))
    if num_numbers == 0 or num_numbers < MIN_SHARE_OF_KIND * target.num_present:
        return "classification"
    if any(CODE.fullmatch(text) for text, _ in target.present):
        return "classification"
    finite = np.unique(numbers[np.isfinite(numbers)])
    few = are_whole(finite) and len(finite) <= MAX_CLASSES_OF_NUMBERS
    return "classification" if few else "regression"


def _infer_few(distinct: Distinct, values: set[str]) -> Inference:
    if not values:
        return "ignored", "no cell has a value"
    only = quote(next(iter(values)))
    if len(values) == 1 and not distinct.missing.any():
        return "ignored", f"always {only}"
    if len(values) <= 2 and {value.lower() for value in values} <= FLAG_WORDS:
        return "flag", "only " + " and ".join(sorted(values))
    return ("categorical", f"{only} or nothing") if len(values) == 1 else None


def _infer_numbers(distinct: Distinct, values: set[str]) -> Inference:
    is_number = ~np.isnan(distinct.numbers)
    num_cells, num_rows = distinct.num_cells(is_number), len(distinct.codes)
    if num_cells < MIN_SHARE_OF_KIND * distinct.num_present:
        return None
    numbers = np.unique(distinct.numbers[is_number])
    all_numbers = num_cells == distinct.num_present
    whole = are_whole(numbers)
    if whole and any(map(CODE.fullmatch, values)):
        if _are_names(len(values), distinct.num_present):
            where = f"{len(values):,} in {distinct.num_present:,} cells"
            return "ignored", f"digits with leading zeros, {where}"
        return "categorical", f"{len(values):,} different codes with leading zeros"
    if whole and len(numbers) <= MAX_CODES and 2 * len(numbers) <= num_cells:
        if not all_numbers:
            return "categorical", f"{len(values)} different values, most of them whole numbers"
        return "categorical", f"{len(values)} different whole numbers, taken as codes"
    if not all_numbers and len(numbers) <= MAX_CODES:
        return None
    all_different = all_numbers and len(numbers) == num_rows > MAX_CODES
    if whole and all_different and numbers[0] in (0, 1) and np.ptp(numbers) == num_rows - 1:
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / distinct.num_present:.1%} numbers"
    has_commas = any("," in value for value in values)
    if distinct.decimal == ",":
        share += " with decimal commas" if has_commas else " with points between thousands"
    elif has_commas:
        share += " with commas between thousands"
    low, high = (f"{number:,.10g}" for number in (numbers[0], numbers[-1]))
    return "numeric", f"{share} from {low} to {high}"


def holds_dates(distinct: Distinct) -> bool:
    """Return whether nearly all values of a column are dates."""
    return distinct.num_cells(distinct.dates) >= MIN_SHARE_OF_KIND * distinct.num_present


def _infer_dates(distinct: Distinct, values: set[str]) -> Inference:
    if holds_dates(distinct):
        return "date", f"{len(values):,} different dates"
    return None


def _infer_lists(distinct: Distinct, values: set[str]) -> Inference:
    """Infer lists of words.

    Enough cells hold several words, and words repeat far more often than cells do. Commas are
    common in text and numbers, so lists with commas must also differ in length and hold words
    that are not numbers.
    """
    separator = find_separator([cell for cell, _ in distinct.present])
    if separator == " ":
        return None
    words: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for cell, count in distinct.present:
        split = split_words(cell, separator)
        lengths[len(split)] += count
        for word in split:
            words[word] += count
    num_cells = lengths.total()
    num_several = num_cells - lengths[0] - lengths[1]
    if num_several < MIN_SHARE_OF_LISTS * num_cells:
        return None
    if words.total() < MIN_WORD_REPEATS * len(words):
        return None
    are_numbers = all(parse_number(word) is not None for word in words)
    if separator == "," and (len(lengths) < 2 or are_numbers):
        return None
    if len(words) > len(distinct.present) and separator != "json":
        return None
    written = "as JSON" if separator == "json" else f"between {separator!r}"
    return "list", f"lists of {len(words):,} words {written}"


def _infer_names(distinct: Distinct, values: set[str]) -> Inference:
    num_cells = distinct.num_present
    texts = f"{len(values):,} different texts in {num_cells:,} cells"
    if _are_names(len(values), num_cells):
        return "ignored", f"{texts}, as names are"
    num_words = sum(len(value.split()) for value in values) / len(values)
    is_different = len(values) > max(MAX_CATEGORIES_OF_NAMES, MIN_SHARE_OF_TEXTS * num_cells)
    if is_different and num_words >= MIN_WORDS_OF_TEXT:
        return "ignored", f"{texts} of {num_words:.0f} words on average: free text"
    return None


def _are_names(num_different: int, num_cells: int) -> bool:
    if num_different == num_cells:
        return num_cells >= 5
    is_many = num_different > MAX_CATEGORIES_OF_NAMES
    return is_many and num_different > MIN_SHARE_DIFFERENT * num_cells


def find_id_column(nodes: Table, edges: Table | None, taken: Set[str]) -> tuple[str, str]:
    """Return the column of node ids and how it was found.

    Candidates in this order: a column called ``id`` or similar that contains the ends of the
    edges; any column of mostly different values that contains them; a column called ``id`` or
    similar; the first column whose values are all, or nearly all, different, those called
    ``..._id`` first. Numbers with fractions are not ids, and a column without a header comes
    last. Columns in ``taken``, which the user chose for something else, are skipped.
    """
    free = [name for name in nodes.columns if name not in taken]
    by_name = [name for name in free if _simplify(name) in ID_NAMES]
    by_name.sort(key=lambda name: ID_NAMES.index(_simplify(name)))
    different = [
        name
        for name in free
        if _share_different(nodes, name) >= MIN_SHARE_DIFFERENT and not _has_fractions(nodes, name)
    ]
    different.sort(key=lambda name: (name == INDEX_COLUMN, not _simplify(name).endswith("_id")))
    if edges is not None:
        ends = [set(map(plain_id, edges.distinct(name).values)) for name in edges.columns]
        held = {name: _share_of_ends(nodes, name, ends) for name in {*by_name, *different}}
        for name in by_name:
            if held[name] >= MIN_SHARE_KNOWN:
                return name, "its name, and the ends of edges are in it"
        best = max(different, key=lambda name: held[name], default=None)
        if best is not None and held[best] >= MIN_SHARE_KNOWN:
            return best, "the ends of edges are in it"
    if by_name:
        return by_name[0], "its name"
    for name in different:
        if _share_different(nodes, name) == 1:
            return name, "the first column whose values are all different"
    if different:
        return different[0], "the first column whose values are nearly all different"
    raise BadInput(
        f"{nodes.name}: no column tells the nodes apart (none is called id, and every one repeats "
        "its values); name it with --id-column, or add a column id"
    )


def find_edge_columns(
    edges: Table,
    known: Set[str],
    *,
    source: str | None,
    destination: str | None,
    weight: str | None,
) -> tuple[str, str, str | None, list[str]]:
    """Return the columns of both ends and of the weight, and how each was found.

    ``known`` are the ids of the nodes; ``source``, ``destination`` and ``weight`` the user's
    choices.
    """
    how_weight = "as chosen"
    if weight is None:
        how_weight = "its name"
        others = (name for name in edges.columns if name not in (source, destination))
        weight = next((name for name in others if _simplify(name) in WEIGHT_NAMES), None)
    free = [name for name in edges.columns if name not in (source, destination, weight)]
    free.sort(key=lambda name: name == INDEX_COLUMN)
    found, how = _find_ends(edges, free, known, source, destination)
    reasons = [f"edges: {edges.name}, columns {found[0]} and {found[1]}: {how}"]
    if weight is not None:
        reasons.append(f"weights of edges: {edges.name}, column {weight}: {how_weight}")
    return *found, weight, reasons


def _find_ends(
    edges: Table,
    free: list[str],
    known: Set[str],
    source: str | None,
    destination: str | None,
) -> tuple[tuple[str, str], str]:
    if source is not None and destination is not None:
        return (source, destination), "as chosen"
    holding = [name for name in free if _share_known(edges, name, known) >= MIN_SHARE_KNOWN]
    wanted = 2 - (source is not None) - (destination is not None)
    if wanted == 2:
        # Names decide, but not those of columns start and end that hold dates.
        by_end = {_simplify_end(name): name for name in reversed(holding if holding[1:] else free)}
        for first, second in map(str.split, EDGE_NAMES.split(", ")):
            if first in by_end and second in by_end:
                return (by_end[first], by_end[second]), "their names"
    how = "they hold ids of nodes"
    if len(holding) < wanted:
        holding = [*holding, *(name for name in free if name not in holding)][:wanted]
        holding.sort(key=free.index)
        how = "the first columns"
    if len(holding) < wanted:
        raise BadInput(
            f"{edges.name}: {len(edges.columns)} column(s) ({', '.join(edges.columns)}), but an "
            "edge has two ends; give a column of sources and one of destinations"
        )
    ends = iter(holding)
    return (source or next(ends), destination or next(ends)), how


def find_split_column(nodes: Table, taken: Set[str]) -> str | None:
    """Return a column called ``split`` whose cells all name a role, or None."""
    for name in nodes.columns:
        if name in taken or _simplify(name) != "split":
            continue
        words = {word.lower() for word, _ in nodes.distinct(name).present}
        if words and words <= SPLIT_WORDS.keys():
            return name
    return None


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _simplify_end(name: str) -> str:
    return re.sub(r"_?(id|node|node_id)$", "", _simplify(name)) or _simplify(name)


def _share_different(nodes: Table, name: str) -> float:
    distinct = nodes.distinct(name)
    return float((~distinct.missing).sum()) / max(distinct.num_present, 1)


def _has_fractions(nodes: Table, name: str) -> bool:
    numbers = nodes.distinct(name).numbers
    return not are_whole(numbers[np.isfinite(numbers)])


def _share_of_ends(nodes: Table, name: str, ends: list[set[str]]) -> float:
    """Return the share of ends among the ids, for the edge column that fits second best."""
    values = set(map(plain_id, nodes.distinct(name).values))
    shares = sorted(len(values & column) / len(column) for column in ends)
    return shares[-2] if len(shares) > 1 else 0.0


def _share_known(edges: Table, name: str, known: Set[str]) -> float:
    distinct = edges.distinct(name)
    plain = {*map(plain_id, known)}
    is_known = np.array([plain_id(value) in plain for value in distinct.values], bool)
    return distinct.num_cells(is_known) / len(edges)
