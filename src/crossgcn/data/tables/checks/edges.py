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

from crossgcn.data.tables.checks.problems import (
    Hit,
    Place,
    Problem,
    Rules,
    count_of,
    quote,
    share_of,
    show_name,
)
from crossgcn.data.tables.checks.target import Labels
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import MAX_WEIGHT, Table

MISSING, UNKNOWN = -1, -2

MIN_NODES = 20
"""Smaller graphs are too small to judge."""

SURE_DEVIATIONS = 4.0
"""This many standard deviations below chance are not an accident."""


def check_edges(
    nodes: Table, edges: Table, plan: TablePlan, labels: Labels | None
) -> Iterator[Problem]:
    """Yield problems of the edge table and of the graph it describes."""
    if plan.source_column is None or plan.destination_column is None:
        return
    ends = (plan.source_column, plan.destination_column)
    both = _Edges(nodes, edges, plan.id_column, ends, labels, plan.target)
    yield from END_RULES.apply(both)
    if plan.weight_column is not None:
        yield from WEIGHT_RULES.apply(Place(edges, plan.weight_column))
    yield from GRAPH_RULES.apply(both)


@dataclass(frozen=True)
class _Edges:
    nodes: Table
    edges: Table
    id_column: str
    end_columns: tuple[str, str]
    labels: Labels | None
    target: str | None

    @property
    def ids(self) -> Place:
        return Place(self.nodes, self.id_column)

    @property
    def sources(self) -> Place:
        return Place(self.edges, self.end_columns[0])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Position of each end among the different ids, or MISSING, or UNKNOWN: [2, edges]."""
        known = self.ids.distinct
        ids = pd.Index(known.values, dtype=object)
        blank = np.append(known.blank, False)
        ends = []
        for column in self.end_columns:
            distinct = self.edges.distinct(column)
            found = ids.get_indexer(pd.Index(distinct.values, dtype=object))
            unnamed = np.where(distinct.blank, MISSING, UNKNOWN)
            found = np.where((found < 0) | blank[found], unnamed, found)
            ends.append(found[distinct.codes])
        return np.stack(ends).astype(np.int64)

    @cached_property
    def is_proper(self) -> NDArray[np.bool_]:
        """Whether each edge connects two different nodes."""
        source, destination = self.ends
        return np.asarray((source >= 0) & (destination >= 0) & (source != destination))

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """A number per edge, the same for the same source and destination; -1 if improper."""
        return np.where(self.is_proper, self.ends[0] * self.span + self.ends[1], -1)

    @cached_property
    def undirected_keys(self) -> NDArray[np.int64]:
        """Like ``keys``, but the same for both directions."""
        low, high = np.sort(self.ends, axis=0)
        return np.where(self.is_proper, low * self.span + high, -1)

    @property
    def span(self) -> int:
        return int(self.ends.max()) + 1

    @cached_property
    def is_repeated(self) -> NDArray[np.bool_]:
        return pd.Series(self.keys).duplicated().to_numpy(dtype=bool) & self.is_proper

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Each pair of neighbours once: [2, pairs]."""
        keys = pd.unique(self.undirected_keys[self.is_proper])
        return np.stack(np.divmod(keys, max(self.span, 1)))

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        return np.bincount(self.pairs.ravel(), minlength=len(self.ids.distinct.values))

    @property
    def has_shape(self) -> bool:
        """Whether there are enough nodes and edges to judge the shape of the graph."""
        num_nodes = len(self.degrees)
        return num_nodes >= MIN_NODES and 2 * self.pairs.shape[1] >= num_nodes

    def at_unknown(self, column: str, is_unknown: NDArray[np.bool_]) -> Iterator[Hit]:
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

    def at_repeated(
        self, is_repeated: NDArray[np.bool_], keys: NDArray[np.int64], **words: Any
    ) -> Iterator[Hit]:
        """Yield a hit at the first repeated edge, with its other end and the earlier row."""
        second = int(np.argmax(is_repeated))
        earlier = self.edges.row_number(int(np.argmax(keys == keys[second])))
        other = quote(str(self.edges.frame[self.end_columns[1]].iloc[second]))
        yield from self.sources.at_rows(is_repeated, other=other, earlier=earlier, **words)


