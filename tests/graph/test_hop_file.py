"""The Parquet file of ``crossgcn hops``: trained on like tables, and refused if it was changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest_fixtures import Command
from engine_tables import columns_of, draw_tables
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgcn.data.graph import canonical_graph
from crossgcn.data.relations import relations_of
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput
from crossgcn.graph import hop_file
from crossgcn.graph.hop_file import CHECKSUM, KEY, read_hop_file, write_hops
from crossgcn.graph.hops import HopColumns

pytest.importorskip("ibis")
pytest.importorskip("duckdb")

QUICK = ("--num-splits", 1, "--bags", 2, "--epochs", 2, "--device", "cpu")
FILE = Path("columns.parquet")
DIRECTED = TableChoices(target="buys", split_column="part", directed=("neighbours",))


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Write two tables to a new current folder; return that of the nodes."""
    monkeypatch.chdir(tmp_path)
    nodes, edges = draw_tables(400, 1500)
    nodes.loc[3, "buys"] = None
    nodes.to_parquet("nodes.parquet")
    edges.to_parquet("edges.parquet")
    return nodes


def store(choices: TableChoices | None = None, **more: Any) -> None:
    choices = choices or TableChoices(target="buys", relation="friends")
    write_hops("nodes.parquet", "edges.parquet", out=FILE, choices=choices, **more)


@pytest.mark.parametrize("case", ["classes", "number", "directed", "no-target"])
def test_labels_roles_edges_and_columns_come_back(
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
        more = {"hops": 3, "choices": DIRECTED}
    elif case == "no-target":
        choices = TableChoices(ignored=("part",))
    tables.to_parquet("nodes.parquet")
    monkeypatch.setattr(hop_file, "GROUP_BYTES", 40_000)
    store(**{"choices": choices, **more})
    assert pq.ParquetFile(FILE).num_row_groups > 1
    found = read_hop_file(FILE)
    by_id = tables.set_index("id").loc[list(found.ids)]
    data = found.data
    if case == "number":
        torch.testing.assert_close(
            data.y, torch.tensor(by_id["paid"].to_numpy()), rtol=0, atol=0, equal_nan=True
        )
    elif case != "no-target":
        named = [found.classes[code] if code >= 0 else None for code in data.y.tolist()]
        assert named == [each if isinstance(each, str) else None for each in by_id["buys"]]
        roles = [("", "train", "validation", "test")[role] for role in data.roles[0].tolist()]
        assert roles == by_id["part"].tolist()
    if case != "no-target":
        again = canonical_graph(data)
        for name in ("x", "edge_index", "edge_weight", "y"):
            torch.testing.assert_close(again[name], data[name], rtol=0, atol=0, equal_nan=True)
    expected = HopColumns(data.x, relations_of(data), hops=found.columns.hops).without_labels
    torch.testing.assert_close(columns_of(found), expected, rtol=0, atol=0, check_stride=False)


def test_a_file_is_trained_on_explained_and_predicted(
    tables: pd.DataFrame, crossgcn: Command
) -> None:
    made = crossgcn(
        *("hops", "nodes.parquet", "edges.parquet", "--target", "buys", "--relation", "friends"),
        *("--hops", 1, "--out", FILE, "--json"),
    )
    assert made.returncode == 0, made.stderr
    then = json.loads(made.stdout)["next"].split()[1:]
    assert then == ["train", "columns.parquet"]
    columns = pd.read_parquet(FILE).set_index("id")
    own = tables.set_index("id")["buys"].loc[columns.index]
    assert columns["buys"].fillna("").tolist() == own.fillna("").tolist()
    assert {"age", "friends: age", "number of friends"} <= {*columns}
    for run in ("first", "second"):
        done = crossgcn(*then, "--target", "buys", *QUICK, "--out", run, "--json")
        assert done.returncode == 0, done.stderr
    of_file = json.loads(done.stdout)
    assert Path("first", "model.safetensors").read_bytes() == (
        Path("second", "model.safetensors").read_bytes()
    )
    in_memory = crossgcn(
        *("train", "nodes.parquet", "edges.parquet", "--target", "buys", "--hops", 1),
        *("--relation", "friends", *QUICK, "--out", "memory", "--json"),
    )
    assert in_memory.returncode == 0, in_memory.stderr
    same, test = ("metric", "columns"), json.loads(in_memory.stdout)["test"]
    assert [of_file[each] for each in same] == [json.loads(in_memory.stdout)[each] for each in same]
    assert of_file["test"].keys() == test.keys()
    assert of_file["test"]["roc_auc"] == pytest.approx(test["roc_auc"], abs=1e-4)
    told = []
    for run in ("second", "memory"):
        explained = crossgcn("explain", run, "--node", "n7", "--json")
        assert crossgcn("predict", run, "--out", f"{run}.csv").returncode == 0
        told.append(json.loads(explained.stdout)["score"])
    assert told[0] == pytest.approx(told[1], abs=1e-3)
    assert {*pd.read_csv("second.csv")["id"]} == {*tables["id"]}
    tables.head(2).assign(id=["new1", "new2"]).to_csv("new.csv", index=False)
    new = crossgcn("predict", "second", "new.csv", "--out", "of-new.csv")
    assert new.returncode == 0, new.stderr
    FILE.write_bytes(Path("nodes.parquet").read_bytes())
    changed = crossgcn("predict", "second", "--out", "changed.csv")
    assert changed.returncode == 2 and "columns.parquet: is not what was written" in changed.stderr
    FILE.unlink()
    gone = crossgcn("explain", "second")
    assert gone.returncode == 2 and "is not there any more; move it back" in gone.stderr


def test_other_hops_and_layered_models_read_the_edges_of_the_file(
    tables: pd.DataFrame, crossgcn: Command
) -> None:
    store()
    for more in (("--hops", "0"), ("--model", "cross-gcn"), ("--set", "label_features=false")):
        options = ["--num-splits", 1, "--epochs", 2, "--out", more[-1].replace("=", "-"), "--json"]
        done = crossgcn("train", FILE, *more, *options)
        assert done.returncode == 0, done.stderr
        trained = json.loads(done.stdout)
        assert trained["target"] == "buys" and (trained["hops"] == 0) == ("--hops" in more)


def changed(table: pa.Table, change: str) -> pa.Table:
    """Change a table as other programs may, which keep what the schema says."""
    position = table.schema.get_field_index("age")
    if change in ("nan", "infinite"):
        column = table.column(position).to_numpy().copy()
        column[5] = {"nan": np.nan, "infinite": -np.inf}[change]
        return table.set_column(position, table.schema.field(position), [pa.array(column)])
    if change == "column":
        return table.remove_column(position)
    if change == "rows":
        return table.slice(1)
    if change == "neighbour":
        near = table["rows of friends"].to_pylist()
        near[5] = [400]
        place = table.schema.get_field_index("rows of friends")
        field = table.schema.field(place)
        return table.set_column(place, field, pa.array(near, field.type))
    said = json.loads(table.schema.metadata[KEY])
    said["version"] = 1
    text = json.dumps(said).encode()
    checksum = table.schema.metadata[CHECKSUM]
    if change == "version":
        checksum = hashlib.sha256(text).hexdigest().encode()
    return table.replace_schema_metadata({KEY: text, CHECKSUM: checksum})


WRONG = {
    "nan": r"columns.parquet, row 6, column age: nan is not a finite number; write it",
    "infinite": r"row 6, column age: -inf is not a finite number",
    "column": r"age.*write it again",
    "rows": r"rows were removed or added; write it again",
    "neighbour": r"column rows of friends: holds a row that does not exist",
    "said": r"the description of the columns was changed",
    "version": r"was written by another version of crossgcn",
}


@pytest.mark.parametrize("change", WRONG)
def test_a_changed_file_is_refused(tables: pd.DataFrame, change: str) -> None:
    store()
    pq.write_table(changed(pq.read_table(FILE), change), FILE)
    with pytest.raises(BadInput, match=WRONG[change]):
        read_hop_file(FILE)


def test_damage_is_refused_or_changes_nothing(tables: pd.DataFrame) -> None:
    store()
    whole, expected = FILE.read_bytes(), read_hop_file(FILE)

    @settings(max_examples=60)
    @given(at=st.integers(0, len(whole) - 1), cut=st.booleans())
    def check(at: int, cut: bool) -> None:
        broken = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        Path("broken.parquet").write_bytes(broken)
        try:
            found = read_hop_file(Path("broken.parquet"))
        except BadInput as error:
            assert "broken.parquet" in str(error) and "write it again" in str(error)
            return
        assert found.ids == expected.ids
        for ours, theirs in (
            (found.data.x, expected.data.x),
            (found.data.edge_index, expected.data.edge_index),
            (found.data.y, expected.data.y),
        ):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)

    check()


