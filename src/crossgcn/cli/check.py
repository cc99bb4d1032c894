"""``crossgcn check``: find problems in a user's tables before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossgcn.cli import options as o
from crossgcn.cli import tables as t
from crossgcn.cli.output import print_answer
from crossgcn.cli.running import make_folder, set_verbosity, status
from crossgcn.data.datasets.catalogue import TABLES

if TYPE_CHECKING:
    from crossgcn.data.tables.table import Table


def check(
    nodes: t.NodesArgument,
    edges: t.EdgesArgument = None,
    target: t.TargetOption = None,
    task: t.TaskOption = None,
    rare_classes: t.RareClassesOption = None,
    id_column: t.IdOption = None,
    name_column: t.NameOption = None,
    source_column: t.SourceOption = None,
    destination_column: t.DestinationOption = None,
    weight_column: t.WeightOption = None,
    split_column: t.SplitColumnOption = None,
    categorical: t.CategoricalOption = None,
    numeric: t.NumericOption = None,
    lists: t.ListsOption = None,
    ignore: t.IgnoreOption = None,
    missing: t.MissingOption = None,
    unknown_ids: t.UnknownIdsOption = None,
    relation: t.RelationOption = None,
    out: Annotated[
        Path | None, o.option("Also write the result here, as check.json.", metavar="DIR")
    ] = None,
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Show how your tables are read, and what in them would prevent or harm training.

    Errors prevent it (exit code 2), warnings do not. Each names file, row, value and remedy.
    Without --target, columns are listed and everything but the target is checked.
    """
    set_verbosity(quiet)
    tables = t.TableOptions(
        target=target,
        task=task,
        rare_classes=rare_classes,
        id_column=id_column,
        name_column=name_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=categorical,
        numeric=numeric,
        lists=lists,
        ignore=ignore,
        missing=missing,
        unknown_ids=unknown_ids,
        relation=relation,
    )
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

            t.refuse_edges_of(nodes.as_posix(), edges)
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
    print_answer(summary, [check_page(summary)], as_json)
    if summary["errors"]:
        raise typer.Exit(2)
