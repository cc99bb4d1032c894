"""What ``train`` and ``compare`` do with a user's own tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from crossgcn.cli.option_groups import TableOptions
from crossgcn.errors import BadInput
from crossgcn.models.presets import first_layer_crosses, has_orders

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.training.config import RunConfig

__all__ = ["cross_in_first_layer", "load_user_tables", "table_defaults"]


def load_user_tables(
    nodes: str, edges: Path | None, tables: TableOptions, out: Path | None
) -> TableGraph:
    """Read both tables, say on stderr what was decided and what may be wrong.

    Args:
        nodes: The table of nodes.
        edges: The table of edges, if there is one.
        tables: What the user said about them.
        out: Where the work is to be kept, which must not be where the tables are.
    """
    terminal = Console(stderr=True)
    for table in (Path(nodes), edges):
        if out is not None and table is not None and out.resolve() == table.resolve().parent:
            raise BadInput(f"--out {out} is where {table.name} is: give the work its own folder")
    if tables.target is None:
        raise BadInput(
            f"{nodes} is a table: --target COLUMN says which of its columns to predict "
            f"({tables.command('check', nodes, edges)} lists them)"
        )
    with terminal.status(f"reading {escape(nodes)}"):
        from crossgcn.data.tables.graph import load_tables
        from crossgcn.reports.check_view import reading_lines

        graph = load_tables(Path(nodes), edges, tables.choices())
    terminal.print(*reading_lines(graph), sep="\n", highlight=False)
    return graph


def table_defaults(graph: TableGraph, splits: str | None) -> dict[str, Any]:
    """Settings for tables, where the user gave none: not the paper's protocol.

    Args:
        graph: The tables.
        splits: What ``--splits`` says; it must go with what the tables say.
    """
    column = graph.plan.split_column
    own = column is not None
    if splits not in (None, "public" if own else "stratified"):
        remedy = (
            f"leave out --splits to keep to column {column!r}, or --ignore it to have splits drawn"
            if own
            else "leave out --splits, or name the column that says who trains by --split-column"
        )
        raise BadInput(f"--splits {splits} is not for these tables: {remedy}")
    return {"splits": "public" if own else "stratified", "dropout": 0.2, "bias": True}


def cross_in_first_layer(config: RunConfig) -> RunConfig:
    """``--order K`` on tables: crosses of columns, none of hidden units unless asked for."""
    if not has_orders(config.model, config.transform) or isinstance(config.order, tuple):
        return config
    order = 2 if config.order is None else config.order
    return config.model_copy(update={"order": first_layer_crosses(order, config.num_layers)})
