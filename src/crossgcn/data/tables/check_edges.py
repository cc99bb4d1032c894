"""Whether every edge leads from a node to another, and is there once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.check_places import Place, Rule, share_of
from crossgcn.data.tables.findings import Finding, quote, show_name
from crossgcn.data.tables.table import Table

__all__ = ["check_ends", "check_repeated_edges", "locate_ends"]

MISSING, UNKNOWN = -1, -2


def locate_ends(
    nodes: Table, edges: Table, id_column: str, end_columns: tuple[str, str]
) -> NDArray[np.int64]:
    """Which node each end of each edge is.

    Args:
        nodes: The node table.
        edges: The edge table.
        id_column: Where the node table has its ids.
        end_columns: Where the edge table has its two ends.

    Returns:
        ``[2, edges]``: the position of the id among the different ids of the node table; -1
        where the cell is empty, -2 where it is no node's.
    """
    known = nodes.distinct(id_column)
    ids = pd.Index(known.values, dtype=object)
    blank = np.append(known.blank, False)
    ends = []
    for column in end_columns:
        distinct = edges.distinct(column)
        found = ids.get_indexer(pd.Index(distinct.values, dtype=object))
        unnamed = np.where(distinct.blank, MISSING, UNKNOWN)
        found = np.where((found < 0) | blank[found], unnamed, found)
        ends.append(found[distinct.codes])
    return np.stack(ends).astype(np.int64)


def check_ends(
    nodes: Table,
    edges: Table,
    id_column: str,
    end_columns: tuple[str, str],
    ends: NDArray[np.int64],
) -> Iterator[Finding]:
    """Ends that are missing, or that are no node.

    Args:
        nodes: The node table.
        edges: The edge table.
        id_column: Where the node table has its ids.
        end_columns: Where the edge table has its two ends.
        ends: From :func:`locate_ends`.
    """
    missing = Rule(
        "missing-edge-end", "error", "the edge has only one end", "name a node, or delete the row"
    )
    for column, found in zip(end_columns, ends, strict=True):
        yield from Place(edges, column).at_rows(found == MISSING, missing)
    if (ends == UNKNOWN).all():
        yield _nowhere(nodes, edges, id_column, end_columns)
        return
    for column, found in zip(end_columns, ends, strict=True):
        unknown = np.flatnonzero(found == UNKNOWN)
        if len(unknown) > 0:
            value = str(edges.frame[column].iloc[unknown[0]])
            rule = Rule(
                "unknown-edge-end",
                "error",
                f"{{value}} is no node: it is not in column {show_name(id_column)} of {nodes.name}"
                + _near_miss(value, nodes, id_column),
                "add the node, correct the id, or delete the edge",
            )
            yield Place(edges, column).at_row(int(unknown[0]), rule, count=len(unknown))


def _nowhere(nodes: Table, edges: Table, id_column: str, end_columns: tuple[str, str]) -> Finding:
    ids = nodes.distinct(id_column).values
    rule = Rule(
        "no-edge-end-known",
        "error",
        f"{{value}}, and no other end of an edge, is in column {show_name(id_column)} of "
        f"{nodes.name}, where ids are like {quote(ids[0])}"
        + _near_miss(str(edges.frame[end_columns[0]].iloc[0]), nodes, id_column),
        "write the ids alike in both tables, or name the right columns by --id-column, "
        "--source-column and --destination-column",
    )
    return Place(edges, end_columns[0]).at_row(0, rule, count=2 * len(edges))


def _near_miss(value: str, nodes: Table, id_column: str) -> str:
    """The id that was probably meant, where spreadsheets are known to change ids."""

    def plain(text: str) -> str:
        return text.strip().casefold().removesuffix(".0").lstrip("0")

    meant = [known for known in nodes.distinct(id_column).values if plain(known) == plain(value)]
    return f" ({quote(meant[0])} is)" if meant else ""


def check_repeated_edges(
    edges: Table, end_columns: tuple[str, str], ends: NDArray[np.int64]
) -> Iterator[Finding]:
    """Edges that are there twice, in both directions, or from a node to itself.

    Args:
        edges: The edge table.
        end_columns: Where its two ends are.
        ends: From :func:`locate_ends`.
    """
    source, destination = ends
    known = (source >= 0) & (destination >= 0)
    looped = known & (source == destination)
    place = Place(edges, end_columns[0])
    yield from place.at_rows(
        looped,
        Rule(
            "self-loop",
            "warning",
            "{value} is connected to itself; the edge is left out, since every node sees its own "
            "features anyway",
            "delete the row, or correct the other end",
        ),
    )
    span = int(ends.max()) + 1
    proper = known & ~looped
    directed = np.where(proper, source * span + destination, -1)
    low, high = np.minimum(source, destination), np.maximum(source, destination)
    undirected = np.where(proper, low * span + high, -1)
    again = pd.Series(directed).duplicated().to_numpy() & proper
    if again.any():
        edge, earlier = _name_repetition(edges, end_columns[1], again, directed)
        rule = Rule(
            "duplicate-edge",
            "warning",
            f"the edge from {{value}} to {edge} is in row {earlier} already, and counts once",
            "delete the row; give a weight column if it should count more",
        )
        yield from place.at_rows(again, rule)
    backward = pd.Series(undirected).duplicated().to_numpy() & proper & ~again
    num_one_way = int(proper.sum() - again.sum() - 2 * backward.sum())
    if backward.any() and num_one_way > 0:  # a table that lists every edge both ways means to
        edge, earlier = _name_repetition(edges, end_columns[1], backward, undirected)
        rule = Rule(
            "reversed-edge",
            "warning",
            f"the edge from {{value}} to {edge} is in row {earlier} the other way round; edges "
            f"have no direction, so both are one, like the {share_of(num_one_way, len(edges))} "
            "of edges that are given one way only",
            "delete one of the two; a direction that matters can be a column of the nodes",
        )
        yield from place.at_rows(backward, rule)


def _name_repetition(
    edges: Table, end_column: str, repeated: NDArray[np.bool_], keys: NDArray[np.int64]
) -> tuple[str, int]:
    """The other end of the first repeated edge, and the row it repeats."""
    second = int(np.argmax(repeated))
    earlier = edges.row_number(int(np.argmax(keys == keys[second])))
    return quote(str(edges.frame[end_column].iloc[second])), earlier
