"""Columns in a Parquet file: the graph folder that is made of them again, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_tables import draw_tables
from torchrun_commands import start

from crossgcn.data.seals import add_checksum
from crossgcn.data.stored.open import StoredGraph
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.workflows import hop_columns
from crossgcn.workflows.hop_columns import KEY, import_hop_file, store_beside
from crossgcn.workflows.hops import store_hops

pytest.importorskip("ibis")
pytest.importorskip("duckdb")

Command = Callable[..., CompletedProcess[str]]
QUICK = ("--num-splits", 1, "--bags", 2, "--epochs", 2, "--device", "cpu")
FILE = Path("columns.parquet")


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Write two tables to a new current folder; return that of the nodes."""
    monkeypatch.chdir(tmp_path)
    nodes, edges = draw_tables(400, 1500)
    nodes.loc[3, "buys"] = None
    nodes.to_parquet("nodes.parquet")
    edges.to_parquet("edges.parquet")
    return nodes


def store(choices: TableChoices | None = None, **more: Any) -> StoredGraph:
    choices = choices or TableChoices(target="buys", relation="friends")
    places = "nodes.parquet", "edges.parquet"
    return store_hops(*places, out="graph", choices=choices, parquet=FILE, **more)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("case", ["classes", "number", "directed", "no-target"])