END_RULES = Rules[_Edges]()


@END_RULES.rule("error", "the edge has only one end", "name a node, or delete the row")
def _missing_edge_end(edges: _Edges) -> Iterator[Hit]:
    for column, found in zip(edges.end_columns, edges.ends, strict=True):
        yield from Place(edges.edges, column).at_rows(found == MISSING)


@END_RULES.rule(
    "error",
    "{value}, like every other end of an edge, is not in column {ids} of {file}, where ids are "
    "like {example}{meant}",
    "write the ids alike in both tables, or name the right columns with --id-column, "
    "--source-column and --destination-column",
    stops=True,
)
def _no_edge_end_known(edges: _Edges) -> Iterator[Hit]:
    if (edges.ends == UNKNOWN).all():
        for hit in edges.at_unknown(edges.end_columns[0], edges.ends[0] == UNKNOWN):
            yield replace(hit, count=edges.ends.size)


@END_RULES.rule(
    "error",
    "{value} is not a node: it is not in column {ids} of {file}{meant}",
    "add the node, correct the id, or delete the edge",
)
def _unknown_edge_end(edges: _Edges) -> Iterator[Hit]:
    for column, found in zip(edges.end_columns, edges.ends, strict=True):
        yield from edges.at_unknown(column, found == UNKNOWN)


WEIGHT_RULES = Rules[Place]()


@WEIGHT_RULES.rule(
    "error",
    "the edge has no weight",
    "write a number, 1 for an ordinary edge, or delete the row",
)
def _missing_edge_weight(weights: Place) -> Iterator[Hit]:
    yield from weights.at_values(weights.distinct.missing)


@WEIGHT_RULES.rule("error", "{value} is not a number", "write the weight as a number such as 0.5")
def _bad_edge_weight(weights: Place) -> Iterator[Hit]:
    distinct = weights.distinct
    yield from weights.at_values(np.isnan(distinct.numbers) & ~distinct.missing)


@WEIGHT_RULES.rule(
    "error",
    "{value} is too large for a weight",
    "write a finite number below 1e38, or delete the row",
)
def _infinite_edge_weight(weights: Place) -> Iterator[Hit]:
    yield from weights.at_values(abs(weights.distinct.numbers) > MAX_WEIGHT)


@WEIGHT_RULES.rule(
    "error",
    "{value} is negative, and neighbours are averaged by weight",
    "shift or rescale the weights to be positive, or delete the row",
)
def _negative_edge_weight(weights: Place) -> Iterator[Hit]:
    numbers = weights.distinct.numbers
    yield from weights.at_values((numbers < 0) & (numbers >= -MAX_WEIGHT))


@WEIGHT_RULES.rule(
    "warning",
    "the weight is {value}: the edge connects nothing",
    "delete the row, or write the weight of the edge",
)
def _zero_edge_weight(weights: Place) -> Iterator[Hit]:
    yield from weights.at_values(weights.distinct.numbers == 0)


GRAPH_RULES = Rules[_Edges]()


@GRAPH_RULES.rule(
    "warning",
    "{value} is connected to itself; the edge is left out, since every node sees its own features "
    "anyway",
    "delete the row, or correct the other end",
)
def _self_loop(edges: _Edges) -> Iterator[Hit]:
    source, destination = edges.ends
    yield from edges.sources.at_rows((source >= 0) & (source == destination))


@GRAPH_RULES.rule(
    "warning",
    "the edge from {value} to {other} is in row {earlier} already, and counts once",
    "delete the row; give a weight column if it should count more",
)
def _duplicate_edge(edges: _Edges) -> Iterator[Hit]:
    yield from edges.at_repeated(edges.is_repeated, edges.keys)


