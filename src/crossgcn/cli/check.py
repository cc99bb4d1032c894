"""``crossgcn check``: find problems in a user's tables before training."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crossgcn.cli.command import RUN, Answer, command, option
from crossgcn.cli.running import make_folder, status
from crossgcn.cli.tables import EdgesArgument, NodesArgument, TableOptions, refuse_edges_of
from crossgcn.data.datasets.catalogue import TABLES
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.data.tables.table import Table


@command
def check(
    nodes: NodesArgument,
    edges: EdgesArgument = None,
    *,
    tables: TableOptions,
    out: Annotated[
        Path | None, option("Also write the result to this folder, as check.json.", panel=RUN)
    ] = None,
) -> Answer:
    """Show how your tables are read, and what in them would prevent or harm training.

    Errors prevent it (exit code 2), warnings do not. Each names file, row, value and remedy.
    Without --target, columns are listed and everything but the target is checked.
    """
    from crossgcn.data.stored.format import is_graph_folder

    for folder in filter(is_graph_folder, filter(None, (nodes, edges))):
        verify = shlex.join(["crossgcn", "data", "show", str(folder), "--verify"])
        raise BadInput(f"{folder} is a graph folder, not a table; to check it: {verify}")
    with status("reading the tables"):
        from crossgcn.data.files import write_json
        from crossgcn.data.tables.checks import check_tables
        from crossgcn.data.tables.plan import make_plan
        from crossgcn.data.tables.read import read_table
        from crossgcn.reports.terminal.check import check_page, summarise_check

        choices = tables.choices()
        edge_table: Table | None
        if nodes.as_posix() in TABLES:
            from crossgcn.data.datasets.real import name_defaults, prepare_real

            refuse_edges_of(nodes.as_posix(), edges)
            node_table, edge_table, all_choices, _ = prepare_real(nodes.as_posix(), choices)
        else:
            node_table = read_table(nodes, "nodes")
            edge_table = None if edges is None else read_table(edges, "edges")
            all_choices = choices
        plan = make_plan(node_table, edge_table, all_choices)
        problems = check_tables(node_table, edge_table, plan)
        if nodes.as_posix() in TABLES:
            plan = name_defaults(plan, nodes.as_posix(), choices)
    if plan.target is None:
        then = f"{tables.command('check', nodes, edges)} --target COLUMN"
    else:
        then = tables.command("compare", nodes, edges)
    summary = summarise_check(node_table, edge_table, plan, problems, then)
    if out is not None:
        write_json(make_folder(out) / "check.json", summary)
    return Answer(summary, [check_page(summary)], exit_code=2 if summary["errors"] else 0)
