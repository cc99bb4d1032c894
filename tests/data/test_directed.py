"""Edges that lead one way keep their direction wherever a graph is brought or kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from crossgcn.data import canonical_graph, open_graph, read_graph, save_graph, store_graph
from crossgcn.errors import BadInput
from crossgcn.experiments.predict import class_scores, score_known_nodes
from crossgcn.experiments.run_folder import open_run

Command = Callable[..., CompletedProcess[str]]
NODES = 5


def by_hand(edges: list[tuple[int, int, float]], weighted: bool) -> Data:
    ends = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T.copy()
    return Data(
        x=torch.eye(NODES),
        edge_index=torch.from_numpy(ends),
        edge_weight=torch.tensor([edge[2] for edge in edges]) if weighted else None,
        y=torch.arange(NODES) % 2,
        num_classes=2,
        name="mine",
        directed=True,
    )


def table_of(data: Data) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weight from each node to each other, nowhere twice."""
    table = np.full((NODES, NODES), np.nan)
    weights = (
        np.ones(data.edge_index.size(1))
        if data.get("edge_weight") is None
        else (data.edge_weight.numpy())
    )
    for (source, target), weight in zip(data.edge_index.T.tolist(), weights, strict=True):
        assert np.isnan(table[source, target])
        table[source, target] = weight
    return table


ENDS = st.integers(0, NODES - 1)
EDGES = st.lists(st.tuples(ENDS, ENDS, st.integers(0, 40).map(lambda n: n / 8)), min_size=1)


@given(EDGES, st.booleans())
def test_repeated_edges_become_one_and_none_is_turned(
    edges: list[tuple[int, int, float]], weighted: bool
) -> None:
    expected = np.full((NODES, NODES), np.nan)
    for source, target, _ in edges:
        same = [weight for *ends, weight in edges if ends == [source, target]]
        expected[source, target] = np.float32(np.mean(same)) if weighted else 1.0
    adopted = canonical_graph(by_hand(edges, weighted))
    np.testing.assert_array_equal(table_of(adopted), expected)
    again = canonical_graph(adopted)
    assert again.directed and torch.equal(again.edge_index, adopted.edge_index)


@pytest.mark.parametrize("weighted", [False, True])
def test_files_and_folders_keep_the_direction(tmp_path: Path, weighted: bool) -> None:
    data = by_hand([(3, 0, 2.0), (0, 3, 1.0), (4, 1, 0.5), (2, 2, 3.0), (4, 0, 1.5)], weighted)
    save_graph(tmp_path / "mine.npz", data)
    stored = store_graph(read_graph(tmp_path / "mine.npz"), tmp_path / "folder")
    assert stored.directed and stored.num_entries == 5
    loaded = open_graph(tmp_path / "folder").to_data()
    save_graph(tmp_path / "again.npz", loaded)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "mine.npz").read_bytes()
    for graph in (read_graph(tmp_path / "again.npz"), loaded):
        assert graph.directed
        np.testing.assert_array_equal(table_of(graph), table_of(canonical_graph(data)))


def test_a_file_that_says_no_such_thing_is_undirected(tmp_path: Path, small_graph: Data) -> None:
    save_graph(tmp_path / "small.npz", small_graph)
    arrays = dict(np.load(tmp_path / "small.npz"))
    assert "directed" not in arrays
    np.savez(tmp_path / "no.npz", **arrays, directed=np.array(False))
    assert "directed" not in read_graph(tmp_path / "no.npz")
    np.savez(tmp_path / "odd.npz", **arrays, directed=np.array([1, 0]))
    with pytest.raises(BadInput, match=r"directed is int64 \[2\]; it must be one boolean"):
        read_graph(tmp_path / "odd.npz")


@pytest.fixture
def run(crossgcn: Command) -> Command:
    """The command line beside a run on a shop of which recommendations lead one way."""
    assert crossgcn("example", "--nodes", 300).returncode == 0
    nodes = ("--nodes", "shop/nodes.csv", "--target", "buys")
    shop = ("data", "import", "shop/edges.csv", *nodes, "--directed", "--out", "graph")
    assert crossgcn(*shop).returncode == 0
    settings = ("--splits", "stratified", "--num-splits", 1, "--epochs", 20, "--workers", 1)
    done = crossgcn("train", "graph", *settings, "--device", "cpu", "--out", "run")
    assert done.returncode == 0, done.stderr
    return crossgcn


def test_new_nodes_hear_from_those_that_lead_to_them_alone(run: Command) -> None:
    assert open_graph("graph").directed
    opened = score_known_nodes(open_run(Path("run"), load=False)).probabilities
    whole = open_run(Path("run"))
    loaded = class_scores(whole.saved.model, whole.data).softmax(dim=1)
    torch.testing.assert_close(opened, loaded)

    new = pd.read_csv("shop/new_nodes.csv").head(1)
    new.to_csv("new.csv", index=False)
    ends = {"customer": [new["customer"][0]] * 3, "friend": ["u_1", "u_2", "u_3"]}
    pd.DataFrame(ends).to_csv("from.csv", index=False)
    pd.DataFrame({"customer": ends["friend"], "friend": ends["customer"]}).to_csv(
        "to.csv", index=False
    )
    scores = {}
    for name, edges in (("alone", ()), ("from", ("from.csv",)), ("to", ("to.csv",))):
        done = run("predict", "run", "new.csv", *edges, "--out", f"{name}-scores.csv")
        assert done.returncode == 0, done.stderr
        scores[name] = Path(f"{name}-scores.csv").read_text()
    assert scores["from"] == scores["alone"] != scores["to"]
