"""``crossgcn data``: list the datasets, and fetch one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType

from crossgcn.cli.options import JSON, argument, option
from crossgcn.cli.output import print_answer
from crossgcn.cli.running import make_folder, status
from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, TABLES, available, fetch
from crossgcn.errors import unknown_name

data = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="List the datasets, or fetch one."
)


@data.command("list")
def list_datasets(as_json: bool = JSON) -> None:
    """List the known datasets, their terms of use, and where each is read from."""
    graphs = [asdict(entry) | {"where": available(name)} for name, entry in CATALOGUE.items()]
    tables = [asdict(entry) | {"where": available(name)} for name, entry in TABLES.items()]
    shown: list[RenderableType] = [
        _make_table(graphs, "name", ("nodes", "edges", "features", "classes")),
        _make_table(tables, "tables", ("nodes", "edges", "columns"), ("target", "terms")),
    ]
    if not all(row["where"] for row in graphs + tables):
        shown.append("crossgcn data get NAME fetches a dataset that is not here, or says how.")
    print_answer({"datasets": graphs + tables}, shown, as_json)


def _make_table(
    rows: list[dict[str, Any]], head: str, numbers: Sequence[str], texts: Sequence[str] = ()
) -> RenderableType:
    from crossgcn.reports.terminal.tables import make_table

    cells = [
        [
            *(row["name"], *(f"{row[name]:,}" for name in numbers)),
            *(*(row[name] for name in texts), row["where"] or "not here"),
        ]
        for row in rows
    ]
    return make_table(cells, [head], numbers, [*texts, "where"])


@data.command("get")
def get_dataset(
    name: str = argument(", ".join(DATASET_NAMES) + ".", default=...),
    out: Path | None = option(
        "Also write it to this folder: NAME.npz, or nodes.csv and edges.csv for tables."
    ),
    seed: int = option("Seed, for a generated dataset.", min=0, max=2**32 - 1, default=0),
    as_json: bool = JSON,
) -> None:
    """Find a dataset, download it if necessary, and check its hashes."""
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)

    path = None
    if name in TABLES:
        from crossgcn.data.datasets.real import read_real
        from crossgcn.data.tables.write import write_table

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
