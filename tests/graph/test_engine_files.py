"""Files that ``crossgcn hops`` reads: those that were named, every row, and nothing else."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from engine_tables import draw_tables

from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.engine_hops import write_hops
from crossgcn.graph.hop_file import HopTable, read_hop_file

pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")

NUM_NODES, NUM_EDGES = 60, 100


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write both tables to a new current folder, as CSV and as Parquet."""
    monkeypatch.chdir(tmp_path)
    nodes, edges = draw_tables(NUM_NODES, NUM_EDGES)
    nodes, edges = nodes[["id", "age", "buys"]], edges[["source", "target"]]
    for name, table in (("nodes", nodes), ("edges", edges)):
        table.to_csv(f"{name}.csv", index=False)
        table.to_parquet(f"{name}.parquet")
    return nodes, edges


Tables = tuple[pd.DataFrame, pd.DataFrame]


OUT = Path("columns.parquet")


def store(nodes: str = "nodes.csv", edges: str = "edges.csv", **more: Any) -> HopTable:
    return write_hops(nodes, edges, **{"out": OUT, "choices": TableChoices(target="buys"), **more})


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_a_name_with_brackets_is_not_a_pattern(tables: Tables, kind: str) -> None:
    wanted, other = (tables[0].assign(id=mark + tables[0]["id"]) for mark in ("", "x"))
    for name, table in (("nodes[1]", wanted), ("nodes1", other)):
        if kind == "csv":
            table.to_csv(f"{name}.csv", index=False)
        elif kind == "parquet":
            table.to_parquet(f"{name}.parquet")
        else:
            Path(name).mkdir()
            table.to_parquet(f"{name}/part.parquet")
    place = "nodes[1]" if kind == "folder" else f"nodes[1].{kind}"
    store(place, out="columns[1].parquet")
    assert {*read_hop_file(Path("columns[1].parquet")).ids} == {*wanted["id"]}


def test_a_row_of_a_text_file_that_does_not_fit_is_refused(tables: Tables) -> None:
    header, *rows = Path("edges.csv").read_text().splitlines()
    Path("edges.csv").write_text("\n".join([header, *rows[:50], "n1", *rows[50:], ""]))
    with pytest.raises(BadInput, match=r"edges.csv, row 52: 1 cell.s. where the header has 2"):
        store()
    assert not OUT.exists()


def test_text_is_read_as_in_memory(tables: Tables) -> None:
    nodes, edges = tables
    nodes = nodes.assign(**{'a "b"\'s': "007", "empty": ""})
    text = nodes.to_csv(index=False, sep=";", quoting=1)
    Path("nodes.csv").write_text("\ufeff" + text, newline="\r\n")
    edges.to_csv("edges.tsv", index=False, sep="\t")
    file = store(edges="edges.tsv")
    assert len(file.ids) == NUM_NODES
    columns = file.plan.columns
    assert [column.name for column in columns] == [*nodes]


def test_linked_files_are_read(tables: Tables) -> None:
    with duckdb.connect("shop.duckdb") as database:
        database.execute("create table nodes as from 'nodes.parquet'")
    Path("links").mkdir()
    for name in ("shop.duckdb", "edges.csv"):
        Path("links", name).symlink_to(Path(name).resolve())
    assert store("links/shop.duckdb::nodes", "links/../links/edges.csv").data.num_nodes == NUM_NODES


def test_a_view_of_a_duckdb_file_is_not_run(tables: Tables) -> None:
    Path("secret.txt").write_text("secret")
    with duckdb.connect("shop.duckdb") as database:
        database.execute("create table edges as from 'edges.parquet'")
        database.execute(
            "create view nodes as select *, (select content from read_text('secret.txt')) as told "
            "from 'nodes.parquet'"
        )
    message = r"shop.duckdb::nodes is a view, .*: CREATE TABLE new AS SELECT \* FROM nodes"
    with pytest.raises(BadInput, match=message):
        store("shop.duckdb::nodes", "shop.duckdb::edges")


def left_over() -> set[str]:
    """Return what lies in the current folder besides the tables."""
    names = ("nodes", "edges")
    return {path.name for path in Path().iterdir() if path.stem not in names}


def test_a_file_that_cannot_be_written_leaves_nothing(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    for out, words in (
        ("none/columns.parquet", "its folder does not exist; make none first"),
        ("columns", "give the Parquet file to write"),
        ("nodes.csv/x.parquet", "its folder does not exist"),
        ("edges.parquet", "is where the table edges.parquet is: give another"),
    ):
        with pytest.raises(BadInput, match=words):
            store("nodes.parquet", "edges.parquet", out=out, show=stages.append)
    assert stages == [] and left_over() == set()

    def fill_disk(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fill_disk)
        with pytest.raises(WorkFailed, match="No space left on device"):
            store()
    assert left_over() == set()
    OUT.write_bytes(b"earlier")
    store()
    assert left_over() == {OUT.name} and read_hop_file(OUT).data.num_nodes == NUM_NODES


KILLED = """
import os, signal
from crossgcn.data.tables.plan import TableChoices
from crossgcn.graph.engine_hops import write_hops
def stop(stage):
    if stage == "hop 2: means over neighbours":
        os.kill(os.getpid(), signal.SIGKILL)
choices = TableChoices(target="buys")
write_hops("nodes.csv", "edges.csv", out="columns.parquet", choices=choices, show=stop)
"""


def test_what_a_killed_process_left_is_removed(tables: Tables) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [name for name in left_over() if name.endswith(".hops")] != []
    store()
    assert left_over() == {OUT.name}


def test_one_process_at_a_time_writes_a_file(tables: Tables) -> None:
    def start_another(stage: str) -> None:
        if stage == "reading the nodes":
            script = KILLED.replace("SIGKILL", "SIGTERM")
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
            assert f"{OUT} is being written by process {os.getpid()}" in done.stderr.decode()

    store(show=start_another)
