"""Infer what columns hold: kinds of features, ids, ends of edges, the split."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import (
    CODE,
    SPLIT_WORDS,
    are_whole,
    find_date_formats,
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
"""Whole numbers with at most this many different values are codes, unless they count things."""

SURE_COUNTS = 5
"""So many numbers from 0 or 1, with one peak, are counts whatever the column is called."""

COUNT_NAMES = {"count", "counts", "n", "nb", "no", "nr", "num", "number", "qty", "quantity"}
CODE_NAMES = {
    *("cat", "category", "class", "cluster", "code", "codes", "grade", "group", "id", "kind"),
    *("label", "level", "region", "sector", "segment", "status", "type", "types", "zone"),
    *("day", "hour", "month", "weekday", "year"),
}

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


def infer_kind(name: str, distinct: Distinct) -> tuple[FeatureKind, str]:
    """Return the kind that fits a column best, and a short reason."""
    values = {text for text, _ in distinct.present}
    inferred = (
        _infer_few(distinct, values)
        or _infer_numbers(name, distinct, values)
        or _infer_dates(distinct, values)
        or _infer_lists(distinct)
        or _infer_names(distinct, values)
    )
    return inferred or ("categorical", f"{len(values):,} different values")


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


def _infer_numbers(name: str, distinct: Distinct, values: set[str]) -> Inference:
    is_number = ~np.isnan(distinct.numbers)
    num_cells, num_rows = distinct.num_cells(is_number), len(distinct.codes)
    if num_cells < MIN_SHARE_OF_KIND * distinct.num_present:
        return None
    numbers, of_value = np.unique(distinct.numbers[is_number], return_inverse=True)
    all_numbers = num_cells == distinct.num_present
    whole = are_whole(numbers)
    if whole and any(map(CODE.fullmatch, values)):
        if _are_names(len(values), distinct.num_present):
            where = f"{len(values):,} in {distinct.num_present:,} cells"
            return "ignored", f"digits with leading zeros, {where}"
        return "categorical", f"{len(values):,} different codes with leading zeros"
    if whole and len(numbers) <= MAX_CODES and 2 * len(numbers) <= num_cells:
        counts = np.bincount(of_value, distinct.counts[is_number]).astype(np.float64)
        if _are_counts(name, numbers, counts):
            return "numeric", f"{len(numbers)} different whole numbers, taken as counts"
        if not all_numbers:
            return "categorical", f"{len(values)} different values, most of them whole numbers"
        return "categorical", f"{len(values)} different whole numbers, taken as codes"
    if not all_numbers and len(numbers) <= MAX_CODES:
        return None
    all_different = all_numbers and len(numbers) == num_rows > MAX_CODES
    if whole and all_different and numbers[0] in (0, 1) and np.ptp(numbers) == num_rows - 1:
        return "ignored", "counts the rows"
    share = "numbers" if all_numbers else f"{num_cells / distinct.num_present:.1%} numbers"
    low, high = (f"{number:,.10g}" for number in (numbers[0], numbers[-1]))
    return "numeric", f"{share}{distinct.style} from {low} to {high}"


def _are_counts(name: str, numbers: NDArray[np.float64], counts: NDArray[np.float64]) -> bool:
    """Return whether few whole numbers count things, as beds and guests do.

    They start 0, 1, 2 or 1, 2, 3, and the nodes of each become more up to one peak and then
    fewer: but for chance, if a name such as ``beds`` or ``num_doors`` says that they count, and
    strictly, of five numbers or more, if not. Names such as ``zone`` or ``code`` are of codes.
    """
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    if not words or CODE_NAMES & set(words) or len(numbers) < 3:
        return False
    if numbers[0] not in (0, 1) or not (np.diff(numbers[:3]) == 1).all():
        return False
    is_plural = words[-1].endswith("s") and not words[-1].endswith(("ss", "us", "is"))
    says_so = is_plural or bool(COUNT_NAMES & set(words))
    chance = 2 * np.sqrt(counts[1:] + counts[:-1]) if says_so else 0.02 * counts.sum()
    steps = np.diff(counts)
    steps = np.sign(steps[abs(steps) > chance])
    has_one_peak = not (np.diff(steps) > 0).any()
    return has_one_peak and (says_so or (len(numbers) >= SURE_COUNTS and len(steps) > 0))


def _infer_dates(distinct: Distinct, values: set[str]) -> Inference:
    formats = find_date_formats(sorted(values))
    if formats and formats[0][1] >= MIN_SHARE_OF_KIND * len(values):
        return "date", f"{len(values):,} different dates, written {formats[0][0]}"
    return None


def _infer_lists(distinct: Distinct) -> Inference:
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

    With edges, it is the column of different values that holds their ends; more than one such
    column is refused, since edges would join other nodes. Without edges, or if no column holds
    the ends, it is one called ``id`` or similar, else the first whose values are all, or nearly
    all, different. Numbers with fractions are not ids, and a column without a header comes last.

    Args:
        taken: Columns that the user chose for something else.
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
        # A column called id may repeat some: it is found, and then refused with the rows.
        candidates = dict.fromkeys([*by_name, *different])
        held = {name: _share_of_ends(nodes, name, ends) for name in candidates}
        best = max(held.values(), default=0.0)
        fitting = [name for name in held if held[name] >= (1.0 if best == 1 else MIN_SHARE_KNOWN)]
        if len(fitting) > 1 and not _are_alike(nodes, fitting):
            raise BadInput(
                f"{nodes.name}: columns {_listed(fitting)} could both be the ids, since the ends "
                "of edges are in each; name one with --id-column"
            )
        if fitting:
            how = "its name, and" if fitting[0] in by_name else "since"
            return fitting[0], f"{how} the ends of edges are in it"
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
    edges: Table, free: list[str], known: Set[str], source: str | None, destination: str | None
) -> tuple[tuple[str, str], str]:
    """Return both ends of edges: chosen, by their names, or the only columns that hold ids."""
    if source is not None and destination is not None:
        return (source, destination), "as chosen"
    holding = [name for name in free if _share_known(edges, name, known) >= MIN_SHARE_KNOWN]
    wanted = 2 - (source is not None) - (destination is not None)
    by_name = holding if len(holding) >= wanted else free
    pairs = [
        (first, second)
        for first in ([source] if source else by_name)
        for second in ([destination] if destination else by_name)
        if f"{_simplify_end(first)} {_simplify_end(second)}" in EDGE_NAMES.split(", ")
    ]
    if len(pairs) == 1:
        return pairs[0], "their names"
    if len(holding) > wanted:
        missing = [
            option
            for option, given in (
                ("--source-column", source),
                ("--destination-column", destination),
            )
            if given is None
        ]
        raise BadInput(
            f"{edges.name}: columns {_listed(holding)} could all be ends of edges, since each "
            f"holds ids of nodes; choose with {' and '.join(missing)}"
        )
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
    """Return a column called ``split`` of which most cells name a role, or None.

    Other words in it are refused by the check: a column with a typo is not a feature.
    """
    for name in nodes.columns:
        if name in taken or _simplify(name) != "split":
            continue
        distinct = nodes.distinct(name)
        known = distinct.num_cells(distinct.is_one_of(SPLIT_WORDS.keys()))
        if 2 * known > distinct.num_present:
            return name
    return None


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _simplify_end(name: str) -> str:
    return re.sub(r"_?(id|node|node_id)$", "", _simplify(name)) or _simplify(name)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _share_different(nodes: Table, name: str) -> float:
    distinct = nodes.distinct(name)
    return float((~distinct.missing).sum()) / max(distinct.num_present, 1)


def _has_fractions(nodes: Table, name: str) -> bool:
    numbers = nodes.distinct(name).numbers
    return not are_whole(numbers[np.isfinite(numbers)])


def _are_alike(nodes: Table, names: Sequence[str]) -> bool:
    """Return whether columns say the same of every node."""
    cells = [[plain_id(cell) for cell in nodes.frame[name]] for name in names]
    return all(each == cells[0] for each in cells)


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
