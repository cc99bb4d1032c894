"""``crossgcn data``: list, fetch and import graphs."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from crossgcn.cli import tables as t
from crossgcn.cli.options import JsonOption, argument, option
from crossgcn.cli.output import print_answer, print_line
from crossgcn.cli.running import make_folder, progress_bar, status
from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, TABLES
from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from crossgcn.data.stored.open import StoredGraph

FolderOption = Annotated[Path, option("Graph folder to write; new or empty.", metavar="FOLDER")]
MemoryOption = Annotated[
    int, option("Memory for sorting in MiB; the rest is done on disk.", "--memory", min=1)
]

data = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List the datasets, fetch one, or import large graphs of your own.",
    no_args_is_help=True,
)


@data.command("import")
def import_graph(
    edges: Annotated[
        list[Path],
        argument(
            "Edges, one per row: CSV, TSV (also .gz), Parquet or XLSX; several need equal headers.",
            "EDGES",
        ),
    ],
    out: FolderOption,
    nodes: Annotated[
        Path | None,
        option("Table of nodes. [default: nodes are numbered from 0]", metavar="NODES"),
    ] = None,
    target: t.TargetOption = None,
    id_column: t.IdOption = None,
    source_column: t.SourceOption = None,
    destination_column: t.DestinationOption = None,
    weight_column: t.WeightOption = None,
    split_column: t.SplitColumnOption = None,
    categorical: t.CategoricalOption = None,
    numeric: t.NumericOption = None,
    lists: t.ListsOption = None,
    ignore: t.IgnoreOption = None,
    missing: t.MissingOption = None,
    num_nodes: Annotated[
        int | None, option("Number of nodes, without a table. [default: from the edges]", min=1)
    ] = None,
    directed: Annotated[
        bool, option("Messages go from the first end to the second only.", "--directed")
    ] = False,
    memory: MemoryOption = 256,
    as_json: JsonOption = False,
) -> None:
    """Convert files of edges, larger than memory, to a graph folder."""
    tables = t.TableOptions(
        target=target,
        id_column=id_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=categorical,
        numeric=numeric,
        lists=lists,
        ignore=ignore,
        missing=missing,
    )
    if nodes is None and tables.target is not None:
        raise BadInput("--target names a column of the table of nodes: give it as --nodes FILE")
    warnings: list[str] = []

    def warn(words: str) -> None:
        warnings.append(words)
        print_line(f"warning: {words}", error=True)

    with progress_bar("importing") as show:
        from crossgcn.data.stored.import_graph import build_graph

        graph = build_graph(
            [str(path) for path in edges],
            None if nodes is None else str(nodes),
            out=out,
            choices=tables.choices(),
            num_nodes=num_nodes,
            directed=directed,
            memory_limit=memory << 20,
            progress=lambda stage, done, total: show(done, total, stage),
            on_warning=warn,
        )
    if graph.preprocess is not None and graph.preprocess.encoding is not None:
        print_line("\n".join(graph.preprocess.encoding["plan"]["reasons"]), error=True)
    if not (graph.num_features and graph.num_classes):
        print_folder(graph, as_json, warnings=warnings)
        return
    splits = "stratified" if graph.roles is None else "public"
    model = [] if nodes is None else ["--model", "cross-hops"]
    then = shlex.join(["crossgcn", "train", str(out), *model, "--splits", splits])
    print_folder(graph, as_json, warnings=warnings, next=then)


def print_folder(graph: StoredGraph, as_json: bool, **more: Any) -> None:
    """Describe a graph folder; ``more`` is added to the summary."""
    from crossgcn.reports.terminal.tables import folder_lines, summarise_folder

    summary = summarise_folder(graph) | more
    print_answer(summary, folder_lines(summary), as_json)


@data.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the known datasets, their terms of use, and where each is read from."""
    from crossgcn.data.datasets.registry import available
    from crossgcn.reports.terminal.tables import datasets_table, real_datasets_table

    graphs = [asdict(entry) | {"where": available(name)} for name, entry in CATALOGUE.items()]
    tables = [asdict(entry) | {"where": available(name)} for name, entry in TABLES.items()]
    shown: list[RenderableType] = [datasets_table(graphs)]
    if not all(row["where"] for row in graphs):
        shown.append("Fetch missing ones with: crossgcn data get NAME\n")
    shown.append(real_datasets_table(tables))
    sources: dict[str, list[str]] = {}
    for row in tables:
        if not row["where"]:
            sources.setdefault(row["source"], []).append(row["name"])
    if sources:
        shown.append("Not here; crossgcn data get NAME says which files go where:")
    shown += [Text(f"{', '.join(names)}: {source}") for source, names in sources.items()]
    print_answer({"datasets": graphs + tables}, shown, as_json)


@data.command("get")
def get_dataset(
    name: Annotated[str, argument(", ".join(DATASET_NAMES) + ".")],
    out: Annotated[
        Path | None,
        option("Also write it to this folder: NAME.npz, or nodes.csv and edges.csv for tables."),
    ] = None,
    seed: Annotated[int, option("Seed, for a generated dataset.", min=0, max=2**32 - 1)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Find a dataset, download it if necessary, and check its hashes."""
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)

    from crossgcn.data.datasets.registry import available, fetch

    path = None
    if name in TABLES:
        from crossgcn.data.datasets.real import read_real
        from crossgcn.data.tables.frames import write_table

        tables = read_real(name)
        if out is not None:
            path = str(make_folder(out) / "nodes.csv")
            write_table(Path(path), tables.nodes)
            write_table(out / "edges.csv", tables.edges)
    elif CATALOGUE[name].origin == "planetoid":
        with status(f"fetching {name}"):
            fetch(name)
    if out is not None and name in CATALOGUE:
        from crossgcn.data.datasets.load import load_dataset
        from crossgcn.data.graph_file import save_graph

        path = str(make_folder(out) / f"{name}.npz")
        save_graph(Path(path), load_dataset(name, seed=seed))
    where = available(name)
    words = f"{name} is here ({where})" + (f", written to {path}" if path else "")
    print_answer({"dataset": name, "where": where, "file": path}, [words], as_json)


@data.command("show")
def show_folder(
    folder: Annotated[Path, argument("Graph folder made by crossgcn data import.")],
    verify: Annotated[bool, option("Read all files and check their hashes.", "--verify")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a graph folder contains."""
    from crossgcn.data.stored.open import open_graph

    graph = open_graph(folder)
    if not verify:
        print_folder(graph, as_json)
        return
    from crossgcn.graph.kept_columns import verify_columns_beside

    with status("reading every file"):
        graph.verify()
        verify_columns_beside(graph)
    print_folder(graph, as_json, verified=True)
