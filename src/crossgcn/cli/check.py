"""``crossgcn check``: find problems in a user's tables before training."""

from __future__ import annotations

from pathlib import Path

import typer

from crossgcn.cli import options as o
from crossgcn.cli.running import make_folder, print_answer, status
from crossgcn.cli.tables import TABLE_ENDINGS, TableOptions, further_edges, parse_edges
from crossgcn.data.datasets.catalogue import TABLES
from crossgcn.errors import unknown_name


def check(
    nodes: Path = o.argument(
        "Table of nodes, or name of a dataset of tables.", "NODES", default=...
    ),
    edges: list[str] | None = o.EDGES,
    *,
    tables: TableOptions,
    out: Path | None = o.option("Also write the result here, as check.json.", metavar="DIR"),
    as_json: bool = o.JSON,
) -> None:
    """Show how your tables are read, and the problems in them.

    Errors prevent training (exit code 2), warnings do not. Each problem names file, row, value and
    remedy. Without --target, everything but the target is checked.
    """
    with status("reading the tables"):
        from crossgcn.data.datasets.real import open_real
        from crossgcn.data.files import write_json
        from crossgcn.data.tables.checks import check_tables
        from crossgcn.data.tables.graph import open_tables
        from crossgcn.reports.terminal.check import check_screen, summarise_check

        name, choices, through = nodes.as_posix(), tables.choices(), tables.tables_through()
        if name in TABLES:
            checked, _ = open_real(name, choices, further_edges(name, edges), through)
        elif not nodes.exists() and not name.lower().endswith(TABLE_ENDINGS):
            raise unknown_name("file or dataset of tables", name, TABLES)
        else:
            checked = open_tables(nodes, parse_edges(edges), choices, through)
        problems, plan = check_tables(checked), checked.plan
    if plan.target is None:
        next_command = f"{tables.command('check', nodes, edges)} --target COLUMN"
    else:
        next_command = tables.command("compare", nodes, edges)
    summary = summarise_check(checked, plan, problems, next_command)
    if out is not None:
        write_json(make_folder(out) / "check.json", summary)
    print_answer(summary, check_screen(summary), as_json)
    if summary["errors"]:
        raise typer.Exit(2)
