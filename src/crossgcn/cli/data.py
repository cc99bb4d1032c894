"""``crossgcn data``: list the datasets, and fetch one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import RenderableType
from rich.text import Text

from crossgcn.cli.options import JSON, argument, option
from crossgcn.cli.running import make_folder, print_answer, status
from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, TABLES, available, fetch
from crossgcn.errors import unknown_name

data = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="List the datasets, or fetch one."
)


@data.command("list")
def list_datasets(as_json: bool = JSON) -> None:
    """List the known datasets, their terms of use, and where each is read from."""
    from crossgcn.reports.format import make_table

    entries = [*CATALOGUE.values(), *TABLES.values()]
    records = [asdict(entry) | {"where": available(entry.name)} for entry in entries]
    cells = [
        [
            *(row["name"], f"{row['nodes']:,}", f"{row['edges']:,}"),
            *(row["target"] or f"{row['classes']} classes", row["where"] or "not here"),
        ]
        for row in records
    ]
    heads = ["nodes", "edges"]
    shown: list[RenderableType] = [make_table(cells, ["name"], heads, ["target", "where"])]
    for terms in dict.fromkeys(entry.terms for entry in TABLES.values()):
        names = [name for name, entry in TABLES.items() if entry.terms == terms]
        shown.append(Text(f"{', '.join(names)}: {terms}"))
    if not all(record["where"] for record in records):
        shown.append("crossgcn data get NAME fetches a dataset that is not here, or says how.")
    print_answer({"datasets": records}, shown, as_json)


@data.command("get")
def get_dataset(
    name: str = argument(", ".join(DATASET_NAMES) + ".", default=...),
    out: Path | None = option("Folder to write NAME.npz to, or nodes.csv and edges.csv."),
    seed: int = option("Seed of a generated dataset.", min=0, max=2**32 - 1, default=0),
    as_json: bool = JSON,
) -> None:
    """Find a dataset, download it if necessary, and check its hashes."""
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)

    path = None
    if name in TABLES:
        from crossgcn.data.datasets.real import read_real
        from crossgcn.data.files import write_table

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
        from crossgcn.data.graph import save_graph

        path = str(make_folder(out) / f"{name}.npz")
        save_graph(Path(path), load_dataset(name, seed=seed))
    where, written = available(name), f"{path} and edges.csv" if name in TABLES else path
    words = f"{name} is here ({where})" + (f", written to {written}" if path else "")
    print_answer({"dataset": name, "where": where, "file": path}, [words], as_json)
