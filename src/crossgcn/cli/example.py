"""``crossgcn example``: write example tables with known crosses, or a large graph."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from crossgcn.cli import options
from crossgcn.cli.data import FolderOption, MemoryOption, showing_stages
from crossgcn.errors import BadInput


def example_graph(
    out: FolderOption,
    num_nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 100_000,
    num_edges: Annotated[
        int, typer.Option(help="Undirected edges to draw; a few are duplicates.")
    ] = 1_000_000,
    num_features: Annotated[int, typer.Option(help="Number of dense features.")] = 100,
    num_classes: Annotated[int, typer.Option(help="Number of classes, of unequal size.")] = 47,
    memory: MemoryOption = 256,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=2**32 - 1)] = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Generate a graph of any size with heavy-tailed degrees and learnable labels."""
    with showing_stages("drawing") as show:
        from crossgcn.data.datasets.drawn_graphs import large_graph
        from crossgcn.reports.terminal.graph_folder import folder_lines, summarise_folder

        graph = large_graph(
            out,
            num_nodes,
            num_edges,
            num_features,
            num_classes,
            seed,
            memory_limit=memory << 20,
            progress=show,
        )
    summary = summarise_folder(graph) | {
        "seed": seed,
        "next": shlex.join(["crossgcn", "train", str(out), "--splits", "public"]),
    }
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    typer.echo("\n".join(folder_lines(summary)))


DEFAULT_FOLDER = Path("shop")


class _ShopIfNotNamed(TyperGroup):
    """``crossgcn example FOLDER`` is ``crossgcn example shop FOLDER``."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        named = (*self.commands, *context.help_option_names)
        if not arguments or arguments[0] not in named:
            arguments = ["shop", *arguments]
        return super().parse_args(context, arguments)


example = typer.Typer(
    cls=_ShopIfNotNamed,
    help="Write example tables of a shop (the default), or a large graph.",
)
example.command("graph")(example_graph)


@example.command("shop")
def example_shop(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder to write, new or empty. \\[default: shop]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The same, as an option.")] = None,
    nodes: Annotated[int, typer.Option(help="Number of customers; each has five edges.")] = 2000,
    columns: Annotated[
        int, typer.Option(help="Columns of the node table; the additional ones are noise.")
    ] = 15,
    crosses: Annotated[
        bool,
        typer.Option(
            "--crosses/--no-crosses",
            help="Let crosses of columns determine what customers buy, or single columns.",
        ),
    ] = True,
    file_format: Annotated[
        Literal["csv", "parquet"], typer.Option("--format", help="Format of the tables.")
    ] = "csv",
    seed: Annotated[int, typer.Option(help="Random seed.", min=0, max=2**32 - 1)] = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Write tables of a shop's customers and their friends, with planted crosses."""
    if folder is not None and out is not None and folder != out:
        raise BadInput(f"two folders to write to, {folder} and --out {out}: give one of them")
    where = folder or out or DEFAULT_FOLDER

    from crossgcn.data.datasets.shop import make_shop, write_shop

    shop = make_shop(nodes, num_columns=columns, seed=seed, crosses=crosses)
    files = write_shop(where, shop, file_format)
    tables = " ".join(shlex.quote(str(path)) for path in files[:2])
    next_command = f"crossgcn check {tables} --target buys"
    if as_json:
        result = {
            "folder": str(where),
            "files": [path.name for path in files],
            "target": "buys",
            "nodes": len(shop.nodes),
            "edges": len(shop.edges),
            "columns": shop.nodes.shape[1],
            "new_nodes": len(shop.new_nodes),
            "new_edges": len(shop.new_edges),
            "crosses": [{"buys": cross.buys, "cross": cross.name} for cross in shop.crosses],
            "seed": seed,
            "next": next_command,
        }
        print(json.dumps(result, ensure_ascii=False))
        return
    typer.echo(
        f"Written to {where}: {len(shop.nodes):,} customers ({files[0].name}), {len(shop.edges):,} "
        f"recommendations ({files[1].name}),\n{len(shop.new_nodes)} customers to predict for "
        f"({', '.join(path.name for path in files[2:5])}), and a {files[5].name}."
    )
    for cross in shop.crosses:
        typer.echo(f"  planted for {cross.buys}: {cross.name}")
    if not shop.crosses:
        typer.echo("  no crosses planted: single columns determine what customers buy")
    typer.echo(f"Next: {next_command}")
