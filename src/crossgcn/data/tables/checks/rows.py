"""Rules about the ids, the features and the rows of the node table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.checks.problems import Hit, Place, Rules, count_of, find_similar, quote
from crossgcn.data.tables.columns import MAX_CODES
from crossgcn.data.tables.plan import ColumnPlan
from crossgcn.data.tables.table import Distinct

MIN_FEATURE_COUNT = 3
"""A category in fewer cells gets no feature of its own."""

FEATURES_PER_NUMBER = 6

MAX_CHANCE_SHARE = 0.05
"""Greatest share of repeated rows that chance may explain."""

ID_RULES = Rules[Place]()


@ID_RULES.rule("error", "the node has no id", "give it one, or delete the row")
def _missing_id(ids: Place) -> Iterator[Hit]:
    yield from ids.at_values(ids.distinct.blank)


@ID_RULES.rule(
    "error",
    "{value} is already the id of row {first}",
    "keep one row per node, or choose another column with --id-column",
)
def _duplicate_id(ids: Place) -> Iterator[Hit]:
    distinct = ids.distinct
    repeated = np.flatnonzero(
        pd.Series(distinct.codes).duplicated() & ~distinct.blank[distinct.codes]
    )
    if len(repeated):
        first = distinct.first_row(int(distinct.codes[repeated[0]]))
        yield ids.at_row(int(repeated[0]), count=len(repeated), first=ids.table.row_number(first))


@ID_RULES.rule(
    "warning",
    "{value} differs from {other} only in case or spaces, but is another node",
    "write the id the same way everywhere if one node is meant",
)
def _similar_ids(ids: Place) -> Iterator[Hit]:
    similar = find_similar(ids.distinct.values)
    for second, earlier in [*similar.items()][:1]:
        row = ids.distinct.first_row(second)
        yield ids.at_row(row, count=len(similar), other=quote(ids.distinct.values[earlier]))


@dataclass(frozen=True)
class NodeRows(Place):
    """The rows of the node table, named by their ids."""

    features: tuple[ColumnPlan, ...]

    @cached_property
    def distincts(self) -> list[Distinct]:
        """The different values of each column of features."""
        return [self.table.distinct(column.name) for column in self.features]

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """Whether each row has no value in any column of features."""
        empty = np.full(len(self.table), bool(self.features))
        for distinct in self.distincts:
            empty &= distinct.missing[distinct.codes]
        return empty


FEATURE_RULES = Rules[NodeRows]()


@FEATURE_RULES.rule(
    "error",
    "no column is left to learn from besides ids, target, split and ignored columns",
    "add columns that describe the nodes, or choose some with --categorical, --numeric or --lists",
)
def _no_feature(rows: NodeRows) -> Iterator[Hit]:
    if not rows.features:
        yield Hit(rows.table)


@FEATURE_RULES.rule(
    "warning",
    "about {features:,} features for {nodes}: a model can learn the nodes by heart",
    "leave columns with many categories out with --ignore, or add nodes",
)
def _more_features_than_nodes(rows: NodeRows) -> Iterator[Hit]:
    num_features = 0
    for column, distinct in zip(rows.features, rows.distincts, strict=True):
        num_common = int((distinct.counts >= MIN_FEATURE_COUNT).sum())
        num_features += {"numeric": FEATURES_PER_NUMBER, "flag": 1}.get(column.kind, num_common)
    if num_features > len(rows.table):
        nodes = count_of(len(rows.table), "node")
        yield Hit(rows.table, words={"features": num_features, "nodes": nodes})


ROW_RULES = Rules[NodeRows]()


@ROW_RULES.rule(
    "warning",
    "node {value} has no value in any column of features",
    "fill in what is known of it, or delete it and its edges",
)
def _empty_row(rows: NodeRows) -> Iterator[Hit]:
    yield from rows.at_rows(rows.empty)


@ROW_RULES.rule(
    "warning",
    "node {value} is like row {first} in all {columns} of features",
    "delete it if it is the same node under another id: a test node may repeat a training node",
)
def _duplicate_row(rows: NodeRows) -> Iterator[Hit]:
    if not any(
        column.kind == "numeric" and len(distinct.values) > MAX_CODES
        for column, distinct in zip(rows.features, rows.distincts, strict=True)
    ):
        return
    codes = pd.DataFrame({number: distinct.codes for number, distinct in enumerate(rows.distincts)})
    again = codes.duplicated().to_numpy() & ~rows.empty
    if again.any() and _repeats_by_chance(codes[~again]) <= MAX_CHANCE_SHARE * int(again.sum()):
        second = int(np.argmax(again))
        first = int(np.argmax((codes == codes.iloc[second]).all(axis=1)))
        yield rows.at_row(
            second,
            count=int(again.sum()),
            first=rows.table.row_number(first),
            columns=count_of(len(rows.features), "column"),
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
