"""Finding what would hurt in a user's tables, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from crossgcn.data.tables.checks.columns import check_column
from crossgcn.data.tables.checks.edges import (
    check_edge_weights,
    check_ends,
    check_graph,
    check_homophily,
    check_repeated_edges,
    locate_ends,
    unique_edges,
)
from crossgcn.data.tables.checks.leaks import check_copies, check_leak
from crossgcn.data.tables.checks.problems import Finding, show_name
from crossgcn.data.tables.checks.rows import (
    check_features,
    check_ids,
    check_missing_categories,
    check_missing_classes,
    check_rows,
)
from crossgcn.data.tables.checks.target import Labels, check_split, check_target
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Table

MOST_COLUMNS = 3
"""So many columns with the same trouble are told one by one; of more, the first."""

MOST_NAMES = 10


def check_tables(nodes: Table, edges: Table | None, plan: TablePlan) -> list[Finding]:
    """Find what stops training, and what may spoil it.

    Args:
        nodes: The node table.
        edges: The edge table; none for nodes without a graph.
        plan: What their columns are taken for.

    Returns:
        Errors first, then warnings, each in the order: ids, target, split, columns, rows,
        edges, graph.
    """
    nodes = plan.reading(nodes)
    found = [*_check_nodes(nodes, plan)]
    if edges is not None:
        found += _check_edges(nodes, edges, plan)
    found.sort(key=lambda finding: finding.severity != "error")
    return found


def _check_nodes(nodes: Table, plan: TablePlan) -> Iterator[Finding]:
    labels = _labels_of(nodes, plan)
    yield from check_ids(nodes, plan.id_column)
    if plan.target is not None and labels is not None:
        yield from check_target(nodes, plan.target, labels)
        if plan.missing is None:
            yield from check_missing_classes(nodes, plan.target)
    if plan.split_column is not None:
        yield from check_split(nodes, plan.split_column, labels)
    features = plan.features
    yield from check_features(nodes, features)
    yield from _gather_columns(
        finding
        for column in plan.columns
        if column.kind not in ("id", "target", "split")
        for finding in check_column(nodes, column, plan.id_column)
    )
    if plan.missing is None:
        yield from _gather_columns(
            finding
            for column in features
            if column.kind == "categorical"
            for finding in check_missing_categories(nodes, column.name)
        )
    copies = list(check_copies(nodes, features, plan.target))
    yield from _gather_columns(copies)
    if labels is not None:
        copied = {finding.column for finding in copies if finding.kind == "copies-target"}
        others = [column for column in features if column.name not in copied]
        yield from _gather_columns(
            finding for column in others for finding in check_leak(nodes, column, labels)
        )
    yield from check_rows(nodes, features, plan.id_column)


def _check_edges(nodes: Table, edges: Table, plan: TablePlan) -> Iterator[Finding]:
    if plan.source_column is None or plan.destination_column is None:
        return
    columns = (plan.source_column, plan.destination_column)
    ends = locate_ends(nodes, edges, plan.id_column, columns)
    yield from check_ends(nodes, edges, plan.id_column, columns, ends)
    if plan.weight_column is not None:
        yield from check_edge_weights(edges, plan.weight_column)
    yield from check_repeated_edges(edges, columns, ends)
    pairs = unique_edges(ends)
    yield from check_graph(nodes, edges, plan.id_column, pairs)
    labels = _labels_of(nodes, plan)
    if plan.target is not None and labels is not None:
        ids = nodes.distinct(plan.id_column)
        classes = np.full(len(ids.values), -1)
        classes[ids.codes] = labels.codes
        yield from check_homophily(edges, plan.target, pairs, classes, labels)


def _labels_of(nodes: Table, plan: TablePlan) -> Labels | None:
    return None if plan.target is None else Labels.of(nodes.distinct(plan.target))


def _gather_columns(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Tell of the same trouble in many columns once, naming some of them."""
    by_kind: dict[str, list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault(finding.kind, []).append(finding)
    for same in by_kind.values():
        if len(same) <= MOST_COLUMNS:
            yield from same
            continue
        names = [show_name(finding.column or "") for finding in same[1 : 1 + MOST_NAMES]]
        more = f" and {len(same) - 1 - len(names):,} more" if len(same) - 1 > len(names) else ""
        message = f"{same[0].message}; likewise columns {', '.join(names)}{more}"
        yield replace(same[0], message=message, count=sum(finding.count for finding in same))
