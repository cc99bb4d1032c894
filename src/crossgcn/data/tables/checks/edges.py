"""Rules about the edge table and the graph it describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.checks.problems import (
    Hit,
    Hits,
    Place,
    Problem,
    Subject,
    count_of,
    error,
    share_of,
    show_name,
    warning,
)
from crossgcn.data.tables.labels import Labels, read_labels
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Mask, Table

MISSING, UNKNOWN = -1, -2

MIN_NODES = 20
"""Smaller graphs are too small to judge."""

SURE_DEVIATIONS = 4.0
"""This many standard deviations below chance are not an accident."""


@dataclass(frozen=True)
class _Ends(Subject):
    """The ends of edges.

    Attributes:
        ends: Position of each end among the different ids, or MISSING, or UNKNOWN: [2, edges].
    """

    nodes: Table
    edges: Table
    id_column: str
    end_columns: tuple[str, str]
    ends: NDArray[np.int64]

    @property
    def ids(self) -> Place:
        return Place(self.nodes, self.id_column)

    @property
    def sources(self) -> Place:
        return Place(self.edges, self.end_columns[0])

    def at_unknown(self, column: str, is_unknown: Mask) -> Hits:
        """Yield a hit at the first unknown end, with the id that was probably meant."""

        def plain(text: str) -> str:  # Without what spreadsheets are known to change.
            return text.strip().casefold().removesuffix(".0").lstrip("0")

        if is_unknown.any():
            value = plain(str(self.edges.frame[column].iloc[int(np.argmax(is_unknown))]))
            meant = [known for known in self.ids.distinct.values if plain(known) == value]
            yield from Place(self.edges, column).at_rows(
                is_unknown,
                ids=show_name(self.id_column),
                file=self.nodes.name,
                example=quote(self.ids.distinct.values[0]),
                meant=f" ({quote(meant[0])} is)" if meant else "",
            )

    @error("the edge has only one end", "name a node, or delete the row")
    def missing_edge_end(self) -> Hits:
        for column, found in zip(self.end_columns, self.ends, strict=True):
            yield from Place(self.edges, column).at_rows(found == MISSING)

    @error(
        "{value}, like every other end of an edge, is not in column {ids} of {file}, where ids are "
        "like {example}{meant}",
        "write the ids alike in both tables, or name the right columns with --id-column, "
        "--source-column and --destination-column",
        stops=True,
    )
    def no_edge_end_known(self) -> Hits:
        if (self.ends == UNKNOWN).all():
            for hit in self.at_unknown(self.end_columns[0], self.ends[0] == UNKNOWN):
                yield replace(hit, count=self.ends.size)

    @error(
        "{value} is not a node: it is not in column {ids} of {file}{meant}",
        "add the node, correct the id, or delete the edge",
    )
    def unknown_edge_end(self) -> Hits:
        for column, found in zip(self.end_columns, self.ends, strict=True):
            yield from self.at_unknown(column, found == UNKNOWN)


class _Weights(Place):
    """The column of weights."""

    @error(
        "the edge has no weight",
        "write a number, 1 for an ordinary edge, or delete the row",
    )
    def missing_edge_weight(self) -> Hits:
        yield from self.at_values(self.distinct.missing)

    @error("{value} is not a number", "write the weight as a number such as 0.5")
    def bad_edge_weight(self) -> Hits:
        distinct = self.distinct
        yield from self.at_values(np.isnan(distinct.numbers) & ~distinct.missing)

    @error(
        "{value} is too large for a weight",
        f"write finite numbers, divided by the largest if one is above {MOST_WEIGHT:g}",
    )
    def infinite_edge_weight(self) -> Hits:
        yield from self.at_values(abs(self.distinct.numbers) > MOST_WEIGHT)

    @error(
        "{value} is negative, and neighbours are averaged by weight",
        "shift or rescale the weights to be positive, or delete the row",
    )
    def negative_edge_weight(self) -> Hits:
        numbers = self.distinct.numbers
        yield from self.at_values((numbers < 0) & (numbers >= -MOST_WEIGHT))

    @warning(
        "the weight is {value}: the edge connects nothing",
        "delete the row, or write the weight of the edge",
    )
    def zero_edge_weight(self) -> Hits:
        yield from self.at_values(self.distinct.numbers == 0)


@dataclass(frozen=True)
class _Graph(_Ends):
    """The graph that the edges describe."""

    labels: Labels | None
    target: str | None

    @cached_property
    def is_proper(self) -> Mask:
        """Whether each edge connects two different nodes."""
        source, destination = self.ends
        return np.asarray((source >= 0) & (destination >= 0) & (source != destination))

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """A number per edge for its ends in order, and one for them in any order: [2, edges].

        Edges that do not connect two different nodes have -1.
        """
        (source, destination), (low, high) = self.ends, np.sort(self.ends, axis=0)
        span = len(self.ids.distinct.values)
        keys = np.stack([source * span + destination, low * span + high])
        return np.where(self.is_proper, keys, -1)

    @cached_property
    def is_repeated(self) -> NDArray[np.bool_]:
        """Whether an earlier edge has the same key, for both kinds of keys: [2, edges]."""
        return np.stack([pd.Series(key).duplicated() for key in self.keys]) & self.is_proper

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Each pair of neighbours once: [2, pairs]."""
        keys = pd.unique(self.keys[1, self.is_proper])
        return np.stack(np.divmod(keys, len(self.ids.distinct.values)))

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        return np.bincount(self.pairs.ravel(), minlength=len(self.ids.distinct.values))

    @property
    def homophily(self) -> dict[str, float] | None:
        """See :func:`find_homophily`."""
        if self.labels is None:
            return None
        ids = self.ids.distinct
        node_of_id = np.zeros(len(ids.values), np.int64)
        node_of_id[ids.codes] = np.arange(len(ids.codes))
        ends = node_of_id[self.pairs]
        ends = ends[:, self.labels.known[ends].all(axis=0)]
        num_edges = ends.shape[1]
        if num_edges == 0:
            return None
        if self.labels.numbers is not None:
            numbers = self.labels.numbers.astype(np.float64)[np.concatenate([ends, ends[::-1]], 1)]
            if not np.isfinite(numbers).all() or np.ptp(numbers) == 0:
                return None
            return {"edges": num_edges, "correlation": float(np.corrcoef(numbers)[0, 1])}
        classes = self.labels.codes[ends]
        mix = np.bincount(classes.ravel(), minlength=len(self.labels.names)) / (2 * num_edges)
        return {
            "edges": num_edges,
            "same_class": float((classes[0] == classes[1]).mean()),
            "chance": float((mix**2).sum()),
        }

    @property
    def has_shape(self) -> bool:
        """Whether there are enough nodes and edges to judge the shape of the graph."""
        num_nodes = len(self.degrees)
        return num_nodes >= MIN_NODES and 2 * self.pairs.shape[1] >= num_nodes

    def at_repeated(self, is_repeated: Mask, keys: NDArray[np.int64], **words: Any) -> Hits:
        """Yield a hit at the first repeated edge, with its other end and the earlier row."""
        second = int(np.argmax(is_repeated))
        earlier = self.edges.row_number(int(np.argmax(keys == keys[second])))
        other = quote(str(self.edges.frame[self.end_columns[1]].iloc[second]))
        yield from self.sources.at_rows(is_repeated, other=other, earlier=earlier, **words)

    @warning(
        "{value} is connected to itself; the edge is left out, since every node sees its own "
        "features anyway",
        "delete the row, or correct the other end",
    )
    def self_loop(self) -> Hits:
        source, destination = self.ends
        yield from self.sources.at_rows((source >= 0) & (source == destination))

    @warning(
        "the edge from {value} to {other} is in row {earlier} already, and counts once",
        "delete the row; give a weight column if it should count more",
    )
    def duplicate_edge(self) -> Hits:
        yield from self.at_repeated(self.is_repeated[0], self.keys[0])

    @warning(
        "the edge from {value} to {other} is in row {earlier} the other way round; edges have no "
        "direction, so both are one edge, like the {share} of edges that are given one way only",
        "delete one of the two; a direction that matters can be a column of the nodes",
    )
    def reversed_edge(self) -> Hits:
        forward, either = self.is_repeated
        backward = either & ~forward
        num_one_way = int(self.is_proper.sum() - forward.sum() - 2 * backward.sum())
        if num_one_way > 0:  # A table that lists every edge both ways does so on purpose.
            share = share_of(num_one_way, len(self.edges))
            yield from self.at_repeated(backward, self.keys[1], share=share)

    @warning(
        "{value} has no edge, like {share} of the nodes; it is judged by its own features alone",
        "add its edges if it should have some",
    )
    def isolated_node(self) -> Hits:
        isolated = (self.degrees == 0) & ~self.ids.distinct.blank
        share = share_of(int(isolated.sum()), len(isolated))
        yield from self.ids.at_values(isolated, share=share)

    @warning(
        "{edges} for {nodes:,} nodes: most nodes have hardly a neighbour to learn from",
        "add edges, or leave the table of edges out",
    )
    def few_edges(self) -> Hits:
        num_nodes, num_pairs = len(self.degrees), self.pairs.shape[1]
        if num_nodes >= MIN_NODES and 2 * num_pairs < num_nodes:
            words = {"edges": count_of(num_pairs, "different edge"), "nodes": num_nodes}
            yield Hit(self.edges, words=words)

    @warning(
        "{value} is in {share} of all edges, and tells its neighbours nothing",
        "delete it if it stands for 'unknown' or 'everyone'",
    )
    def hub(self) -> Hits:
        node, num_pairs = int(np.argmax(self.degrees)), self.pairs.shape[1]
        degree = int(self.degrees[node])
        if self.has_shape and 2 * degree > num_pairs:
            row = self.ids.distinct.first_row(node)
            yield self.ids.at_row(row, share=share_of(degree, num_pairs))

    @warning(
        "the graph is in {pieces:,} pieces, the largest with {share} of the connected nodes; "
        "nothing is learned across them",
        "check whether edges were lost, for example by a filter",
    )
    def pieces(self) -> Hits:
        if not self.has_shape:
            return
        ones, size = np.ones(self.pairs.shape[1], bool), len(self.degrees)
        graph = coo_array((ones, tuple(self.pairs)), shape=(size, size))
        _, piece_of_node = connected_components(graph, directed=False)
        sizes = np.bincount(piece_of_node[self.degrees > 0])
        sizes = sizes[sizes > 0]
        largest, total = int(sizes.max()), int(sizes.sum())
        if 2 * largest < total:
            words = {"pieces": len(sizes), "share": share_of(largest, total)}
            yield Hit(self.edges, words=words)

    @warning(
        "only {share:.0f} % of edges join nodes of the same class by column {target}, where chance "
        "would give {chance:.0f} %: averaging neighbours may hide what a node is",
        "compare with a model that sees no graph (mlp), and keep the better",
    )
    def unlike_neighbours(self) -> Hits:
        """Compare with random edges between nodes of the same degrees."""
        homophily = self.homophily
        if homophily is None or "same_class" not in homophily:
            return
        share, chance, num_edges = homophily["same_class"], homophily["chance"], homophily["edges"]
        deviation = np.sqrt(chance * (1 - chance) / num_edges)
        if num_edges >= MIN_NODES and share < chance - SURE_DEVIATIONS * deviation:
            words = {"share": 100 * share, "chance": 100 * chance, "target": self.target}
            yield Hit(self.edges, words=words)


