"""Check tables before training: find what stops it, and what may spoil it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from crossgcn.data.tables.checks.columns import check_columns
from crossgcn.data.tables.checks.edges import check_edges, find_homophily
from crossgcn.data.tables.checks.leaks import check_leaks
from crossgcn.data.tables.checks.problems import (
    Hit,
    Hits,
    Place,
    Problem,
    Subject,
    count_of,
    error,
    find_similar,
    show_file,
    show_name,
    warning,
)
from crossgcn.data.tables.checks.target import check_target
from crossgcn.data.tables.columns import MAX_CODES
from crossgcn.data.tables.encode.numbers import NUM_BUCKETS
from crossgcn.data.tables.labels import read_labels
from crossgcn.data.tables.plan import ColumnPlan, TablePlan
from crossgcn.data.tables.table import Distinct, Mask, Table

__all__ = ["Problem", "check_ids", "check_tables", "find_homophily", "show_file", "show_name"]


def check_tables(nodes: Table, edges: Table | None, plan: TablePlan) -> list[Problem]:
    """Return the problems of the tables.

    Errors come first, then warnings, each in the order: file, ids, target, split, columns, rows,
    edges, graph.
    """
    nodes = plan.with_missing_words(nodes)
    labels = None if plan.target is None else read_labels(nodes, plan)
    problems = [
        *_File(nodes).check(),
        *check_ids(nodes, plan.id_column),
        *check_target(nodes, plan, labels),
        *check_columns(nodes, plan, labels),
        *check_leaks(nodes, plan, labels),
        *_NodeRows(nodes, plan.id_column, plan.features).check(),
        *([] if edges is None else _File(edges).check()),
        *([] if edges is None else check_edges(nodes, edges, plan, labels)),
    ]
    return sorted(problems, key=lambda problem: problem.severity != "error")


FEATURES_PER_NUMBER = NUM_BUCKETS + 2

MIN_COLUMNS_ALIKE = 8
"""Different nodes are often alike in fewer columns."""

MAX_CHANCE_SHARE = 0.05
"""Greatest share of repeated rows that chance may explain."""


def check_ids(nodes: Table, column: str) -> Iterator[Problem]:
    """Yield problems of the ids of nodes."""
    return _Ids(nodes, column).check()


@dataclass(frozen=True)
class _File(Subject):
    """A file of text."""

    table: Table

    @warning(
        "the file is not UTF-8, and was read as {encoding}",
        "check letters with accents; to be sure, save the file as 'CSV UTF-8'",
    )
    def text_encoding(self) -> Hits:
        if self.table.encoding != "UTF-8":
            yield Hit(self.table, words={"encoding": self.table.encoding})


class _Ids(Place):
    """The ids of the nodes."""

    @error("the node has no id", "give it one, or delete the row")
    def missing_id(self) -> Hits:
        yield from self.at_values(self.distinct.blank)

    @error(
        "{value} is already the id of row {first}",
        "keep one row per node, or choose another column with --id-column",
    )
    def duplicate_id(self) -> Hits:
        distinct = self.distinct
        repeated = np.flatnonzero(
            pd.Series(distinct.codes).duplicated() & ~distinct.blank[distinct.codes]
        )
        if len(repeated):
            row = int(repeated[0])
            first = self.table.row_number(distinct.first_row(int(distinct.codes[row])))
            yield self.at_row(row, count=len(repeated), first=first)

    @warning(
        "{value} differs from {other} only in case or spaces, but is another node",
        "write the id the same way everywhere if one node is meant",
    )
    def similar_ids(self) -> Hits:
        values = self.distinct.values
        yield from self.at_similar(values, find_similar(values))


@dataclass(frozen=True)
class _NodeRows(Place):
    """The rows of the node table, named by their ids."""

    features: tuple[ColumnPlan, ...]

    @cached_property
    def distincts(self) -> list[Distinct]:
        """The different values of each column of features."""
        return [self.table.distinct(column.name) for column in self.features]

    @cached_property
    def empty(self) -> Mask:
        """Whether each row has no value in any column of features."""
        empty = np.full(len(self.table), bool(self.features))
        for distinct in self.distincts:
            empty &= distinct.missing[distinct.codes]
        return empty

    @error(
        "no column is left to learn from besides ids, target, split and ignored columns",
        "add columns that describe the nodes, or choose some with --categorical, --numeric or "
        "--lists",
    )
    def no_feature(self) -> Hits:
        if not self.features:
            yield Hit(self.table)

    @warning(
        "about {features:,} features for {nodes}: a model can learn the nodes by heart",
        "leave columns with many categories out with --ignore, or add nodes",
    )
    def more_features_than_nodes(self) -> Hits:
        num_features = 0
        for column, distinct in zip(self.features, self.distincts, strict=True):
            num_common = int((distinct.counts > 1).sum())
            num_features += {"numeric": FEATURES_PER_NUMBER, "flag": 1}.get(column.kind, num_common)
        if num_features > len(self.table):
            nodes = count_of(len(self.table), "node")
            yield Hit(self.table, words={"features": num_features, "nodes": nodes})

    @warning(
        "node {value} has no value in any column of features",
        "fill in what is known of it, or delete it and its edges",
    )
    def empty_row(self) -> Hits:
        yield from self.at_rows(self.empty)

    @warning(
        "node {value} is like row {first} in all {columns} of features",
        "delete it if it is the same node under another id: a test node may repeat a training node",
    )
    def duplicate_row(self) -> Hits:
        if len(self.features) < MIN_COLUMNS_ALIKE:
            return
        if not any(
            column.kind == "numeric" and len(distinct.values) > MAX_CODES
            for column, distinct in zip(self.features, self.distincts, strict=True)
        ):
            return
        codes = pd.DataFrame(dict(enumerate(distinct.codes for distinct in self.distincts)))
        again = codes.duplicated().to_numpy() & ~self.empty
        if again.any() and _repeats_by_chance(codes[~again]) <= MAX_CHANCE_SHARE * int(again.sum()):
            second = int(np.argmax(again))
            first = int(np.argmax((codes == codes.iloc[second]).all(axis=1)))
            yield self.at_row(
                second,
                count=int(again.sum()),
                first=self.table.row_number(first),
                columns=count_of(len(self.features), "column"),
            )


def _repeats_by_chance(codes: pd.DataFrame) -> float:
    """Return the expected number of equal pairs of rows if columns were independent."""
    size = len(codes)
    num_pairs = size * (size - 1) / 2
    share = 1.0
    for name in codes:
        counts = np.bincount(codes[name]).astype(np.float64)
        share *= float((counts * (counts - 1)).sum()) / max(2 * num_pairs, 1)
    return share * num_pairs
