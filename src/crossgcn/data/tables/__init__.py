"""A user's own tables: one of nodes, one of edges, and a column to predict.

Names are imported on first use, so that a command's help needs no pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.tables.checks import Problem, check_tables
    from crossgcn.data.tables.encode import TableEncoder
    from crossgcn.data.tables.export import write_table
    from crossgcn.data.tables.graph import TableGraph, load_new_tables, load_tables
    from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
    from crossgcn.data.tables.read import read_table
    from crossgcn.data.tables.table import Table

__all__ = [
    "Problem",
    "Table",
    "TableChoices",
    "TableEncoder",
    "TableGraph",
    "TablePlan",
    "check_tables",
    "load_new_tables",
    "load_tables",
    "make_plan",
    "read_table",
    "write_table",
]

_HOMES = {
    "checks": ("Problem", "check_tables"),
    "encode": ("TableEncoder",),
    "export": ("write_table",),
    "graph": ("TableGraph", "load_new_tables", "load_tables"),
    "plan": ("TableChoices", "TablePlan", "make_plan"),
    "read": ("read_table",),
    "table": ("Table",),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
