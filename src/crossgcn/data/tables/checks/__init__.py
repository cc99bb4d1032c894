"""Check tables before training: find what stops it, and what may spoil it.

Each rule is a function that appends problems to :class:`CheckedTables`. A new rule is a function
beside those of its kind (:mod:`target`, :mod:`columns` or :mod:`edges`), named in a list below;
its docstring names the harm that it prevents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crossgcn.data.tables.checks import columns, target
from crossgcn.data.tables.checks import edges as edge_rules
from crossgcn.data.tables.checks.problems import CheckedTables, Problem, merge_alike
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import Table

Rule = Callable[[CheckedTables], None]


def text_encoding(tables: CheckedTables) -> None:
    """A wrong guess of the encoding turns letters with accents into other categories."""
    for table in filter(None, (tables.nodes, tables.edges)):
        if table.encoding != "UTF-8":
            message = f"the file is not UTF-8, and was read as {table.encoding}"
            remedy = "check letters with accents; to be sure, save the file as 'CSV UTF-8'"
            tables.add("warning", "text-encoding", message, remedy, table=table)


IDS: tuple[Rule, ...] = (target.missing_id, target.duplicate_id)
TARGET: tuple[Rule, ...] = (
    target.no_target,
    target.too_many_classes,
    target.rare_classes,
    target.target_not_a_number,
    target.number_as_classes,
    target.few_labels,
    target.unbalanced_classes,
    target.unknown_split,
    target.unfilled_split,
)
COLUMNS: tuple[Rule, ...] = (
    columns.no_feature,
    columns.not_a_number,
    columns.not_a_date,
    columns.ambiguous_number,
    columns.ambiguous_dates,
    columns.missing_word,
    columns.mixed_column,
    columns.id_as_feature,
    columns.left_out,
    columns.pooled_categories,
    columns.copied_column,
    columns.gives_target_away,
)
EDGES: tuple[Rule, ...] = (
    edge_rules.edge_ends,
    edge_rules.bad_edge_weight,
    edge_rules.self_loop,
    edge_rules.repeated_edge,
    edge_rules.isolated_node,
    edge_rules.unlike_neighbours,
)
RULES: tuple[Rule, ...] = (text_encoding, *IDS, *TARGET, *COLUMNS, *EDGES)
"""All rules, in the order of their problems."""


def check_tables(
    nodes: Table, edges: Table | None, plan: TablePlan, rules: Sequence[Rule] | None = None
) -> list[Problem]:
    """Return the problems of the tables: errors first, then warnings, each in order of the rules.

    Args:
        rules: All of :data:`RULES` by default.
    """
    tables = CheckedTables(plan.with_missing_words(nodes), edges, plan)
    for rule in RULES if rules is None else rules:
        rule(tables)
    return sorted(merge_alike(tables.problems), key=lambda problem: problem.severity != "error")