def test_arguments_that_contradict_the_file_are_refused(
    tables: pd.DataFrame, crossgcn: Command
) -> None:
    store()
    for more in (["edges.parquet"], ["--target", "age"], ["--relation", "friends"]):
        done = crossgcn("train", FILE, *more)
        assert done.returncode == 2
        assert f"{' '.join(more)} is one argument too many: columns.parquet holds" in done.stderr
    done = crossgcn("compare", FILE, "--target", "buys")
    assert done.returncode == 2 and "which only crossgcn train reads; give" in done.stderr


def test_names_of_nodes_come_back_and_two_columns_of_one_name_are_refused(
    tables: pd.DataFrame,
) -> None:
    tables["called"] = "node " + tables["id"]
    tables.to_parquet("nodes.parquet")
    choices = TableChoices(target="buys", name_column="called", relation="friends")
    store(choices)
    found = read_hop_file(FILE)
    assert found.names == tuple(f"node {each}" for each in found.ids)
    tables["number of friends"] = np.repeat(np.arange(0.5, 200), 2)
    tables.to_parquet("nodes.parquet")
    with pytest.raises(BadInput, match=r"two columns of .* called 'number of friends': rename"):
        store(choices)


def test_other_parquet_is_a_table_of_nodes(tables: pd.DataFrame, crossgcn: Command) -> None:
    store()
    frame = pd.read_parquet(FILE).drop(columns=["rows of friends", "weights of friends"])
    frame.to_parquet("plain.parquet")  # pandas keeps the names alone
    done = crossgcn("train", "plain.parquet", *QUICK, "--out", "run")
    assert done.returncode == 2
    assert "plain.parquet is a table: give the column to predict as --target" in done.stderr
