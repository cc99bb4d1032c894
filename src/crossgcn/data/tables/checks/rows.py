"""Whether the node table, taken as a whole, can be learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from crossgcn.data.tables.cells import MISSING_WORDS
from crossgcn.data.tables.checks.problems import (
    Finding,
    Place,
    Rule,
    count_of,
    find_alike,
    quote,
    share_of,
)
from crossgcn.data.tables.plan import ColumnPlan
from crossgcn.data.tables.table import Distinct, Table

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


def check_ids(nodes: Table, id_column: str) -> Iterator[Finding]:
    """Ids that are missing, given twice, or hard to tell apart.

    ``NA`` is an id: a country, for example.

    Args:
        nodes: The node table.
        id_column: Where its ids are.
    """
    ids, place = nodes.distinct(id_column), Place(nodes, id_column)
    blank = ids.blank
    yield from place.at_values(
        blank,
        Rule("missing-id", "error", "the node has no id", "give it one, or delete the row"),
    )
    repeated = np.flatnonzero(pd.Series(ids.codes).duplicated() & ~blank[ids.codes])
    if len(repeated) > 0:
        second = int(repeated[0])
        first = nodes.row_number(int(np.argmax(ids.codes == ids.codes[second])))
        rule = Rule(
            "duplicate-id",
            "error",
            f"{{value}} is the id of row {first} already",
            "keep one row per node, or choose another column by --id-column",
        )
        yield place.at_row(second, rule, count=len(repeated))
    alike = find_alike(ids.values)
    if alike:
        second, earlier = next(iter(alike.items()))
        rule = Rule(
            "similar-ids",
            "warning",
            f"{{value}} differs from {quote(ids.values[earlier])} only in case or spaces, "
            "and is another node",
            "write the id the same way everywhere if one node is meant",
        )
        yield place.at_row(int(np.argmax(ids.codes == second)), rule, count=len(alike))


FEWEST_CELLS = 3
SMALLEST_SHARE = 0.02
"""Of all cells: where fewer say a word, it matters little what it stands for."""


def check_missing_categories(nodes: Table, column: str) -> Iterator[Finding]:
    """Words that many cells say, and that are taken for a missing value.

    Args:
        nodes: The node table, read with the usual words for a missing value.
        column: One that is taken as categories.
    """
    for word, said in _frequent_words(nodes, column):
        others = ",".join(sorted(MISSING_WORDS - {word}))
        rule = Rule(
            "missing-word",
            "warning",
            f"{{value}} is in {said} and counts as missing, not as a category",
            f"if it is a category, leave {quote(word)} out of the words for a missing value: "
            f"--missing {others}",
        )
        yield from Place(nodes, column).at_values(nodes.distinct(column).is_one_of({word}), rule)


def check_missing_classes(nodes: Table, target: str) -> Iterator[Finding]:
    """Words that many cells of the target say, which elsewhere are taken for a missing value.

    Args:
        nodes: The node table, of whose target every word is a class.
        target: The column to predict.
    """
    for word, said in _frequent_words(nodes, target):
        rule = Rule(
            "missing-word",
            "warning",
            f"{{value}} is in {said} and counts as a class, where in other columns it counts as "
            "missing",
            "if it stands for an unknown class, empty these cells, or count such words as missing "
            f"here too: --missing {','.join(sorted(MISSING_WORDS))}",
        )
        yield from Place(nodes, target).at_values(nodes.distinct(target).is_one_of({word}), rule)


def tell_missing(distinct: Distinct) -> str:
    """How missing values are written in a column: ``empty``, ``'NA'``, ``empty or 'NA'``.

    Args:
        distinct: A column's values, of which some are missing.
    """
    words = {
        value.strip() for value, gone in zip(distinct.values, distinct.missing, strict=True) if gone
    }
    return " or ".join(quote(word) if word else "empty" for word in sorted(words))


def _frequent_words(nodes: Table, column: str) -> Iterator[tuple[str, str]]:
    """Each word for a missing value that many cells say, and how many of them."""
    distinct, num_cells = nodes.distinct(column), len(nodes)
    if not distinct.is_one_of(MISSING_WORDS).any():
        return
    for word in sorted(MISSING_WORDS):
        count = int(distinct.counts[distinct.is_one_of({word})].sum())
        if count >= max(FEWEST_CELLS, SMALLEST_SHARE * num_cells):
            yield word, f"{share_of(count, num_cells)} of the cells"
