"""Which columns hold the ids of nodes, the ends of edges and the split."""

from __future__ import annotations

import re
from collections.abc import Set

import numpy as np

from crossgcn.data.tables.read import INDEX_COLUMN
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

SPLIT_WORDS = {"train": 1, "training": 1, "validation": 2, "valid": 2, "val": 2, "test": 3}
"""What the cells of a split column say, in any case, and the role each stands for."""

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
NEARLY_ALL = 0.9
MOSTLY = 0.5


def find_id_column(nodes: Table, edges: Table | None, taken: Set[str]) -> tuple[str, str]:
    """The column that names the nodes, and how it was found.

    A column called ``id`` or the like that holds the ends of the edges comes first, then
    any that holds them and hardly repeats itself, then one by its name alone, then the
    first that never or hardly ever repeats itself, of those called ``..._id`` if there are
    any. Numbers with fractions are no ids, and a column without a header is only if no
    other will do.

    Args:
        nodes: A row a node.
        edges: A row an edge, if there are any.
        taken: Columns that the user takes for something else.

    Raises:
        BadInput: No column will do.
    """
    free = [name for name in nodes.columns if name not in taken]
    by_name = sorted((name for name in free if _id_rank(name) >= 0), key=_id_rank)
    unlike = [
        name
        for name in free
        if _share_different(nodes, name) >= NEARLY_ALL and not _has_fractions(nodes, name)
    ]
    unlike.sort(key=lambda name: (name == INDEX_COLUMN, not _plain(name).endswith("_id")))
    if edges is not None:
        ends = [set(edges.distinct(name).values) for name in edges.columns]
        for name in by_name:
            if _holds_ends(nodes, name, ends) >= MOSTLY:
                return name, "its name, and the ends of edges are in it"
        held = {name: _holds_ends(nodes, name, ends) for name in unlike}
        best = max(unlike, key=lambda name: held[name], default=None)
        if best is not None and held[best] >= MOSTLY:
            return best, "the ends of edges are in it"
    if by_name:
        return by_name[0], "its name"
    for name in unlike:
        if _share_different(nodes, name) == 1:
            return name, "the first column whose values are all different"
    if unlike:
        return unlike[0], "the first column whose values are nearly all different"
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
    """The columns of both ends and of the weight, and how each was found.

    Args:
        edges: A row an edge.
        known: The ids of the nodes.
        source: What the user chose, if anything.
        destination: Likewise.
        weight: Likewise.

    Raises:
        BadInput: Fewer than two columns are left for the ends.
    """
    how_weight = "as chosen"
    if weight is None:
        how_weight = "its name"
        others = (name for name in edges.columns if name not in (source, destination))
        weight = next((name for name in others if _plain(name) in WEIGHT_NAMES), None)
    free = [name for name in edges.columns if name not in (source, destination, weight)]
    free.sort(key=lambda name: name == INDEX_COLUMN)
    found, how = _find_ends(edges, free, known, source, destination)
    reasons = [f"edges: {edges.name}, columns {found[0]} and {found[1]}: {how}"]
    if weight is not None:
        reasons.append(f"weights of edges: {edges.name}, column {weight}: {how_weight}")
    return *found, weight, reasons


def find_split_column(nodes: Table, taken: Set[str]) -> str | None:
    """A column called ``split`` that says train, validation and test, and nothing else."""
    for name in nodes.columns:
        if name in taken or _plain(name) != "split":
            continue
        words = {word.lower() for word, _ in nodes.distinct(name).present}
        if words and words <= SPLIT_WORDS.keys():
            return name
    return None


def _find_ends(
    edges: Table,
    free: list[str],
    known: Set[str],
    source: str | None,
    destination: str | None,
) -> tuple[tuple[str, str], str]:
    if source is not None and destination is not None:
        return (source, destination), "as chosen"
    mostly = [name for name in free if _share_known(edges, name, known) >= MOSTLY]
    wanted = 2 - (source is not None) - (destination is not None)
    if wanted == 2:
        # Names first, but columns start and end that hold dates leave the ends to others.
        named = _find_named_ends(free if len(mostly) < wanted else mostly)
        if named is not None:
            return named, "their names"
    how = "they hold ids of nodes"
    if len(mostly) < wanted:
        mostly = [*mostly, *(name for name in free if name not in mostly)][:wanted]
        mostly.sort(key=free.index)
        how = "the first columns"
    if len(mostly) < wanted:
        raise BadInput(
            f"{edges.name}: {len(edges.columns)} column(s) ({', '.join(edges.columns)}), but an "
            "edge has two ends; give a column of sources and one of destinations"
        )
    ends = iter(mostly)
    return (source or next(ends), destination or next(ends)), how


def _find_named_ends(columns: list[str]) -> tuple[str, str] | None:
    plain = {_plain_end(name): name for name in reversed(columns)}
    for first, second in EDGE_NAMES:
        if first in plain and second in plain:
            return plain[first], plain[second]
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _plain_end(name: str) -> str:
    return re.sub(r"_?(id|node|node_id)$", "", _plain(name)) or _plain(name)


def _id_rank(name: str) -> int:
    return ID_NAMES.index(_plain(name)) if _plain(name) in ID_NAMES else -1


def _share_different(nodes: Table, name: str) -> float:
    distinct = nodes.distinct(name)
    return float((~distinct.missing).sum()) / max(distinct.num_present, 1)


def _has_fractions(nodes: Table, name: str) -> bool:
    numbers = nodes.distinct(name).numbers
    return bool((np.isfinite(numbers) & (np.floor(numbers) != numbers)).any())


def _holds_ends(nodes: Table, name: str, ends: list[set[str]]) -> float:
    """The share of ends found in a column, of the edge column that fits it second best."""
    values = set(nodes.distinct(name).values)
    shares = sorted(len(values & column) / len(column) for column in ends)
    return shares[-2] if len(shares) > 1 else 0.0


def _share_known(edges: Table, name: str, known: Set[str]) -> float:
    distinct = edges.distinct(name)
    is_known = np.fromiter((value in known for value in distinct.values), bool)
    return float(distinct.counts[is_known].sum()) / len(edges)
