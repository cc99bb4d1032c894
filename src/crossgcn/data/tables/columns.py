"""Find the columns of ids, of the ends of edges and of the split, and what is predicted."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Literal

import numpy as np

from crossgcn.data.tables.cells import CODE, SPLIT_WORDS, are_whole, quote
from crossgcn.data.tables.kinds.base import MIN_SHARE_OF_KIND
from crossgcn.data.tables.table import INDEX_COLUMN, Distinct, Table
from crossgcn.errors import BadInput

MAX_CLASSES_OF_NUMBERS = 20
"""Whole numbers to predict with at most this many different values are taken as classes."""

MIN_SHARE_DIFFERENT = 0.9
"""Share of different values in a column of ids."""

MIN_SHARE_KNOWN = 0.5
"""Share of the ends of edges that occur among the ids."""

ID_NAMES = ("id", "node_id", "nodeid", "node", "identifier", "uid", "key", "vertex", "index")
EDGE_NAMES = (
    *("source target", "source destination", "src dst", "src dest", "from to", "u v", "start end"),
    *("head tail", "sender receiver", "node1 node2", "node_1 node_2", "id1 id2", "id_1 id_2"),
    *("left right", "a b"),
)
WEIGHT_NAMES = ("weight", "edge_weight")


def infer_task(target: Distinct) -> tuple[Literal["classification", "regression"], str]:
    """Return ``regression`` if nearly all cells are numbers, with fractions or very different.

    A few words say what is predicted.
    """
    numbers = target.numbers
    num_numbers = target.num_cells(~np.isnan(numbers))
    are_codes = any(map(CODE.fullmatch, target.texts_present))
    if num_numbers == 0 or num_numbers < MIN_SHARE_OF_KIND * target.num_present or are_codes:
        return "classification", "classes"
    finite = np.unique(numbers[np.isfinite(numbers)])
    if not are_whole(finite) or len(finite) > MAX_CLASSES_OF_NUMBERS:
        return "regression", "a number"
    if len(finite) <= 2:
        return "classification", "classes"
    return (
        "classification",
        f"{len(finite)} different whole numbers, read as classes; --task regression predicts the "
        "number",
    )


def find_id_column(nodes: Table, edges: Table | None, taken: Set[str]) -> tuple[str, str]:
    """Return the column of node ids and how it was found.

    With edges, it is the column of different values that holds their ends; more than one such
    column is refused, since edges would join other nodes. Without edges, or if no column holds
    the ends, it is one called ``id`` or similar, else the first whose values differ.
    Numbers with fractions are not ids, and a column without a header comes last.

    Args:
        taken: Columns that the user chose for something else.
    """
    free = [name for name in nodes.columns if name not in taken]
    by_name = [name for each in ID_NAMES for name in free if _simplify(name) == each]
    share = {name: _share_different(nodes.distinct(name)) for name in free}
    # A column that repeats a few values is found, and then refused with the rows.
    different = [name for name in free if share[name] >= MIN_SHARE_DIFFERENT]
    different.sort(
        key=lambda name: (share[name] < 1, name == INDEX_COLUMN, not name.lower().endswith("id"))
    )
    candidates = [*by_name, *different]
    if edges is not None:
        shares = {name: _shares_known(edges, nodes.distinct(name)) for name in candidates}
        held = {name: sorted([0.0, *shares[name].values()])[-2] for name in candidates}
        least = 1.0 if max(held.values(), default=0.0) == 1 else MIN_SHARE_KNOWN
        fitting = [name for name in held if held[name] >= least]  # by the second best of the ends
        if len(fitting) > 1:
            raise BadInput(
                f"{nodes.name}: columns {_listed(fitting)} could both be the ids, since the ends "
                "of edges are in each; name one with --id-column"
            )
        if fitting:
            how = "its name, and" if fitting[0] in by_name else "since"
            return fitting[0], f"{how} the ends of edges are in it"
    if not candidates:
        raise BadInput(
            f"{nodes.name}: no column tells the nodes apart (none is called id, and every one "
            "repeats its values); name it with --id-column, or add a column id"
        )
    how = "its name" if by_name else "the first column whose values differ"
    return candidates[0], how


def _share_different(distinct: Distinct) -> float:
    """Return the share of different values; 0 for numbers with fractions."""
    if not are_whole(distinct.numbers[np.isfinite(distinct.numbers)]):
        return 0.0
    return float((~distinct.missing).sum()) / max(distinct.num_present, 1)


def _shares_known(edges: Table, ids: Distinct) -> dict[str, float]:
    """Return the share of cells of each column of edges that hold one of the ids."""
    known = set(ids.ids)
    shares = {}
    for name in edges.columns:
        distinct = edges.distinct(name)
        is_known = np.array([each in known for each in distinct.ids], bool)
        shares[name] = distinct.num_cells(is_known) / len(edges)
    return shares


def find_edge_columns(
    edges: Table,
    ids: Distinct,
    source_column: str | None = None,
    destination_column: str | None = None,
    weight_column: str | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Return the columns of both ends and of the weight, and how each was found.

    Args:
        ids: The column of node ids; the other arguments are the user's choices.
    """
    found, reasons = {}, []
    weight, how = weight_column, "as chosen"
    if weight is None:
        others = (each for each in edges.columns if each not in (source_column, destination_column))
        weight, how = (
            next((each for each in others if _simplify(each) in WEIGHT_NAMES), None),
            "its name",
        )
    if weight is not None:
        found["weight_column"] = weight
        reasons.append(f"weights of edges: {edges.name}, column {weight}: {how}")
    free = [each for each in edges.columns if each not in (weight, INDEX_COLUMN)]
    source, destination, how = _find_ends(edges, free, ids, source_column, destination_column)
    found |= {"source_column": source, "destination_column": destination}
    reasons.insert(0, f"edges: {edges.name}, columns {source} and {destination}: {how}")
    unused = [each for each in edges.columns if each not in found.values()]
    if unused:
        reasons.append(f"not used: {edges.name}, columns {', '.join(unused)}")
    return found, reasons


def _find_ends(
    edges: Table, free: list[str], ids: Distinct, source: str | None, destination: str | None
) -> tuple[str, str, str]:
    """Return both ends of edges, and how they were found.

    They are chosen, or the only columns that hold ids, or told by their names.
    """
    if source is not None and destination is not None:
        return source, destination, "as chosen"
    chosen = {"--source-column": source, "--destination-column": destination}
    options = [option for option, column in chosen.items() if column is None]
    free = [name for name in free if name not in chosen.values()]
    shares = _shares_known(edges, ids)
    holding = [name for name in free if shares[name] >= MIN_SHARE_KNOWN]
    likely = holding if len(holding) >= len(options) else free
    pairs = [
        (first, second)
        for first in ([source] if source else likely)
        for second in ([destination] if destination else likely)
        if f"{_simplify_end(first)} {_simplify_end(second)}" in EDGE_NAMES
    ]
    if len(pairs) == 1:
        return *pairs[0], "their names"
    if len(holding) > len(options):
        raise BadInput(
            f"{edges.name}: columns {_listed(holding)} could all be ends of edges, since each "
            f"holds ids of nodes; choose with {' and '.join(options)}"
        )
    if len(holding) < len(options):
        raise BadInput(
            f"{edges.name}: an edge has two ends, and of the columns {', '.join(edges.columns)} "
            f"{len(holding) or 'none'} hold(s) ids of nodes, such as {quote(ids.values[0])}; "
            f"choose them with {' and '.join(options)}"
        )
    ends = iter(holding)
    return source or next(ends), destination or next(ends), "they hold ids of nodes"


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
