"""Check tables before training: find what stops it, and what may spoil it.

Each rule is a function that appends problems to :class:`CheckedTables`; its docstring names the
harm that it prevents. A new rule is a function in the file of its table (:mod:`nodes`,
:mod:`target` or :mod:`edges`), named in the list at the end of that file.
"""

from __future__ import annotations

from collections.abc import Sequence

from crossgcn.data.tables.checks.edges import EDGES
from crossgcn.data.tables.checks.nodes import COLUMNS, FILES, IDS
from crossgcn.data.tables.checks.problems import CheckedTables, Problem, Rule, merge_alike
from crossgcn.data.tables.checks.target import TARGET
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Table

__all__ = ["COLUMNS", "IDS", "RULES", "TARGET", "check_tables"]

RULES: tuple[Rule, ...] = (*FILES, *IDS, *TARGET, *COLUMNS, *EDGES)
"""All rules, in the order of their problems."""


def check_tables(
    nodes: Table, edges: Table | None, plan: TablePlan, rules: Sequence[Rule] = RULES
) -> list[Problem]:
    """Return the problems of the tables: errors first, each severity in order of the rules."""
    tables = CheckedTables(plan.with_missing_words(nodes), edges, plan)
    for rule in rules:
        rule(tables)
    return sorted(merge_alike(tables.problems), key=lambda problem: problem.severity != "error")
