"""A user's own tables: one of nodes, one of edges, and a column to predict.

Names are imported on first use, so that a command's help needs no pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossgcn.data.tables.check import check_tables
    from crossgcn.data.tables.encoder import TableEncoder
    from crossgcn.data.tables.export import write_table
    from crossgcn.data.tables.findings import Finding
    from crossgcn.data.tables.graph import TableGraph, load_tables
    from crossgcn.data.tables.new_nodes import load_new_tables
    from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
    from crossgcn.data.tables.table import Table, read_table

__all__ = [
    "Finding",
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
    "check": ("check_tables",),
    "encoder": ("TableEncoder",),
    "export": ("write_table",),
    "findings": ("Finding",),
    "graph": ("TableGraph", "load_tables"),
    "new_nodes": ("load_new_tables",),
    "plan": ("TableChoices", "TablePlan", "make_plan"),
    "table": ("Table", "read_table"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
