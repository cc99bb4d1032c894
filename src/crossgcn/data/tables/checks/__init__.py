"""Check tables before training: find what stops it, and what may spoil it."""

from __future__ import annotations

from crossgcn.data.tables.checks.columns import check_columns
from crossgcn.data.tables.checks.edges import check_edges, find_homophily
from crossgcn.data.tables.checks.leaks import check_leaks
from crossgcn.data.tables.checks.problems import Problem, show_file, show_name
from crossgcn.data.tables.checks.rows import check_file, check_ids, check_rows
from crossgcn.data.tables.checks.target import check_target
from crossgcn.data.tables.labels import read_labels
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Table

__all__ = ["Problem", "check_tables", "find_homophily", "show_file", "show_name"]


def check_tables(nodes: Table, edges: Table | None, plan: TablePlan) -> list[Problem]:
    """Return the problems of the tables.

    Errors come first, then warnings, each in the order: file, ids, target, split, columns, rows,
    edges, graph.
    """
    nodes = plan.with_missing_words(nodes)
    labels = None if plan.target is None else read_labels(nodes, plan)
    problems = [
        *check_file(nodes),
        *check_ids(nodes, plan),
        *check_target(nodes, plan, labels),
        *check_columns(nodes, plan, labels),
        *check_leaks(nodes, plan, labels),
        *check_rows(nodes, plan),
        *([] if edges is None else check_file(edges)),
        *([] if edges is None else check_edges(nodes, edges, plan, labels)),
    ]
    return sorted(problems, key=lambda problem: problem.severity != "error")