@GRAPH_RULES.rule(
    "warning",
    "the edge from {value} to {other} is in row {earlier} the other way round; edges have no "
    "direction, so both are one edge, like the {share} of edges that are given one way only",
    "delete one of the two; a direction that matters can be a column of the nodes",
)
def _reversed_edge(edges: _Edges) -> Iterator[Hit]:
    backward = pd.Series(edges.undirected_keys).duplicated().to_numpy(dtype=bool)
    backward = backward & edges.is_proper & ~edges.is_repeated
    num_one_way = int(edges.is_proper.sum() - edges.is_repeated.sum() - 2 * backward.sum())
    if num_one_way > 0:  # A table that lists every edge both ways does so on purpose.
        share = share_of(num_one_way, len(edges.edges))
        yield from edges.at_repeated(backward, edges.undirected_keys, share=share)


@GRAPH_RULES.rule(
    "warning",
    "{value} has no edge, like {share} of the nodes; it is judged by its own features alone",
    "add its edges if it should have some",
)
def _isolated_node(edges: _Edges) -> Iterator[Hit]:
    isolated = (edges.degrees == 0) & ~edges.ids.distinct.blank
    share = share_of(int(isolated.sum()), len(isolated))
    yield from edges.ids.at_values(isolated, share=share)


@GRAPH_RULES.rule(
    "warning",
    "{edges} for {nodes:,} nodes: most nodes have hardly a neighbour to learn from",
    "add edges, or leave the table of edges out",
)
def _few_edges(edges: _Edges) -> Iterator[Hit]:
    num_nodes, num_pairs = len(edges.degrees), edges.pairs.shape[1]
    if num_nodes >= MIN_NODES and 2 * num_pairs < num_nodes:
        words = {"edges": count_of(num_pairs, "different edge"), "nodes": num_nodes}
        yield Hit(edges.edges, words=words)


@GRAPH_RULES.rule(
    "warning",
    "{value} is in {share} of all edges, and tells its neighbours nothing",
    "delete it if it stands for 'unknown' or 'everyone'",
)
def _hub(edges: _Edges) -> Iterator[Hit]:
    node, num_pairs = int(np.argmax(edges.degrees)), edges.pairs.shape[1]
    degree = int(edges.degrees[node])
    if edges.has_shape and 2 * degree > num_pairs:
        row = edges.ids.distinct.first_row(node)
        yield edges.ids.at_row(row, share=share_of(degree, num_pairs))


@GRAPH_RULES.rule(
    "warning",
    "the graph is in {pieces:,} pieces, the largest with {share} of the connected nodes; nothing "
    "is learned across them",
    "check whether edges were lost, for example by a filter",
)
def _pieces(edges: _Edges) -> Iterator[Hit]:
    if not edges.has_shape:
        return
    pairs, num_nodes = edges.pairs, len(edges.degrees)
    graph = coo_array((np.ones(pairs.shape[1], bool), tuple(pairs)), shape=(num_nodes, num_nodes))
    _, piece_of_node = connected_components(graph, directed=False)
    sizes = np.bincount(piece_of_node[edges.degrees > 0])
    sizes = sizes[sizes > 0]
    largest, total = int(sizes.max()), int(sizes.sum())
    if 2 * largest < total:
        words = {"pieces": len(sizes), "share": share_of(largest, total)}
        yield Hit(edges.edges, words=words)


@GRAPH_RULES.rule(
    "warning",
    "only {share:.0f} % of edges join nodes of the same class by column {target}, where chance "
    "would give {chance:.0f} %: averaging neighbours may hide what a node is",
    "compare with a model that sees no graph (mlp), and keep the better",
)
def _unlike_neighbours(edges: _Edges) -> Iterator[Hit]:
    """Compare with random edges between nodes of the same degrees."""
    if edges.labels is None:
        return
    ids, labels = edges.ids.distinct, edges.labels
    classes = np.full(len(ids.values), -1)
    classes[ids.codes] = labels.codes
    ends = classes[edges.pairs]
    ends = ends[:, (ends >= 0).all(axis=0)]
    num_edges = ends.shape[1]
    if num_edges < MIN_NODES:
        return
    share = float((ends[0] == ends[1]).mean())
    mix = np.bincount(ends.ravel(), minlength=len(labels.names)) / (2 * num_edges)
    chance = float((mix**2).sum())
    if share < chance - SURE_DEVIATIONS * np.sqrt(chance * (1 - chance) / num_edges):
        words = {"share": 100 * share, "chance": 100 * chance, "target": edges.target}
        yield Hit(edges.edges, words=words)
