"""Tables in DuckDB, Parquet and text: their columns, what is refused, and what is left behind."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
import torch
from conftest_fixtures import Command
from engine_tables import (
    columns_of,
    difference_of_relations,
    draw_tables,
    largest_difference,
    write_relations,
)

from crossgcn.data.relations import relations_of
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.hop_file import HopTable, read_hop_file, write_hops
from crossgcn.graph.hops import HopColumns

pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")

NODES, EDGES, OUT = Path("nodes.parquet"), Path("edges.parquet"), Path("columns.parquet")
TWO = ("nodes", "edges")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two tables to a new current folder."""
    monkeypatch.chdir(tmp_path)
    write_tables(*draw_tables(400, 1500))


def write_tables(nodes: pd.DataFrame, edges: pd.DataFrame) -> None:
    nodes.to_parquet(NODES)
    edges.to_parquet(EDGES)


def write_database(*statements: str) -> None:
    with duckdb.connect("shop.duckdb") as database:
        for name in TWO:
            database.execute(f"create table {name} as from '{name}.parquet'")
        for statement in statements:
            database.execute(statement)


def store(nodes: str = str(NODES), edges: str = str(EDGES), **more: Any) -> HopTable:
    more = {"out": OUT, "choices": TableChoices(target="buys"), **more}
    write_hops(nodes, edges, **more)
    return read_hop_file(Path(more["out"]))


def test_duckdb_gives_the_columns_of_tables_in_memory() -> None:
    write_tables(*draw_tables(20_000, 80_000))
    write_database()
    places = ("shop.duckdb::nodes", "shop.duckdb::main.edges")
    table = store(*places, memory_limit=256 << 20, threads=2)
    assert largest_difference(table, NODES, EDGES) < 1e-6
    degrees = torch.bincount(table.data.edge_index[0], minlength=20_000)
    assert int((degrees == 0).sum()) >= 2000  # isolated nodes, which get the prior
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_folders_and_text_give_the_columns_of_tables_in_memory(kind: str) -> None:
    """Also where a name has brackets, which are no pattern, and where it is a link."""
    for name in TWO:
        table = pd.read_parquet(f"{name}.parquet")
        if kind == "csv":
            text = table.to_csv(index=False, sep=";", quoting=1)
            Path(f"{name}.csv").write_text("\ufeff" + text, newline="\r\n")
            Path(f"{name}[1].csv").symlink_to(f"{name}.csv")
        else:
            half, parts = len(table) // 2, Path(f"{name}[1]")
            (parts / "more").mkdir(parents=True)
            table[half:].to_parquet(parts / "a.parquet")
            table[:half].to_parquet(parts / "more" / "b.parquet")
            Path(f"{name}1").mkdir()
            table.assign(id="x").to_parquet(Path(f"{name}1", "a.parquet"))
    ending = ".csv" if kind == "csv" else ""
    stored = store(f"nodes[1]{ending}", f"edges[1]{ending}", out="columns[1].parquet")
    assert largest_difference(stored, NODES, EDGES) < 1e-6


def test_edges_of_weight_0_join_nobody() -> None:
    nodes, edges = draw_tables(50, 90)
    write_tables(nodes, edges.assign(weight=0.0))
    table = store()
    assert columns_of(table)[:, -1].sum() == 0  # the numbers of neighbours
    assert largest_difference(table, NODES, EDGES) < 1e-6


@pytest.mark.parametrize("kind", ["int64", "uint64"])  # the latter beyond the signed ones
def test_integers_are_ids_of_directed_edges(kind: Literal["int64", "uint64"]) -> None:
    nodes, edges = draw_tables(300, 900)
    first = 2**63 if kind == "uint64" else 0
    numbers = {node: first + 7 * int(node[1:]) for node in nodes["id"]}
    nodes["id"] = nodes["id"].map(numbers).astype(kind)
    for end in ("source", "target"):
        edges[end] = edges[end].map(numbers).astype(kind)
    write_tables(nodes.drop(columns="joined"), edges)
    choices = TableChoices(target="buys", directed=("neighbours",))
    table = store(choices=choices, hops=3)
    assert [*table.ids] == [*map(str, nodes["id"])]
    data = table.data
    assert data.directed and table.hops == 3
    expected = HopColumns(data.x, relations_of(data), hops=3)
    torch.testing.assert_close(
        columns_of(table), expected.without_labels, rtol=1e-6, atol=1e-6, check_stride=False
    )


def test_relations_columns_of_edges_and_shared_things_are_those_of_memory() -> None:
    write_relations(Path())
    assert difference_of_relations(Path()) < 1e-6


def test_a_column_of_edges_that_varies_late_is_used_as_in_memory() -> None:
    nodes, edges = draw_tables(2000, 12_000)
    late = edges.drop(columns="weight").assign(
        kind=["kin"] * 11_000 + ["job"] * (len(edges) - 11_000)
    )
    write_tables(nodes, late.assign(source_of="book", note=None))
    table = store()
    assert any(str(name).endswith("kind=job (share)") for name in pd.read_parquet(OUT))
    assert [each.name for each in table.plan.relations[0].features] == ["kind"]


