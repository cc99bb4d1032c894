from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from crossgcn.data import build_graph
from crossgcn.data.datasets.shop import make_shop, write_shop
from crossgcn.data.stored import edge_files as id_lookup
from crossgcn.data.stored.import_graph import space_for
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput, WorkFailed


@pytest.fixture
def edges() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(random.integers(0, 90, (5000, 2)), columns=["source", "target"])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that every file here takes several."""
    monkeypatch.setattr(id_lookup.NumberLookup, "batch_rows", 512)
    monkeypatch.setattr(id_lookup, "BATCH_ROWS", 512)
    monkeypatch.setattr("crossgcn.data.stored.edge_files.SAMPLE_ROWS", 100)


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def test_every_kind_of_file_gives_the_same_graph(edges: pd.DataFrame, tmp_path: Path) -> None:
    names = ["e.csv", "e.tsv", "e.csv.gz", "e.parquet", "semicolons.csv", "sep.csv"]
    names += ["utf-16.csv", "utf-16.csv.gz", "e.xlsx"]
    edges.to_csv(tmp_path / names[0], index=False)
    edges.to_csv(tmp_path / names[1], index=False, sep="\t")
    edges.to_csv(tmp_path / names[2], index=False)
    edges.to_parquet(tmp_path / names[3], row_group_size=700)
    edges.to_csv(tmp_path / names[4], index=False, sep=";")
    (tmp_path / names[5]).write_text("sep=|\n" + edges.to_csv(index=False, sep="|"))
    for name in names[6:8]:
        edges.to_csv(tmp_path / name, index=False, encoding="utf-16")
    edges.to_excel(tmp_path / names[8], index=False)
    found = {
        name: build_graph(tmp_path / name, out=tmp_path / f"graph of {name}") for name in names
    }
    proper = edges[edges["source"] != edges["target"]]
    arrays = build_graph(proper.to_numpy().T, out=tmp_path / "arrays")
    assert {graph.fingerprint for graph in found.values()} == {arrays.fingerprint}
    assert arrays.num_self_loops == 0 and arrays.num_nodes == 90
    halves = [tmp_path / "1.csv", tmp_path / "2.parquet"]
    edges[:2000].to_csv(halves[0], index=False)
    edges[2000:].to_parquet(halves[1])
    both = build_graph(halves, out=tmp_path / "of halves")
    assert both.fingerprint == arrays.fingerprint


def same(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return first is second
    if first.layout == torch.sparse_csr:
        first, second = first.to_dense(), second.to_dense()
    return first.dtype == second.dtype and torch.equal(first, second)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_ids_with_accents_are_found_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    ids = [f"café {number}" for number in range(40)]
    nodes = pd.DataFrame({"id": ids, "size": [1, 2, 2, 3] * 10, "kind": ["a", "b"] * 20})
    nodes.to_csv(tmp_path / "nodes.csv", index=False, encoding=encoding)
    edges = pd.DataFrame({"from": ids[:-1], "to": ids[1:]})
    edges.to_csv(tmp_path / "edges.csv", index=False, encoding=encoding)
    graph = build_graph(
        tmp_path / "edges.csv",
        tmp_path / "nodes.csv",
        out=tmp_path / "graph",
        choices=TableChoices(target="kind"),
        on_warning=lambda words: None,
    )
    assert graph.num_edges == 39
    assert graph.ids is not None
    assert graph.ids[3] == "café 3"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_become_what_train_makes_of_them(kind: Any, tmp_path: Path) -> None:
    shop = make_shop(400, seed=1)
    nodes, edges, *_ = write_shop(tmp_path / "shop", shop, kind)
    table = load_tables(nodes, edges, TableChoices(target="buys"))
    stored = build_graph(edges, nodes, out=tmp_path / "graph", choices=TableChoices(target="buys"))
    data = stored.to_data()
    for name in ("x", "edge_index", "edge_weight", "y", "roles"):
        assert same(data.get(name), table.data.get(name)), name
    assert stored.preprocess is not None
    assert stored.preprocess.classes == table.classes
    assert stored.preprocess.space == table.encoder.space
    assert stored.num_classes == table.data.num_classes


def make_tables(ids: list[Any], tmp_path: Path, kind: str = "csv") -> tuple[Path, Path]:
    """Twenty nodes in a circle with weights, two roles, one self-loop, one edge twice."""
    random = np.random.default_rng(3)
    nodes = pd.DataFrame(
        {
            "id": ids,
            "size": random.random(20),
            "kind": random.choice(["a", "b", "c"], 20),
            "label": ["x", "y"] * 10,
            "split": ["train"] * 12 + ["val"] * 4 + ["test"] * 4,
        }
    )
    at = [*range(20), 5, 3]
    to = [*range(1, 20), 0, 5, 2]
    weights = np.round(random.random(22), 3)
    edges = pd.DataFrame(
        {"from": [ids[i] for i in at], "to": [ids[i] for i in to], "weight": weights}
    )
    paths = (tmp_path / f"nodes.{kind}", tmp_path / f"edges.{kind}")
    for table, path in zip((nodes, edges), paths, strict=True):
        if kind == "csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path)
    return paths


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "ids",
    [
        [f"person {number}" for number in range(20)],
        list(range(119, 99, -1)),
        [7 ** (number + 1) for number in range(20)],
        [f"{number:03}" for number in range(20)],
    ],
    ids=["text", "numbers", "numbers far apart", "leading zeros"],
)
def test_nodes_are_found_by_whatever_ids_they_have(
    ids: list[Any], kind: str, tmp_path: Path
) -> None:
    nodes, edges = make_tables(ids, tmp_path, kind)
    choices = TableChoices(target="label")
    table = load_tables(nodes, edges, choices)
    warnings: list[str] = []
    stored = build_graph(
        edges, nodes, out=tmp_path / "graph", choices=choices, on_warning=warnings.append
    )
    data = stored.to_data()
    for name in ("x", "edge_index", "edge_weight", "y", "roles"):
        assert same(data.get(name), table.data.get(name)), name
    expected = [problem.describe() for problem in table.problems if problem.file == str(nodes)]
    assert warnings == expected


@pytest.mark.parametrize("header", ["a", "b"])
def test_an_id_with_leading_zeros_far_down_is_not_another_node(header: str, tmp_path: Path) -> None:
    nodes = pd.DataFrame({"id": range(20), "hat": ["red", "blue"] * 10})
    edges = pd.DataFrame({"a": [0, 1, 2, 3] * 1000, "b": [1, 2, 3, 4] * 1000}, dtype="str")
    edges.loc[3000, header] = "007"
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    with pytest.raises(
        BadInput, match=rf"edges\.csv, row 3002, column {header}: '007' is the id of no node; add"
    ):
        build_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv", out=tmp_path / "graph")
    assert leftovers(tmp_path) == set()


def test_warnings_of_the_table_checks_are_reported(tmp_path: Path) -> None:
    shop = make_shop(400, seed=1)
    leaking = shop.nodes.assign(bought=shop.nodes["buys"].str.upper())
    leaking.to_csv(tmp_path / "nodes.csv", index=False)
    shop.edges.to_csv(tmp_path / "edges.csv", index=False)
    files = (tmp_path / "edges.csv", tmp_path / "nodes.csv")
    choices = TableChoices(target="buys")
    warnings: list[str] = []
    build_graph(*files, out=tmp_path / "one", choices=choices, on_warning=warnings.append)
    assert any("column bought" in words for words in warnings)
    with pytest.warns(UserWarning, match="column bought"):
        build_graph(*files, out=tmp_path / "two", choices=choices)


@pytest.mark.parametrize("kind", ["float64", "category", "uint16"])
def test_parquet_columns_of_other_types_name_the_same_nodes(kind: Any, tmp_path: Path) -> None:
    nodes, edges = make_tables(list(range(119, 99, -1)), tmp_path, "parquet")
    plain = build_graph(edges, nodes, out=tmp_path / "plain")
    frame = pd.read_parquet(edges)
    frame.astype({"from": kind, "to": kind}).to_parquet(edges)
    again = build_graph(edges, nodes, out=tmp_path / "again")
    assert torch.equal(again.neighbours, plain.neighbours)
    assert torch.equal(again.offsets, plain.offsets)


def test_an_end_that_is_no_node_is_named(tmp_path: Path) -> None:
    for ids, wrong in (
        ([f"p{number}" for number in range(20)], "p77"),
        (list(range(20)), 77),
        ([9**number for number in range(20)], 77),
    ):
        nodes, edges = make_tables(list(ids), tmp_path)
        frame = pd.read_csv(edges, dtype=str)
        frame.loc[17, "to"] = str(wrong)
        frame.to_csv(edges, index=False)
        with pytest.raises(
            BadInput,
            match=rf"edges\.csv, row 19, column to: '{wrong}' is the id of no node; add it to",
        ):
            build_graph(edges, nodes, out=tmp_path / "graph")
    assert leftovers(tmp_path) == set()


def cut_parquet(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damage_parquet(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(300) + content[middle + 300 :]


@pytest.mark.parametrize(
    ("name", "spoil", "words"),
    [
        ("e.parquet", cut_parquet, r"e\.parquet cannot be read as Parquet .* cut short or damaged"),
        ("e.parquet", damage_parquet, r"e\.parquet cannot be read as Parquet after row [\d,]+"),
        ("e.csv.gz", cut_parquet, r"e\.csv\.gz is not a complete gzip file"),
        (
            "e.csv",
            lambda content: content[:-1].rsplit(b",", 1)[0],
            r"e\.csv, row 5001: Expected 2 columns, got 1",
        ),
        (
            "e.csv",
            lambda content: content + b"5,six\n",
            r"e\.csv, row 5002, column target: 'six' is not a whole number",
        ),
        ("e.csv", lambda content: content + b"5,\n", r"row 5002, column target: an empty cell"),
        ("e.csv", lambda content: content + b"-1,4\n", r"row 5002, column source: '-1' is no node"),
        ("e.csv", lambda content: b"source,target\n", "there are no rows of edges"),
        ("e.csv", lambda content: b"", "is empty; give a header row"),
        (
            "e.csv",
            lambda content: b"source,source\n1,2\n",
            "are both called 'source'",
        ),
        ("e.csv", lambda content: b"source\n1\n", "an edge has two ends"),
    ],
)
def test_a_spoilt_file_is_named_and_leaves_nothing(
    name: str,
    spoil: Callable[[bytes], bytes],
    words: str,
    edges: pd.DataFrame,
    tmp_path: Path,
) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        edges.to_parquet(path, row_group_size=500)
    else:
        content = edges.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(BadInput, match=words):
        build_graph(path, out=tmp_path / "graph", on_warning=list[str]().append)
    assert leftovers(tmp_path) == set()


def test_numbers_and_weights_out_of_range_are_named(edges: pd.DataFrame, tmp_path: Path) -> None:
    edges.to_csv(tmp_path / "e.csv", index=False)
    row = int(np.flatnonzero(edges["source"] >= 80)[0]) + 2
    with pytest.raises(BadInput, match=rf"e\.csv, row {row}, column source.* no node; .* 0 to 79"):
        build_graph(tmp_path / "e.csv", out=tmp_path / "graph", num_nodes=80)
    edges["weight"] = 1.0
    edges.loc[2222, "weight"] = -0.5
    edges.to_parquet(tmp_path / "e.parquet")
    with pytest.raises(BadInput, match=r"e\.parquet, row 2223, column weight: '-0\.5' is no wei"):
        build_graph(tmp_path / "e.parquet", out=tmp_path / "graph")
    assert leftovers(tmp_path) == set()


def test_without_pyarrow_arrays_are_taken_and_files_name_the_extra(
    edges: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges.to_csv(tmp_path / "e.csv", index=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert build_graph(np.array([[0], [1]]), out=tmp_path / "arrays").num_edges == 1
    with pytest.raises(BadInput, match=r"needs pyarrow; pip install 'crossgcn\[parquet\]'$"):
        build_graph(tmp_path / "e.csv", out=tmp_path / "files")
    assert leftovers(tmp_path) == {"arrays"}


def test_files_that_are_none_are_refused(edges: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "e.ods").touch()
    for path, words in (
        ("e.ods", "none of .csv"),
        ("gone.csv", "does not exist"),
        ("e.csv", "there is no column 'start'"),
    ):
        edges.to_csv(tmp_path / "e.csv", index=False)
        choices = TableChoices(source_column="start")
        with pytest.raises(BadInput, match=words):
            build_graph(tmp_path / path, out=tmp_path / "graph", choices=choices)


def test_too_small_a_disk_is_said_before_anything_is_read(
    edges: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges.to_parquet(tmp_path / "e.parquet")
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(WorkFailed, match=r"needs about 0\.00 GB .*, 0\.00 GB are free"):
        build_graph(tmp_path / "e.parquet", out=tmp_path / "graph")
    assert leftovers(tmp_path) == set()


def test_the_space_foreseen_is_enough(edges: pd.DataFrame, tmp_path: Path) -> None:
    edges.to_parquet(tmp_path / "e.parquet")
    graph = build_graph(tmp_path / "e.parquet", out=tmp_path / "graph")
    arrays = sum(about.bytes - 128 for about in graph.files.values())
    foreseen = space_for(len(edges), 90, False, False, 1 << 30)
    assert arrays <= foreseen + 8
    assert space_for(10**9, 10**6, False, True, 1 << 30) == 2 * 10**9 * 20 + 8 * 10**6