def find_homophily(nodes: Table, edges: Table, plan: TablePlan) -> dict[str, float] | None:
    """Return how alike neighbours are, or None where no edge joins two labelled nodes.

    For classes, ``same_class`` is the share of edges that join equal ones, and ``chance`` that
    share among random edges between nodes of the same degrees. For numbers, ``correlation`` is
    that of the two ends. ``edges`` counts the edges that join labelled nodes.
    """
    if plan.target is None:
        return None
    nodes = plan.with_missing_words(nodes)
    columns, ends = _find_ends(nodes, edges, plan)
    labels = read_labels(nodes, plan)
    return _Graph(nodes, edges, plan.id_column, columns, ends, labels, plan.target).homophily


def _find_ends(
    nodes: Table, edges: Table, plan: TablePlan
) -> tuple[tuple[str, str], NDArray[np.int64]]:
    """Return the columns of both ends, and the ends as in :class:`_Ends`."""
    assert plan.source_column is not None and plan.destination_column is not None
    columns = plan.source_column, plan.destination_column
    found = []
    for column in columns:
        distinct = edges.distinct(column)
        nodes_of_edges = edges.find(column, nodes.distinct(plan.id_column).values)
        nodes_of_edges[nodes_of_edges < 0] = UNKNOWN
        found.append(np.where(distinct.blank[distinct.codes], MISSING, nodes_of_edges))
    return columns, np.stack(found)


def check_edges(
    nodes: Table, edges: Table, plan: TablePlan, labels: Labels | None
) -> Iterator[Problem]:
    """Yield problems of the edge table and of the graph it describes."""
    if plan.source_column is None or plan.destination_column is None:
        return
    subject = nodes, edges, plan.id_column, *_find_ends(nodes, edges, plan)
    yield from _Ends(*subject).check()
    if plan.weight_column is not None:
        yield from _Weights(edges, plan.weight_column).check()
    yield from _Graph(*subject, labels, plan.target).check()