def test_names_of_tables_and_columns_are_quoted() -> None:
    strange = 'a"; drop table nodes; --'
    nodes, edges = draw_tables(300, 900)
    names = {"source": strange, "weight": "w'--"}
    write_tables(nodes.rename(columns={"age": strange}), edges.rename(columns=names))
    quoted = strange.replace('"', '""')
    write_database(f'create table "{quoted}" as from edges')
    choices = TableChoices(target="buys", source_column=strange, edge_weight="w'--")
    table = store("shop.duckdb::nodes", f"shop.duckdb::{strange}", choices=choices)
    assert strange in table.encoder.space.names
    assert largest_difference(table, NODES, EDGES, choices) < 1e-6
    assert {f"2 hops: {strange}"} <= {*pd.read_parquet(OUT)}


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
    "lost": (None, "from edges union all select 'n1', 'n-1', 1", r"'n-1' is not the id of a node"),
    "weight": (None, "select * replace (-1 as weight) from edges", "edges have no weight"),
    "no-edges": (None, "from edges limit 0", "there are no rows of edges"),
    "no-nodes": ("from nodes limit 0", None, "there are no rows of nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named_with_the_remedy(case: str) -> None:
    nodes, edges, message = BAD[case]
    write_database(
        f"create table bad_nodes as {nodes or 'from nodes'}",
        f"create table bad_edges as {edges or 'from edges'}",
    )
    with pytest.raises(BadInput, match=message):
        store("shop.duckdb::bad_nodes", "shop.duckdb::bad_edges")
    assert not OUT.exists()


def test_a_row_of_a_text_file_that_does_not_fit_is_refused() -> None:
    header, *rows = pd.read_parquet(EDGES).to_csv(index=False).splitlines()
    Path("edges.csv").write_text("\n".join([header, *rows[:50], "n1", *rows[50:], ""]))
    with pytest.raises(BadInput, match=r"edges.csv, row 52: expected 3 columns, got 1"):
        store(edges="edges.csv")


def test_a_view_of_a_duckdb_file_is_not_run() -> None:
    Path("secret.txt").write_text("secret")
    secret = "(select content from read_text('secret.txt')) as told"
    write_database(f"create view seen as select *, {secret} from 'nodes.parquet'")
    with pytest.raises(BadInput, match=r"no table 'seen'; .* edges, nodes: .*views are not run"):
        store("shop.duckdb::seen", "shop.duckdb::edges")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "none.duckdb::nodes",
            "none.duckdb::nodes cannot be opened by DuckDB .*database does not exist",
        ),
        ("shop.duckdb::persons", "there is no table 'persons'; there are edges, nodes"),
        ("shop.duckdb", "there are edges, nodes: give one .* as shop.duckdb::TABLE"),
        ("text.duckdb::nodes", "cannot be opened by DuckDB"),
        ("nodes.parquet::nodes", "only a DuckDB file has tables"),
        ("empty", "empty cannot be opened by DuckDB .*No files found"),
        ("text.txt", "the ending '.txt' is none of"),
    ],
)
def test_places_without_a_table_are_refused(place: str, message: str) -> None:
    write_database()
    for name in ("text.duckdb", "text.txt"):
        Path(name).write_text("no table")
    Path("empty").mkdir()
    with pytest.raises(BadInput, match=message):
        store(place, "shop.duckdb::edges")


def test_a_spark_that_is_not_there_and_packages_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, crossgcn: Command
) -> None:
    def refuse(*_: Any) -> None:
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    at = "spark://127.0.0.1:1"
    done = crossgcn("hops", f"{at}::nodes", f"{at}::edges", "--target", "y", "--out", "g.parquet")
    assert done.returncode == 2
    assert f"{at} does not answer (Connection refused); give the address" in done.stderr
    with pytest.raises(BadInput, match="are in different places"):
        store(f"{at}::nodes")
    with pytest.raises(BadInput, match="names no table"):
        store(at)
    monkeypatch.setattr("crossgcn.data.engines._check_answers", lambda server: None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(BadInput, match=r"pip install 'crossgcn\[spark\]'"):
        store(f"{at}::nodes", f"{at}::edges")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(BadInput, match=r"pip install 'crossgcn\[duckdb\]'"):
        store()


def left_over() -> set[str]:
    """Return what lies in the current folder besides the tables."""
    names = ("nodes", "edges")
    return {path.name for path in Path().iterdir() if path.stem not in names}


def test_a_file_that_cannot_be_written_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    for out, words in (
        ("none/columns.parquet", "its folder does not exist; make none first"),
        ("columns", "give the Parquet file to write"),
        ("nodes.parquet/x.parquet", "its folder does not exist"),
        ("edges.parquet", "edges.parquet exists and is not a file of crossgcn hops: give another"),
    ):
        with pytest.raises(BadInput, match=words):
            store(out=out, show=stages.append)
    assert stages == [] and left_over() == set()

    def fill_disk(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fill_disk)
        with pytest.raises(WorkFailed, match="No space left on device"):
            store()
    assert left_over() == set()
    store()
    store()
    assert left_over() == {OUT.name} and read_hop_file(OUT).data.num_nodes == 400
