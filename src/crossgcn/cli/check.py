"""``crossgcn check``: find problems in a user's tables before training."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.options import with_option_groups
from crossgcn.cli.running import answer_console, make_folder
from crossgcn.cli.tables import EdgesArgument, NodesArgument, TableOptions
from crossgcn.errors import BadInput


@with_option_groups
def check(
    nodes: NodesArgument,
    edges: EdgesArgument = None,
    *,
    tables: TableOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write the result to this folder, as check.json.", rich_help_panel="Run"
        ),
    ] = None,
    seed: options.UnusedSeedOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show how your tables are read, and what in them would prevent or harm training.

    Errors prevent it (exit code 2), warnings do not. Each names file, row, value and remedy.
    Without --target, columns are listed and everything but the target is checked.
    """
    from crossgcn.data.stored.format import is_graph_folder

    for folder in filter(is_graph_folder, filter(None, (nodes, edges))):
        command = shlex.join(["crossgcn", "data", "show", str(folder), "--verify"])
        raise BadInput(f"{folder} is a graph folder, not a table; to check it: {command}")
    with Console(stderr=True).status("reading the tables"):
        from crossgcn.data.files import write_json
        from crossgcn.data.tables.checks import check_tables
        from crossgcn.data.tables.plan import make_plan
        from crossgcn.data.tables.read import read_table
        from crossgcn.reports.terminal.check import check_page, summarise_check

        node_table = read_table(nodes, "nodes")
        edge_table = None if edges is None else read_table(edges, "edges")
        plan = make_plan(node_table, edge_table, tables.choices())
        problems = check_tables(node_table, edge_table, plan)
    command = _next_command(nodes, edges, tables)
    summary = summarise_check(node_table, edge_table, plan, problems, command)
    if out is not None:
        write_json(make_folder(out) / "check.json", summary)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        answer_console().print(check_page(summary), highlight=False)
    if summary["errors"]:
        raise typer.Exit(2)


def _next_command(nodes: Path, edges: Path | None, tables: TableOptions) -> str:
    """Return ``compare`` with the same tables and options, or ``check`` if there is no target."""
    if tables.target is None:
        return f"{tables.command('check', nodes, edges)} --target COLUMN"
    return tables.command("compare", nodes, edges)
