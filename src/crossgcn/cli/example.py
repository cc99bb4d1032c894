"""``crossgcn example``: write example tables with known crosses, or a large graph."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from crossgcn.cli.data import FolderOption, MemoryOption, print_folder
from crossgcn.cli.options import JsonOption, argument, option
from crossgcn.cli.output import print_answer
from crossgcn.cli.running import progress_bar
from crossgcn.errors import BadInput


class _ShopIfNotNamed(TyperGroup):
    """``crossgcn example FOLDER`` is ``crossgcn example shop FOLDER``."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        named = (*self.commands, *context.help_option_names)
        if not arguments or arguments[0] not in named:
            arguments = ["shop", *arguments]
        return super().parse_args(context, arguments)


example = typer.Typer(
    cls=_ShopIfNotNamed,
    add_completion=False,
    rich_markup_mode=None,
    help="Write example tables of a shop (the default), or a large graph.",
)


@example.command("graph")
def example_graph(
    out: FolderOption,
    num_nodes: Annotated[int, option("Number of nodes.")] = 100_000,
    num_edges: Annotated[
        int, option("Undirected edges to draw; a few are duplicates.")
    ] = 1_000_000,
    num_features: Annotated[int, option("Number of dense features.")] = 100,
    num_classes: Annotated[int, option("Number of classes, of unequal size.")] = 47,
    memory: MemoryOption = 256,
    seed: Annotated[int, option("Random seed.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Generate a graph of any size with heavy-tailed degrees and learnable labels."""
    with progress_bar("drawing") as show:
        from crossgcn.data.datasets.generated import large_graph

        graph = large_graph(
            out,
            num_nodes,
            num_edges,
            num_features,
            num_classes,
            seed,
            memory_limit=memory << 20,
            progress=lambda stage, done, total: show(done, total, stage),
        )
    then = shlex.join(["crossgcn", "train", str(out), "--splits", "public"])
    print_folder(graph, as_json, seed=seed, next=then)


@example.command("shop")
def example_shop(
    folder: Annotated[
        Path | None, argument("Folder to write, new or empty. [default: shop]")
    ] = None,
    out: Annotated[Path | None, option("The same, as an option.")] = None,
    nodes: Annotated[int, option("Number of customers; each has five edges.")] = 2000,
    columns: Annotated[
        int, option("Columns of the node table; the additional ones are noise.")
    ] = 15,
    crosses: Annotated[
        bool,
        option(
            "Let crosses of columns determine what customers buy, or single columns.",
            "--crosses/--no-crosses",
        ),
    ] = True,
    file_format: Annotated[
        Literal["csv", "parquet"], option("Format of the tables.", "--format")
    ] = "csv",
    seed: Annotated[int, option("Random seed.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Write tables of a shop's customers and their friends, with planted crosses."""
    if folder is not None and out is not None and folder != out:
        raise BadInput(f"two folders to write to, {folder} and --out {out}: give one of them")
    where = folder or out or Path("shop")

    from crossgcn.data.datasets.shop import make_shop, write_shop

    shop = make_shop(nodes, num_columns=columns, seed=seed, crosses=crosses)
    files = write_shop(where, shop, file_format)
    then = shlex.join(["crossgcn", "check", *map(str, files[:2]), "--target", "buys"])
    summary = {
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
        "next": then,
    }
    planted = [f"  planted for {cross.buys}: {cross.name}" for cross in shop.crosses]
    lines = [
        f"Written to {where}: {len(shop.nodes):,} customers ({files[0].name}), {len(shop.edges):,} "
        f"recommendations ({files[1].name}),",
        f"{len(shop.new_nodes)} customers to predict for "
        f"({', '.join(path.name for path in files[2:5])}), and a {files[5].name}.",
        *(planted or ["  no crosses planted: single columns determine what customers buy"]),
        f"Next: {then}",
    ]
    print_answer(summary, lines, as_json)
