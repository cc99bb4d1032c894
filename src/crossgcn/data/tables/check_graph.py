"""Whether the edges, taken together, make a graph that can help."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crossgcn.data.tables.check_labels import Labels
from crossgcn.data.tables.check_places import Place, Rule, count_of, share_of
from crossgcn.data.tables.findings import Finding
from crossgcn.data.tables.table import Table

__all__ = ["check_graph", "check_homophily", "unique_edges"]

FEWEST_NODES = 20
"""Of smaller graphs nothing can be said."""

SURE = 4.0
"""So many standard deviations below chance are no accident."""


def unique_edges(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each pair of different nodes once, the lower first, as ``[2, edges]``.

    Args:
        ends: From :func:`~crossgcn.data.tables.check_edges.locate_ends`.
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
