"""``crossgcn data``: list, fetch and import graphs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.options import with_option_groups
from crossgcn.cli.running import work_progress
from crossgcn.cli.tables import TableOptions
from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES
from crossgcn.errors import BadInput, unknown_name

FolderOption = Annotated[
    Path, typer.Option(help="Graph folder to write; new or empty.", metavar="FOLDER")
]
MemoryOption = Annotated[
    int,
    typer.Option("--memory", help="Memory for sorting in MiB; the rest is done on disk.", min=1),
]


@with_option_groups
def import_graph(
    edges: Annotated[
        list[Path],
        typer.Argument(
            help="Edges, one per row: CSV, TSV (also .gz) or Parquet; several need equal headers.",
            metavar="EDGES",
        ),
    ],
    out: FolderOption,
    nodes: Annotated[
        Path | None,
        typer.Option(
            help="Table of nodes. \\[default: nodes are numbered from 0]", metavar="NODES"
        ),
    ] = None,
    *,
    tables: TableOptions,
    num_nodes: Annotated[
        int | None,
        typer.Option(
            help="Number of nodes, without a table. \\[default: from the edges]",
            min=1,
        ),
    ] = None,
    directed: Annotated[
        bool,
        typer.Option("--directed", help="Messages go from the first end to the second only."),
    ] = False,
    memory: MemoryOption = 256,
    seed: options.UnusedSeedOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Convert files of edges, larger than memory, to a graph folder."""
    if nodes is None and tables.target is not None:
        raise BadInput("--target names a column of the table of nodes: give it as --nodes FILE")
    warnings: list[str] = []

    def warn(words: str) -> None:
        warnings.append(words)
        typer.echo(f"warning: {words}", err=True)

    with showing_stages("importing") as show:
        from crossgcn.data.stored.import_graph import build_graph
        from crossgcn.reports.terminal.graph_folder import folder_lines, summarise_folder

        graph = build_graph(
            [str(path) for path in edges],
            None if nodes is None else str(nodes),
            out=out,
            choices=tables.choices(),
            num_nodes=num_nodes,
            directed=directed,
            memory_limit=memory << 20,
            progress=show,
            on_warning=warn,
        )
    if graph.preprocess is not None and graph.preprocess.encoding is not None:
        typer.echo("\n".join(graph.preprocess.encoding["plan"]["reasons"]), err=True)
    summary = summarise_folder(graph) | {"warnings": warnings}
    if graph.num_features and graph.num_classes:
        summary["next"] = shlex.join(["crossgcn", "train", str(out)]) + (
            " --splits public" if graph.roles is not None else " --splits stratified"
        )
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    typer.echo("\n".join(folder_lines(summary)))


@contextmanager
def showing_stages(what: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar that starts again with each stage of the work.

    Args:
        what: Text before the first stage begins.

    Yields:
        A function to call with the stage, the amount done, and the total.
    """
    with work_progress(Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        last = what

        def show(stage: str, done: int, total: int | None) -> None:
            nonlocal last
            if stage != last:
                progress.reset(task, description=stage, total=total)
                last = stage
            progress.update(task, completed=done, total=total)

        yield show


data = typer.Typer(
    help="List the datasets, fetch one, or import large graphs of your own.", no_args_is_help=True
)
data.command("import")(import_graph)


@data.command("list")
def list_datasets(as_json: options.JsonOption = False) -> None:
    """List the known datasets and where each is read from."""
    from crossgcn.data.datasets.registry import available
    from crossgcn.reports.terminal.tables import datasets_table

    rows = [asdict(entry) | {"where": available(entry.name)} for entry in CATALOGUE.values()]
    if as_json:
        print(json.dumps({"datasets": rows}, ensure_ascii=False))
        return
    Console().print(datasets_table(rows))
    if not all(row["where"] for row in rows):
        typer.echo("Fetch missing ones with: crossgcn data get NAME")


@data.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help=", ".join(DATASET_NAMES) + ".")],
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the graph to this folder, as NAME.npz."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed, for a generated dataset.", min=0, max=2**32 - 1)
    ] = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Find a dataset, download it if necessary, and check its hashes."""
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, DATASET_NAMES)

    from crossgcn.data.datasets.registry import available, fetch

    if CATALOGUE[name].origin == "planetoid":
        with Console(stderr=True).status(f"fetching {name}"):
            fetch(name)
    result = {"dataset": name, "where": available(name), "file": None}
    if out is not None:
        from crossgcn.cli.running import make_folder
        from crossgcn.data.datasets.load import load_dataset
        from crossgcn.data.graph_file import save_graph

        path = make_folder(out) / f"{name}.npz"
        save_graph(path, load_dataset(name, seed=seed))
        result["file"] = str(path)
    if as_json:
        print(json.dumps(result))
        return
    typer.echo(f"{name} is here ({result['where']})" + (f", written to {path}" if out else ""))


@data.command("show")
def show_folder(
    folder: Annotated[Path, typer.Argument(help="Graph folder made by crossgcn data import.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all files and check their hashes.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Show what a graph folder contains."""
    from crossgcn.data.stored.open import open_graph
    from crossgcn.reports.terminal.graph_folder import folder_lines, summarise_folder

    graph = open_graph(folder)
    if verify:
        with Console(stderr=True).status("reading every file"):
            graph.verify()
    summary = summarise_folder(graph) | ({"verified": True} if verify else {})
    typer.echo(json.dumps(summary) if as_json else "\n".join(folder_lines(summary)))
