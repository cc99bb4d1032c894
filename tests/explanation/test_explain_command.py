from __future__ import annotations

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
