"""A user's own tables: one of nodes, one of edges, and a column to predict.

Names are imported on first use, so that a command's help needs no pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.data.tables.checks import Problem, check_tables
    from crossgcn.data.tables.encode import TableEncoder
    from crossgcn.data.tables.encode.column import Unseen
    from crossgcn.data.tables.export import write_table
    from crossgcn.data.tables.graph import (
        NewNodes,
        TableGraph,
        describe_encoding,
        load_new_tables,
        load_tables,
        read_encoding,
    )
    from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
    from crossgcn.data.tables.read import read_batches, read_headers, read_table
    from crossgcn.data.tables.table import Table

__all__ = [
    "NewNodes",
    "Problem",
    "Table",
    "TableChoices",
    "TableEncoder",
    "TableGraph",
    "TablePlan",
    "Unseen",
    "check_tables",
    "describe_encoding",
    "load_new_tables",
    "load_tables",
    "make_plan",
    "read_batches",
    "read_encoding",
    "read_headers",
    "read_table",
    "write_table",
]

_HOMES = {
    "checks": ("Problem", "check_tables"),
    "encode": ("TableEncoder",),
    "encode.column": ("Unseen",),
    "export": ("write_table",),
    "graph": (
        "NewNodes",
        "TableGraph",
        "describe_encoding",
        "load_new_tables",
        "load_tables",
        "read_encoding",
    ),
    "plan": ("TableChoices", "TablePlan", "make_plan"),
    "read": ("read_batches", "read_headers", "read_table"),
    "table": ("Table",),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
