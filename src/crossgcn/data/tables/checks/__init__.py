"""Check tables before training: find what stops it, and what may spoil it.

Each rule is a function that appends problems to :class:`CheckedTables`; its docstring names the
harm that it prevents. A new rule is a function beside those of its table (:mod:`nodes`,
:mod:`target` or :mod:`edges`), named in a list below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crossgcn.data.tables.checks import edges as of_edges
from crossgcn.data.tables.checks import nodes as of_nodes
from crossgcn.data.tables.checks import target as of_target
from crossgcn.data.tables.checks.problems import CheckedTables, Problem, merge_alike
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Table

Rule = Callable[[CheckedTables], None]

IDS: tuple[Rule, ...] = (of_nodes.missing_id, of_nodes.duplicate_id)
TARGET: tuple[Rule, ...] = (
    of_target.no_target,
    of_target.rare_classes,
    of_target.number_as_classes,
    of_target.unknown_split,
    of_target.unfilled_split,
)
COLUMNS: tuple[Rule, ...] = (
    of_nodes.no_feature,
    of_nodes.not_a_number,
    of_nodes.not_a_date,
    of_nodes.ambiguous_value,
    of_nodes.missing_word,
    of_nodes.mixed_column,
    of_nodes.id_as_feature,
    of_nodes.left_out,
    of_nodes.pooled_categories,
    of_nodes.copied_column,
    of_target.gives_target_away,
)
EDGES: tuple[Rule, ...] = (
    of_edges.edge_ends,
    of_edges.bad_edge_weight,
    of_edges.self_loop,
    of_edges.repeated_edge,
    of_edges.isolated_node,
)
RULES: tuple[Rule, ...] = (of_nodes.text_encoding, *IDS, *TARGET, *COLUMNS, *EDGES)
"""All rules, in the order of their problems."""


def check_tables(
    nodes: Table, edges: Table | None, plan: TablePlan, rules: Sequence[Rule] = RULES
) -> list[Problem]:
    """Return the problems of the tables: errors first, each severity in order of the rules."""
    tables = CheckedTables(plan.with_missing_words(nodes), edges, plan)
    for rule in rules:
        rule(tables)
    return sorted(merge_alike(tables.problems), key=lambda problem: problem.severity != "error")
