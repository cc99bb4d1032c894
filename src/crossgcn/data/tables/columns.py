"""Infer what columns hold: kinds of features, ids, ends of edges, the split, classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from decimal import Decimal, InvalidOperation
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.read import INDEX_COLUMN
from crossgcn.data.tables.table import (
    Distinct,
    Table,
    find_separator,
    parse_number,
    shorten,
    split_words,
)
from crossgcn.errors import BadInput

FeatureKind = Literal["categorical", "flag", "numeric", "list", "ignored"]

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

DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
)
CODE = re.compile(r"0\d+")

SPLIT_WORDS = {"train": 1, "training": 1, "validation": 2, "valid": 2, "val": 2, "test": 3}
"""Lower-case words of a split column, and the role each stands for."""

ID_NAMES = ("id", "node_id", "nodeid", "node", "identifier", "uid", "key", "vertex", "index")
EDGE_NAMES = (
    ("source", "target"),
    ("source", "destination"),
    ("src", "dst"),
    ("src", "dest"),
    ("from", "to"),
    ("u", "v"),
    ("start", "end"),
    ("head", "tail"),
    ("sender", "receiver"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("id1", "id2"),
    ("id_1", "id_2"),
    ("left", "right"),
    ("a", "b"),
)
WEIGHT_NAMES = ("weight", "edge_weight")

MIN_SHARE_DIFFERENT = 0.9
"""Share of different values in a column of ids."""

MIN_SHARE_KNOWN = 0.5
"""Share of the ends of edges that occur among the ids."""


def infer_kind(distinct: Distinct) -> tuple[FeatureKind, str]:
    """Return the kind that fits a column best, and a short reason."""
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
        _infer_from_numbers(distinct, values)
        or _infer_from_text(present, values, distinct.num_present)
        or ("categorical", f"{len(values):,} different values")
    )


def _infer_from_numbers(distinct: Distinct, values: set[str]) -> tuple[FeatureKind, str] | None:
    is_number = ~np.isnan(distinct.numbers)
    num_cells = int(distinct.counts[is_number].sum())
    if num_cells < MIN_SHARE_OF_KIND * distinct.num_present:
        return None
    numbers = np.unique(distinct.numbers[is_number])
    all_numbers = num_cells == distinct.num_present
    are_whole = bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())
    if are_whole and any(CODE.fullmatch(value) for value in values):
        if _are_names(len(values), distinct.num_present):
            where = f"{len(values):,} in {distinct.num_present:,} cells"
            return "ignored", f"digits with leading zeros, {where}"
        return "categorical", f"{len(values):,} different codes with leading zeros"
    if are_whole and len(numbers) <= MAX_CODES and 2 * len(numbers) <= num_cells:
        if not all_numbers:
            return "categorical", f"{len(values)} different values, most of them whole numbers"
        return "categorical", f"{len(values)} different whole numbers, taken as codes"
    if not all_numbers and len(numbers) <= MAX_CODES:
        return None
    if are_whole and all_numbers and _counts_the_rows(numbers, len(distinct.codes)):
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / distinct.num_present:.1%} numbers"
    return "numeric", f"{share} from {numbers[0]:g} to {numbers[-1]:g}"


def _counts_the_rows(numbers: NDArray[np.float64], num_rows: int) -> bool:
    return bool(
        num_rows > MAX_CODES
        and numbers[0] in (0, 1)
        and len(numbers) == num_rows
        and numbers[-1] - numbers[0] == num_rows - 1
    )


def _infer_from_text(
    present: list[tuple[str, int]], values: set[str], num_cells: int
) -> tuple[FeatureKind, str] | None:
    num_dates = sum(count for value, count in present if DATE.fullmatch(value))
    if num_dates >= MIN_SHARE_OF_KIND * num_cells:
        return "ignored", "dates; write days since one as a number to use it"
    if reason := _find_lists(present):
        return "list", reason
    if _are_names(len(values), num_cells):
        return "ignored", f"{len(values):,} different texts in {num_cells:,} cells, as names are"
    return None


def _are_names(num_different: int, num_cells: int) -> bool:
    if num_different == num_cells:
        return num_cells >= 5
    return num_different > MAX_CATEGORIES_OF_NAMES and 2 * num_different > num_cells


def _find_lists(present: Sequence[tuple[str, int]]) -> str | None:
    """Return why a column is taken for lists of words, or None.

    Enough cells hold several words, and words repeat far more often than cells do. Commas are
    common in text and numbers, so lists with commas must also differ in length and hold words
    that are not numbers.
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
    num_several = num_cells - lengths[0] - lengths[1]
    if num_several < MIN_SHARE_OF_LISTS * num_cells:
        return None
    if words.total() < MIN_WORD_REPEATS * len(words):
        return None
    are_numbers = all(parse_number(word) is not None for word in words)
    if separator == "," and (len(lengths) < 2 or are_numbers):
        return None
    if len(words) > len(present) and separator != "json":
        return None
    written = "as JSON" if separator == "json" else f"between {separator!r}"
    return f"lists of {len(words):,} words {written}"


