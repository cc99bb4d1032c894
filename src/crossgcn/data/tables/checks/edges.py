"""Whether every edge leads from a node to another, and is there once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crossgcn.data.tables.checks.problems import (
    Finding,
    Place,
    Rule,
    count_of,
    quote,
    share_of,
    show_name,
)
from crossgcn.data.tables.checks.target import Labels
from crossgcn.data.tables.ids import LARGEST
from crossgcn.data.tables.table import Table

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


def check_edge_weights(edges: Table, weight_column: str) -> Iterator[Finding]:
    """Weights that are missing, no numbers, infinite, negative or nothing.

    Args:
        edges: The edge table.
        weight_column: Where its weights are.
    """
    weights, place = edges.distinct(weight_column), Place(edges, weight_column)
    numbers = weights.numbers
    yield from place.at_values(
        weights.missing,
        Rule(
            "missing-edge-weight",
            "error",
            "the edge has no weight",
            "write a number, 1 for an ordinary edge, or delete the row",
        ),
    )
    yield from place.at_values(
        np.isnan(numbers) & ~weights.missing,
        Rule(
            "bad-edge-weight",
            "error",
            "{value} is no number",
            "write the weight as a number such as 0.5",
        ),
    )
    yield from place.at_values(
        abs(numbers) > LARGEST,
        Rule(
            "infinite-edge-weight",
            "error",
            "{value} is more than a weight can be",
            "write a finite number below 1e38, or delete the row",
        ),
    )
    yield from place.at_values(
        (numbers < 0) & (numbers >= -LARGEST),
        Rule(
            "negative-edge-weight",
            "error",
            "{value} is negative, and neighbours are averaged by weight",
            "shift or rescale the weights to be positive, or delete the row",
        ),
    )
    yield from place.at_values(
        numbers == 0,
        Rule(
            "zero-edge-weight",
            "warning",
            "the weight is {value}: the edge connects nothing",
            "delete the row, or write what the edge weighs",
        ),
    )


FEWEST_NODES = 20
"""Of smaller graphs nothing can be said."""

SURE = 4.0
"""So many standard deviations below chance are no accident."""


def unique_edges(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each pair of different nodes once, the lower first, as ``[2, edges]``.

    Args:
        ends: From :func:`~crossgcn.data.tables.checks.edges.locate_ends`.
    """
    pairs = np.sort(ends[:, (ends >= 0).all(axis=0)], axis=0)
    pairs = pairs[:, pairs[0] != pairs[1]]
    span = int(pairs.max(initial=0)) + 1
    keys = pd.unique(pairs[0] * span + pairs[1])
    return np.stack(np.divmod(keys, span))


def check_graph(
    nodes: Table, edges: Table, id_column: str, pairs: NDArray[np.int64]
) -> Iterator[Finding]:
    """Nodes without neighbours, one node with most edges, graphs in pieces, too few edges.

    Args:
        nodes: The node table.
        edges: The edge table.
        id_column: Where the node table has its ids.
        pairs: From :func:`unique_edges`.
    """
    ids = nodes.distinct(id_column)
    num_nodes, num_edges = len(ids.values), pairs.shape[1]
    degrees = np.bincount(pairs.ravel(), minlength=num_nodes)
    isolated = (degrees == 0) & ~ids.blank
    yield from Place(nodes, id_column).at_values(
        isolated,
        Rule(
            "isolated-node",
            "warning",
            f"{{value}} has no edge, like {share_of(int(isolated.sum()), num_nodes)} of the "
            "nodes; it is judged by its own features alone",
            "add its edges if it should have some",
        ),
    )
    if num_nodes < FEWEST_NODES:
        return
    if 2 * num_edges < num_nodes:
        rule = Rule(
            "few-edges",
            "warning",
            f"{count_of(num_edges, 'different edge')} for {num_nodes:,} nodes: most nodes have "
            "hardly a neighbour to learn from",
            "add edges, or leave the table of edges out",
        )
        yield rule.at(edges, count=1)
        return
    hub = int(np.argmax(degrees))
    if 2 * degrees[hub] > num_edges:
        rule = Rule(
            "hub",
            "warning",
            f"{{value}} is in {share_of(int(degrees[hub]), num_edges)} of all edges, and brings "
            "the others no news",
            "delete it if it stands for 'unknown' or 'everyone'",
        )
        yield Place(nodes, id_column).at_row(int(np.argmax(ids.codes == hub)), rule)
    yield from _check_pieces(edges, degrees, pairs)


def _check_pieces(
    edges: Table, degrees: NDArray[np.int64], pairs: NDArray[np.int64]
) -> Iterator[Finding]:
    graph = coo_array((np.ones(pairs.shape[1], bool), tuple(pairs)), shape=2 * (len(degrees),))
    _, piece_of_node = connected_components(graph, directed=False)
    sizes = np.bincount(piece_of_node[degrees > 0])
    sizes = sizes[sizes > 0]
    if 2 * sizes.max() < sizes.sum():
        rule = Rule(
            "pieces",
            "warning",
            f"the graph is in {len(sizes):,} pieces, the largest with "
            f"{share_of(int(sizes.max()), int(sizes.sum()))} of the connected nodes; nothing is "
            "learned across them",
            "check whether edges were lost, for example by a filter",
        )
        yield rule.at(edges)


def check_homophily(
    edges: Table,
    target: str,
    pairs: NDArray[np.int64],
    classes: NDArray[np.int64],
    labels: Labels,
) -> Iterator[Finding]:
    """Neighbours that share their class less often than chance would have it.

    Chance keeps every node's degree and deals the ends of all edges anew.

    Args:
        edges: The edge table.
        target: The column that is predicted.
        pairs: From :func:`unique_edges`.
        classes: The class of each node that ``pairs`` may name; -1 where it has none.
        labels: What the classes are called.
    """
    ends = classes[pairs]
    ends = ends[:, (ends >= 0).all(axis=0)]
    num_edges = ends.shape[1]
    if num_edges < FEWEST_NODES:
        return
    share = float((ends[0] == ends[1]).mean())
    mix = np.bincount(ends.ravel(), minlength=len(labels.names)) / (2 * num_edges)
    chance = float((mix**2).sum())
    if share < chance - SURE * np.sqrt(chance * (1 - chance) / num_edges):
        rule = Rule(
            "unlike-neighbours",
            "warning",
            f"only {100 * share:.0f} % of edges join nodes of the same class by column "
            f"{target}, where chance would give {100 * chance:.0f} %: averaging neighbours may "
            "hide what a node is",
            "compare with a model that sees no graph (mlp), and keep the better",
        )
        yield rule.at(edges)