def test_the_same_folder_is_made_again(
    tables: pd.DataFrame, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {}
    choices = TableChoices(target="buys", split_column="part")
    parts = np.where(tables["buys"].isna(), "", np.resize(["train", "validation", "test"], 400))
    tables["part"] = parts
    if case == "number":
        tables["paid"] = np.random.default_rng(0).normal(size=400)
        tables.loc[7, "paid"] = np.nan
        choices = TableChoices(target="paid", ignored=("part", "buys"))
    elif case == "directed":
        edges = pd.read_parquet("edges.parquet")[["source", "target"]]
        edges.to_parquet("edges.parquet")
        more = {"directed": True, "hops": 3}
    elif case == "no-target":
        choices = TableChoices(hash_features=6)
    tables.to_parquet("nodes.parquet")
    monkeypatch.setattr(hop_columns, "GROUP_BYTES", 1 << 14)
    graph = store(choices, **more)
    parquet = pq.ParquetFile(FILE)
    assert parquet.num_row_groups > 3
    again = import_hop_file(FILE, Path("again"))
    assert contents(again.folder) == contents(graph.folder)
    assert (graph.roles is None) == (case in ("number", "no-target"))


def test_a_training_on_the_file_equals_that_on_the_folder(
    tables: pd.DataFrame, crossgcn: Command
) -> None:
    made = crossgcn(
        *("hops", "nodes.parquet", "edges.parquet", "--target", "buys", "--relation", "friends"),
        *("--hops", 1, "--out", "graph", "--parquet", FILE, "--json"),
    )
    assert made.returncode == 0, made.stderr
    then = json.loads(made.stdout)["next"].split()[1:]
    assert crossgcn(*then, *QUICK, "--out", "of-folder").returncode == 0
    for run in ("first", "second"):
        done = crossgcn("train", FILE, "--target", "buys", *QUICK, "--out", run)
        assert done.returncode == 0, done.stderr
    (folder,) = Path().glob("columns-*.graph")
    assert f"stored in {folder}, which the run refers to" in done.stderr
    FILE.unlink()  # the runs do not need it any more
    of_folder = Path("of-folder", "model.safetensors").read_bytes()
    for run in ("first", "second"):
        assert Path(run, "model.safetensors").read_bytes() == of_folder
        assert not [*Path(run).glob("hop-columns-*")]  # no column was computed anew
    told = []
    for run in ("of-folder", "second"):
        explained = crossgcn("explain", run, "--node", "n7", "--json")
        assert crossgcn("predict", run, "--out", f"{run}.csv").returncode == 0
        told.append((json.loads(explained.stdout)["terms"], Path(f"{run}.csv").read_text()))
    assert told[0] == told[1]
    assert "friends: age" in str(told[0][0])
    labels = folder / "labels.npy"
    labels.write_bytes(labels.read_bytes()[:-1] + b"\1")
    changed = crossgcn("predict", "second", "--out", "changed.csv")
    assert changed.returncode == 2 and "labels.npy: was changed after it" in changed.stderr


@pytest.mark.enable_socket
def test_processes_that_share_a_training_make_one_folder(tables: pd.DataFrame) -> None:
    store()
    train = ["train", FILE, *QUICK, "--set", "batch_size=100"]
    process = start([*train, "--out", "shared"], processes=2)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert len([*Path().glob("columns-*.graph")]) == 1
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def changed(table: pa.Table, change: str) -> pa.Table:
    """Change a table as other programs may, which keep what the schema says."""
    position = table.schema.get_field_index("friends: age")
    column = table.column(position).to_numpy().copy()
    column[5] = {"nan": np.nan, "infinite": -np.inf}.get(change, column[5] + 1)
    if change in ("nan", "infinite", "cell"):
        field = table.schema.field(position)
        return table.set_column(position, field, [pa.array(column)])
    if change == "label":
        other = table["buys"].to_pylist()
        other[5] = {"yes": "no", "no": "yes"}[other[5]]
        return table.set_column(1, table.schema.field(1), [pa.array(other)])
    if change == "column":
        return table.remove_column(position)
    if change == "more":
        return table.append_column("more", table.column(0))
    if change == "rows":
        return table.slice(1)
    if change == "order":
        return table.take(np.arange(len(table))[::-1].copy())
    said = json.loads(table.schema.metadata[KEY])
    if change == "said":
        said["page"]["prior"][0] += 1
    elif change == "forged":
        del said["sha256"], said["page"]["prior"]
        said = add_checksum(said)
    else:
        said["version"] = 2
    return table.replace_schema_metadata({KEY: json.dumps(said)})


WRONG = {
    "nan": r"columns.parquet, row 6, column friends: age: nan is not a finite number; write it",
    "infinite": r"row 6, column friends: age: -inf is not a finite number",
    "cell": r"columns.parquet: a cell was changed after it was written; write it again",
    "label": r"columns.parquet: a cell was changed after it was written",
    "order": r"columns.parquet: a cell was changed after it was written",
    "column": r"column \d+ was 'friends: age', float, and is .* so a column was removed, added",
    "more": r"column \d+ was none and is 'more', string, so a column was removed, added",
    "rows": r"has 399 rows where 400 were written",
    "said": r"the text on its columns is damaged \(version 1, or its checksum is another one\)",
    "forged": r"the text on its columns is damaged \('prior'\)",
    "version": r"the text on its columns is damaged \(version 2, or",
}


@pytest.mark.parametrize("change", WRONG)
def test_a_changed_file_is_refused(tables: pd.DataFrame, change: str) -> None:
    store()
    pq.write_table(changed(pq.read_table(FILE), change), FILE)
    with pytest.raises(BadInput, match=WRONG[change]):
        store_beside(FILE)
    assert not [*Path().glob("*columns-*")]


@pytest.mark.parametrize("damage", ["cut", "bit"])
def test_a_damaged_file_is_refused(tables: pd.DataFrame, crossgcn: Command, damage: str) -> None:
    store()
    content = bytearray(FILE.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 3] ^= 1
    FILE.write_bytes(content)
    done = crossgcn("train", FILE, *QUICK, "--out", "run")
    assert done.returncode == 2
    assert "columns.parquet cannot be read as Parquet" in done.stderr
    assert "it is cut short or damaged: write it again" in done.stderr
    assert not [*Path().glob("*columns-*")] and not Path("run").exists()


def test_arguments_that_contradict_the_file_are_refused(
    tables: pd.DataFrame, crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    store()
    for more in (["edges.parquet"], ["--target", "age"], ["--relation", "friends"]):
        done = crossgcn("train", FILE, *more)
        assert done.returncode == 2
        assert f"{more[0]} is one argument too many: columns.parquet holds" in done.stderr
    done = crossgcn("compare", FILE, "--target", "buys")
    assert done.returncode == 2 and "for crossgcn train alone; give the tables" in done.stderr
    monkeypatch.setattr("os.access", lambda *_: False)
    done = crossgcn("train", FILE)
    assert done.returncode == 2 and "copy or link the file into another folder" in done.stderr


def test_other_parquet_is_a_table_of_nodes(tables: pd.DataFrame, crossgcn: Command) -> None:
    store()
    frame = pd.read_parquet(FILE).drop(columns=["rows of neighbours", "weights of neighbours"])
    frame.to_parquet("plain.parquet")  # pandas keeps the names alone
    done = crossgcn("train", "plain.parquet", *QUICK, "--out", "run")
    assert done.returncode == 2
    assert "plain.parquet is a table: give the column to predict as --target" in done.stderr
    done = crossgcn("train", "nodes.parquet", "edges.parquet", "--target", "buys", *QUICK)
    assert done.returncode == 0, done.stderr
