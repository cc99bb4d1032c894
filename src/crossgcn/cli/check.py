"""``crossgcn check``: find problems in a user's tables before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from crossgcn.cli import options as o
from crossgcn.cli.running import make_folder, print_answer, status
from crossgcn.cli.tables import TableOptions, refuse_edges_of
from crossgcn.data.datasets.catalogue import TABLES

if TYPE_CHECKING:
    from crossgcn.data.tables.table import Table


def check(
    nodes: Path = o.argument(
        "Table of nodes, or name of a dataset of tables.", "NODES", default=...
    ),
    edges: Path | None = o.EDGES,
    *,
    tables: TableOptions,
    out: Path | None = o.option("Also write the result here, as check.json.", metavar="DIR"),
    as_json: bool = o.JSON,
) -> None:
    """Show how your tables are read, and what in them would prevent or harm training.

    Errors prevent it (exit code 2), warnings do not. Each names file, row, value and remedy.
    Without --target, columns are listed and everything but the target is checked.
    """
    with status("reading the tables"):
        from crossgcn.data.datasets.real import name_defaults, prepare_real
        from crossgcn.data.files import write_json
        from crossgcn.data.tables.checks import check_tables
        from crossgcn.data.tables.plan import make_plan
        from crossgcn.data.tables.problems import CheckedTables
        from crossgcn.data.tables.read import read_table
        from crossgcn.reports.terminal.check import check_screen, summarise_check

        edge_table: Table | None
        name, choices = nodes.as_posix(), tables.choices()
        if name in TABLES:
            refuse_edges_of(name, edges)
            node_table, edge_table, all_choices, _ = prepare_real(name, choices)
        else:
            node_table = read_table(nodes, "nodes")
            edge_table = None if edges is None else read_table(edges, "edges")
            all_choices = choices
        plan = make_plan(node_table, edge_table, all_choices)
        checked = CheckedTables(node_table, edge_table, plan)
        problems = check_tables(checked)
        if name in TABLES:
            plan = name_defaults(plan, name, choices)
    if plan.target is None:
        then = f"{tables.command('check', nodes, edges)} --target COLUMN"
    else:
        then = tables.command("compare", nodes, edges)
    summary = summarise_check(checked, plan, problems, then)
    if out is not None:
        write_json(make_folder(out) / "check.json", summary)
    print_answer(summary, check_screen(summary), as_json)
    if summary["errors"]:
        raise typer.Exit(2)
