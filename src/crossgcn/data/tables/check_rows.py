"""Whether the node table, taken as a whole, can be learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from crossgcn.data.tables.check_places import Place, Rule, count_of
from crossgcn.data.tables.findings import Finding
from crossgcn.data.tables.plan import ColumnPlan
from crossgcn.data.tables.table import Table

__all__ = ["check_features", "check_rows"]

MANY_NUMBERS = 12
UNLIKELY = 0.05
"""The share of repeated rows that chance explains, below which they are no chance."""

WORTH_A_FEATURE = 3
"""A category that fewer nodes have gets no feature of its own."""

FEATURES_PER_NUMBER = 6


def check_features(nodes: Table, columns: Sequence[ColumnPlan]) -> Iterator[Finding]:
    """No column to learn from, or more features than nodes.

    Args:
        nodes: The node table.
        columns: Those that features are made of.
    """
    if not columns:
        rule = Rule(
            "no-feature",
            "error",
            "no column is left to learn from besides ids, target, split and what is ignored",
            "add columns that describe the nodes, or choose by --categorical, --numeric or --lists",
        )
        yield rule.at(nodes)
        return
    num_features = sum(_count_features(nodes, column) for column in columns)
    if num_features > len(nodes):
        rule = Rule(
            "more-features-than-nodes",
            "warning",
            f"about {num_features:,} features for {count_of(len(nodes), 'node')}: a model can "
            "learn them by heart",
            "leave columns with many categories out by --ignore, or add nodes",
        )
        yield rule.at(nodes)


def _count_features(nodes: Table, column: ColumnPlan) -> int:
    if column.kind == "numeric":
        return FEATURES_PER_NUMBER
    if column.kind == "flag":
        return 1
    counts = nodes.distinct(column.name).counts
    return int((counts >= WORTH_A_FEATURE).sum())


def check_rows(nodes: Table, columns: Sequence[ColumnPlan], id_column: str) -> Iterator[Finding]:
    """Rows that say nothing, and rows that say the same though ids differ.

    Args:
        nodes: The node table.
        columns: Those that features are made of.
        id_column: Where the ids are.
    """
    if not columns:
        return
    empty = np.ones(len(nodes), bool)
    for column in columns:
        distinct = nodes.distinct(column.name)
        empty &= distinct.missing[distinct.codes]
        if not empty.any():
            break
    place = Place(nodes, id_column)
    yield from place.at_rows(
        empty,
        Rule(
            "empty-row",
            "warning",
            "node {value} has no value in any column that is learned from",
            "fill in what is known of it, or delete it and its edges",
        ),
    )
    distincts = [nodes.distinct(column.name) for column in columns]
    is_detailed = any(
        column.kind == "numeric" and len(distinct.values) > MANY_NUMBERS
        for column, distinct in zip(columns, distincts, strict=True)
    )
    if not is_detailed:
        return
    codes = pd.DataFrame({number: distinct.codes for number, distinct in enumerate(distincts)})
    again = codes.duplicated().to_numpy() & ~empty
    if again.any() and _repeats_by_chance(codes[~again]) <= UNLIKELY * int(again.sum()):
        second = int(np.argmax(again))
        first = int(np.argmax((codes == codes.iloc[second]).all(axis=1)))
        rule = Rule(
            "duplicate-row",
            "warning",
            f"node {{value}} is like row {nodes.row_number(first)} in all "
            f"{count_of(len(columns), 'column')} that are learned from",
            "delete it if it is the same node under another id: tests may see trained rows",
        )
        yield place.at_row(second, rule, count=int(again.sum()))


def _repeats_by_chance(codes: pd.DataFrame) -> float:
    """Pairs of rows that would be alike if columns had nothing to do with each other."""
    size = len(codes)
    num_pairs = size * (size - 1) / 2
    alike = 1.0
    for name in codes:
        counts = np.bincount(codes[name]).astype(np.float64)
        alike *= float((counts * (counts - 1)).sum()) / max(2 * num_pairs, 1)
    return alike * num_pairs
