"""``crossgcn data``: which graphs there are, fetching one, and graph folders of one's own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.import_graph import import_graph
from crossgcn.data.catalogue import CATALOGUE, DATASET_NAMES
from crossgcn.errors import unknown_name

__all__ = ["data"]

data = typer.Typer(
    help="List the datasets, fetch one, or import large graphs of your own.", no_args_is_help=True
)
data.command("import")(import_graph)


@data.command("list")
def list_datasets(as_json: options.JsonOption = False) -> None:
    """Show the known datasets and where each would be read from."""
    from crossgcn.data.sources import available
    from crossgcn.reports.tables import datasets_table

    rows = [asdict(entry) | {"where": available(entry.name)} for entry in CATALOGUE.values()]
    if as_json:
        print(json.dumps({"datasets": rows}, ensure_ascii=False))
        return
    Console().print(datasets_table(rows))
    if not all(row["where"] for row in rows):
        typer.echo("Fetch what is not here with: crossgcn data get NAME")


@data.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help=", ".join(DATASET_NAMES) + ".")],
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the graph to this folder, as NAME.npz."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Which draw, for a generated dataset.", min=0, max=2**32 - 1)
    ] = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Make a dataset available: find it, download it if need be, check every hash."""
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, DATASET_NAMES)

    from crossgcn.data.sources import available, fetch

    if CATALOGUE[name].origin == "planetoid":
        with Console(stderr=True).status(f"fetching {name}"):
            fetch(name)
    result = {"dataset": name, "where": available(name), "file": None}
    if out is not None:
        from crossgcn.cli.running import make_folder
        from crossgcn.data.archive import save_graph
        from crossgcn.data.datasets import load_dataset

        path = make_folder(out) / f"{name}.npz"
        save_graph(path, load_dataset(name, seed=seed))
        result["file"] = str(path)
    if as_json:
        print(json.dumps(result))
        return
    typer.echo(f"{name} is here ({result['where']})" + (f", written to {path}" if out else ""))


@data.command("show")
def show_folder(
    folder: Annotated[Path, typer.Argument(help="A graph folder, as import makes it.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read everything and compare it with its hashes.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Say what a graph folder holds."""
    from crossgcn.data.stored.stored_graph import open_graph
    from crossgcn.reports.folder_view import folder_lines, summarise_folder

    graph = open_graph(folder)
    if verify:
        with Console(stderr=True).status("reading every file"):
            graph.verify()
    summary = summarise_folder(graph) | ({"verified": True} if verify else {})
    typer.echo(json.dumps(summary) if as_json else "\n".join(folder_lines(summary)))
