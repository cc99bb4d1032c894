"""The columns of tables in an engine, beside those that the package computes in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from benchmarks.drawn_tables import draw_tables
from crossgcn.data.relations import relations_of
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.graph.hop_file import HopTable, read_hop_file, write_hops
from crossgcn.graph.hops import HopColumns, RelationNames
from crossgcn.graph.neighbourhood import neighbour_labels

__all__ = [
    "columns_of",
    "difference_of_relations",
    "draw_tables",
    "largest_difference",
    "write_relations",
]

BUYS = TableChoices(target="buys")


def columns_of(table: HopTable) -> Tensor:
    """Return the columns that are in the file, which training computes again."""
    relations = (RelationNames(table.plan.relation),)
    names = table.columns.name_columns(table.encoder.space.names, relations=relations)
    return torch.tensor(pd.read_parquet(table.path, columns=names).to_numpy())


def largest_difference(
    table: HopTable,
    nodes: Path,
    edges: Path,
    choices: TableChoices = BUYS,
) -> float:
    """Return how far the columns of a file are from those in memory, relative to 1."""
    tables = load_tables(nodes, edges, choices)
    assert table.encoder.space.names == tables.encoder.space.names
    place = {node_id: at for at, node_id in enumerate(tables.ids)}
    order = torch.tensor([place[node_id] for node_id in table.ids])
    assert torch.equal(table.data.y, tables.data.y[order])
    data = tables.data
    computed = HopColumns(data.x, relations_of(data))
    assert isinstance(computed.without_labels, Tensor)
    expected = computed.without_labels[order]
    difference = (columns_of(table) - expected).abs() / expected.abs().clamp(min=1)
    return float(difference.max())


def write_relations(folder: Path) -> None:
    """Write 300 nodes, some isolated, friends with weights, calls with columns, and visits."""
    nodes, edges = draw_tables(300, 900)
    random = np.random.default_rng(3)
    calls = edges.assign(
        minutes=np.where(random.random(len(edges)) < 0.1, np.nan, random.normal(5, 2, len(edges))),
        kind=random.choice(["work", "home", ""], len(edges)),
    )
    visits = pd.DataFrame({"guest": random.choice(nodes["id"], 500)})
    visits["shop"] = random.choice([*map(str, range(80))], 500)
    named = {"nodes": nodes, "friends": edges, "calls": calls, "visits": visits}
    for name, table in named.items():
        table.to_parquet(folder / f"{name}.parquet")


def difference_of_relations(folder: Path, engine: str = "") -> float:
    """Return how far the columns that an engine makes of these tables are from those in memory."""
    files = {path.stem: str(path) for path in folder.glob("*.parquet")}
    places = {name: engine + path for name, path in files.items()}
    choices = TableChoices(target="buys", directed=("calls",))
    out = folder / "columns.parquet"
    named = {name: places[name] for name in ("friends", "calls")}
    through = {"visits": places["visits"]}
    write_hops(places["nodes"], named, out=out, choices=choices, through=through)
    table = read_hop_file(out)
    named = {name: files[name] for name in named}
    tables = load_tables(files["nodes"], named, choices, through={"visits": files["visits"]})
    names = [each.name for each in relations_of(tables.data)]
    assert names == [each.name for each in table.data.relations]
    assert names == ["friends", "calls", "same shop"]
    assert {"in-calls: minutes (mean)", "2 hops of same shop: age"} <= {*pd.read_parquet(out)}
    order = [tables.ids.index(each) for each in table.ids]
    labels = neighbour_labels(tables.data.y, torch.arange(0, 300, 2), 2)
    expected = HopColumns(tables.data.x, tables.data.relations).with_labels(labels)[order]
    again = neighbour_labels(table.data.y, torch.tensor(order).argsort()[::2], 2)
    found = HopColumns(table.data.x, table.data.relations).with_labels(again)
    return float(((found - expected).abs() / expected.abs().clamp(min=1)).max())