def find_id_column(nodes: Table, edges: Table | None, taken: Set[str]) -> tuple[str, str]:
    """Return the column of node ids and how it was found.

    Candidates in this order: a column called ``id`` or similar that contains the ends of the
    edges; any column of mostly different values that contains them; a column called ``id`` or
    similar; the first column whose values are all, or nearly all, different, those called
    ``..._id`` first. Numbers with fractions are not ids, and a column without a header comes
    last. Columns in ``taken``, which the user chose for something else, are skipped.

    Raises:
        BadInput: If there is no candidate.
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
        ends = [set(edges.distinct(name).values) for name in edges.columns]
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

    Raises:
        BadInput: If fewer than two columns are left for the ends.
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
        for first, second in EDGE_NAMES:
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
    return bool((np.isfinite(numbers) & (np.floor(numbers) != numbers)).any())


def _share_of_ends(nodes: Table, name: str, ends: list[set[str]]) -> float:
    """Return the share of ends among the ids, for the edge column that fits second best."""
    values = set(nodes.distinct(name).values)
    shares = sorted(len(values & column) / len(column) for column in ends)
    return shares[-2] if len(shares) > 1 else 0.0


def _share_known(edges: Table, name: str, known: Set[str]) -> float:
    distinct = edges.distinct(name)
    is_known = np.fromiter((value in known for value in distinct.values), bool)
    return float(distinct.counts[is_known].sum()) / len(edges)


def class_of_values(target: Distinct) -> tuple[str | None, ...]:
    """Return the class of each different value of the target, None for a missing one.

    Surrounding space is ignored. If all values are numbers, equal numbers are one class, named
    by its shortest form: ``1`` and ``1.0`` are ``1``. Codes with leading zeros stay text.
    """
    texts = [value.strip() for value in target.values]
    names = {text for text, gone in zip(texts, target.missing, strict=True) if not gone}
    numbers = target.numbers[~target.missing]
    may_merge = not np.isnan(numbers).any() and len(np.unique(numbers)) < len(names)
    shortest = {name: name for name in names}
    if may_merge and not any(map(CODE.fullmatch, names)):
        by_value: dict[Decimal | str, list[str]] = {}
        for name in sorted(names, key=lambda name: (len(name), name)):
            by_value.setdefault(_exact(name), []).append(name)
        shortest = {name: same[0] for same in by_value.values() for name in same}
    return tuple(
        None if gone else shortest[text] for text, gone in zip(texts, target.missing, strict=True)
    )


def _exact(number: str) -> Decimal | str:
    """Return a number without rounding, which tells integers of twenty digits apart."""
    try:
        return Decimal(number)
    except InvalidOperation:  # The exponent has too many digits.
        return number


def name_classes(target: Distinct) -> tuple[str, ...]:
    """Return the classes in order: numbers by size, text by the alphabet."""
    names = {name for name in class_of_values(target) if name is not None}
    if np.isnan(target.numbers[~target.missing]).any():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (float(name), name)))
