from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from small_models import draw_graph
from torch_geometric.data import Data

from crossgcn.data.graph_file import save_graph

Command = Callable[..., CompletedProcess[str]]


def train_on(crossgcn: Command, graph: Data, folder: Path, *options: str) -> None:
    graph.y = graph.x[:, :3].argmax(dim=1)
    graph.name = "small"
    save_graph(folder / "small.npz", graph)
    done = crossgcn(
        "train", "small.npz", "--epochs", "2", "--num-splits", "1", "--splits", "stratified",
        "--train", "all", "--workers", "1", *options, "--out", "run", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_order_above_that_of_the_first_layer_is_refused(
    crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_on(crossgcn, draw_graph(num_nodes=60), tmp_path, "--order", "1,2")
    done = crossgcn("explain", "run", "--order", "2")
    assert done.returncode == 2
    assert "--order 2, but the first layer of this model multiplies at most 1" in done.stderr
    assert crossgcn("explain", "run").returncode == 0


def test_bags_of_words_are_listed_as_trained(
    crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train_on(crossgcn, draw_graph(num_nodes=60), tmp_path)
    monkeypatch.setattr("crossgcn.explanation.layered.MOST_COLUMNS", 9)
    done = crossgcn("explain", "run", "--top", "2")
    assert done.returncode == 0, done.stderr
    assert "Crosses are listed as trained, because it has 10 columns" in done.stdout
    assert "single feature" in done.stdout
    answer = json.loads(crossgcn("explain", "run", "--node", "3", "--json").stdout)
    total = answer["bias"] + answer["other_terms"] + answer["left_out"]
    total += sum(cross["contribution"] for cross in answer["crosses"])
    assert total == pytest.approx(answer["logits"][answer["class"]], abs=1e-5)
    refused = crossgcn("explain", "run", "--class", "0", "--against", "1")
    assert refused.returncode == 2 and "it has 10 columns" in refused.stderr


@pytest.mark.parametrize("directed", [False, True])
def test_the_report_counts_the_edges_of_the_graph(
    directed: bool, crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = draw_graph(num_nodes=60)
    ends = np.unique(np.random.default_rng(0).integers(60, size=(90, 2)), axis=0)
    graph.edge_index = graph.edge_index.new_tensor(ends[ends[:, 0] < ends[:, 1]].T)
    if directed:
        graph.directed = True
    train_on(crossgcn, graph, tmp_path)
    assert crossgcn("report", "run", "--nodes", "2").returncode == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"60 nodes, {graph.edge_index.size(1)} edges," in page
