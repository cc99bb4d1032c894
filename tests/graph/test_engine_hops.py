"""Tables in DuckDB and in Parquet: their columns, trainings on them, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
import torch
from conftest_fixtures import Command
from engine_tables import columns_of, draw_tables, largest_difference

from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.graph.engine_hops import write_hops
from crossgcn.graph.hop_file import HopTable, read_hop_file
from crossgcn.graph.hops import HopColumns

pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")


def write_tables(folder: Path, num_nodes: int = 400, num_edges: int = 1500) -> None:
    nodes, edges = draw_tables(num_nodes, num_edges)
    nodes.to_parquet(folder / "nodes.parquet")
    edges.to_parquet(folder / "edges.parquet")


def store(folder: Path, nodes: str, edges: str, **more: Any) -> HopTable:
    out = folder / "columns.parquet"
    write_hops(nodes, edges, out=out, choices=TableChoices(target="buys"), **more)
    return read_hop_file(out)


def locate(folder: Path, kind: str) -> tuple[str, str]:
    """Write both tables in another way, and return where they are."""
    if kind == "duckdb":
        with duckdb.connect(folder / "shop.duckdb") as database:
            for name in ("nodes", "edges"):
                database.execute(f"create table {name} as from '{folder / name}.parquet'")
        return f"{folder}/shop.duckdb::nodes", f"{folder}/shop.duckdb::main.edges"
    places = []
    for name in ("nodes", "edges"):
        table = pd.read_parquet(folder / f"{name}.parquet")
        if kind == "csv":
            table.to_csv(folder / f"{name}.csv", index=False)
            places.append(f"{folder / name}.csv")
        else:
            (folder / name / "more").mkdir(parents=True)
            half = len(table) // 2
            table[half:].to_parquet(folder / name / "a.parquet")
            table[:half].to_parquet(folder / name / "more" / "b.parquet")
            places.append(str(folder / name))
    return places[0], places[1]


def test_duckdb_gives_the_columns_of_tables_in_memory(tmp_path: Path) -> None:
    write_tables(tmp_path, 20_000, 80_000)
    table = store(tmp_path, *locate(tmp_path, "duckdb"), memory_limit=256 << 20, threads=2)
    assert largest_difference(table, tmp_path / "nodes.parquet", tmp_path / "edges.parquet") < 1e-6
    degrees = torch.bincount(table.data.edge_index[0], minlength=20_000)
    assert int((degrees == 0).sum()) >= 2000  # isolated nodes, which get the prior
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_folders_and_text_give_the_columns_of_tables_in_memory(tmp_path: Path, kind: str) -> None:
    write_tables(tmp_path)
    table = store(tmp_path, *locate(tmp_path, kind))
    assert largest_difference(table, tmp_path / "nodes.parquet", tmp_path / "edges.parquet") < 1e-6


def test_edges_of_weight_0_join_nobody(tmp_path: Path) -> None:
    nodes, edges = draw_tables(50, 90)
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.assign(weight=0.0).to_parquet(tmp_path / "edges.parquet")
    table = store(tmp_path, f"{tmp_path}/nodes.parquet", f"{tmp_path}/edges.parquet")
    assert table.data.num_edges == 0
    assert largest_difference(table, tmp_path / "nodes.parquet", tmp_path / "edges.parquet") < 1e-6


@pytest.mark.parametrize("kind", ["int64", "uint64"])  # the latter beyond the signed ones
def test_integers_are_ids_of_directed_edges(
    tmp_path: Path, kind: Literal["int64", "uint64"]
) -> None:
    nodes, edges = draw_tables(300, 900)
    first = 2**63 if kind == "uint64" else 0
    numbers = {node: first + 7 * int(node[1:]) for node in nodes["id"]}
    nodes["id"] = nodes["id"].map(numbers).astype(kind)
    for end in ("source", "target"):
        edges[end] = edges[end].map(numbers).astype(kind)
    nodes.drop(columns="joined").to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.parquet")
    places = [f"{tmp_path / name}.parquet" for name in ("nodes", "edges")]
    table = store(tmp_path, places[0], places[1], directed=True, hops=3)
    assert [*table.ids] == [*map(str, nodes["id"])]
    data = table.data
    assert data.directed and table.columns.plan.hops == 3
    expected = HopColumns(data.x, data.edge_index, data.edge_weight, hops=3, directed=True)
    torch.testing.assert_close(
        columns_of(table), expected.without_labels, rtol=1e-6, atol=1e-6, check_stride=False
    )


BAD = {
    "no-id": ("select age, buys from nodes", None, "no column tells the nodes apart .*--id-column"),
    "two-rows": (
        "from nodes union all (from nodes where id = 'n7')",
        None,
        r"row 401, column id: 'n7' is already the id of row 192; keep one row per node",
    ),
    "blank": ("select nullif(id, 'n7') as id, age, buys from nodes", None, "the node has no id"),
    "infinite": (
        "select * replace (if(id = 'n7', -'inf'::float, age) as age) from nodes",
        None,
        r"bad_nodes, row 192, column age: '-inf' is not a finite number; write a number",
    ),
    "lost": (None, "from edges union all select 'n1', 'n-1', 1", r"column target: 'n-1' is the id"),
    "weight": (None, "select * replace (-1 as weight) from edges", "1,580 edges have no weight"),
    "no-edges": (None, "from edges limit 0", "there are no rows of edges"),
    "no-nodes": ("from nodes limit 0", None, "there are no rows of nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named_with_the_remedy(tmp_path: Path, case: str) -> None:
    write_tables(tmp_path)
    nodes, edges, message = BAD[case]
    locate(tmp_path, "duckdb")
    with duckdb.connect(tmp_path / "shop.duckdb") as database:
        database.execute(f"create table bad_nodes as {nodes or 'from nodes'}")
        database.execute(f"create table bad_edges as {edges or 'from edges'}")
    places = [f"{tmp_path}/shop.duckdb::bad_{name}" for name in ("nodes", "edges")]
    with pytest.raises(BadInput, match=message):
        store(tmp_path, places[0], places[1])
    assert not (tmp_path / "columns.parquet").exists()


def test_too_many_features_name_the_widest_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tables(tmp_path)
    monkeypatch.setattr("crossgcn.data.engines.tables.MOST_FEATURES", 10)
    with pytest.raises(BadInput, match=r"may have 10; .* are of column joined: leave it out"):
        store(tmp_path, f"{tmp_path}/nodes.parquet", f"{tmp_path}/edges.parquet")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none.duckdb::nodes", "none.duckdb does not exist"),
        ("shop.duckdb::persons", "there is no table 'persons'; there are edges, nodes"),
        ("shop.duckdb", "give .*shop.duckdb::TABLE"),
        ("text.duckdb::nodes", "cannot be opened by DuckDB"),
        ("nodes.parquet::nodes", "only a DuckDB file has tables"),
        (".", "is a folder without files that end in .parquet"),
        ("text.txt", "the ending '.txt' is none of"),
    ],
)
def test_places_without_a_table_are_refused(tmp_path: Path, place: str, message: str) -> None:
    write_tables(tmp_path)
    locate(tmp_path, "duckdb")
    for name in ("text.duckdb", "text.txt"):
        (tmp_path / name).write_text("no table")
    if place == ".":
        (tmp_path / "empty").mkdir()
        place = "empty"
    with pytest.raises(BadInput, match=message):
        store(tmp_path, f"{tmp_path}/{place}", f"{tmp_path}/shop.duckdb::edges")


def test_a_spark_that_is_not_there_and_packages_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crossgcn: Command
) -> None:
    def refuse(*_: Any) -> None:
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    at = "spark://127.0.0.1:1"
    done = crossgcn("hops", f"{at}::nodes", f"{at}::edges", "--target", "y", "--out", "g.parquet")
    assert done.returncode == 2
    assert f"{at} does not answer (Connection refused); give the address" in done.stderr
    write_tables(tmp_path)
    file = f"{tmp_path}/nodes.parquet"
    with pytest.raises(BadInput, match="are in different places"):
        store(tmp_path, f"{at}::nodes", file)
    with pytest.raises(BadInput, match="names no table"):
        store(tmp_path, at, file)
    monkeypatch.setattr("crossgcn.data.engines.connect._check_answers", lambda server: None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(BadInput, match=r"pip install 'crossgcn\[spark\]'"):
        store(tmp_path, f"{at}::nodes", f"{at}::edges")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(BadInput, match=r"pip install 'crossgcn\[duckdb\]'"):
        store(tmp_path, file, file)
