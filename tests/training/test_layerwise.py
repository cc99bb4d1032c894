"""Scores computed layer by layer are the model's on the whole graph."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import one_thread  # noqa: F401
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from crossgcn import BadInput, CrossGCN
from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.graph.sampling import batches as exact_rows
from crossgcn.graph.sampling.source import MemoryGraph, source_of
from crossgcn.layers import AGGREGATIONS
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.layerwise import infer

SOME = torch.tensor([40, 3, 77, 3])


def whole_graph_scores(model: NodeClassifier, data: Data) -> Tensor:
    graph = PreparedGraph(data.x, data.edge_index, data.edge_weight)
    model.eval()
    with torch.no_grad():
        scores: Tensor = model(*graph.view(torch.arange(data.num_nodes), model.propagations))
    return scores


def assert_exact(model: NodeClassifier, data: Data, **settings: Any) -> None:
    wanted = whole_graph_scores(model, data)
    source = source_of(data)
    every = infer(model, source, rows_per_chunk=17, **settings)
    torch.testing.assert_close(every, wanted, rtol=1e-5, atol=1e-6)
    some = infer(model, source, nodes=SOME, rows_per_chunk=17, **settings)
    torch.testing.assert_close(some, wanted[SOME], rtol=1e-5, atol=1e-6)


@pytest.fixture
def dense_graph(small_graph: Data) -> Data:
    """With weights, a self-loop and an isolated node."""
    generator = torch.Generator().manual_seed(1)
    edges = small_graph.edge_index
    edges = edges[:, (edges != 8).all(dim=0)]
    edges = torch.cat([edges, torch.tensor([[5], [5]])], dim=1)
    weight = 0.5 + torch.rand(edges.size(1), generator=generator)
    x = torch.randn(90, 10, generator=generator)
    return Data(x=x, edge_index=edges, edge_weight=weight, y=small_graph.y)


@pytest.mark.parametrize("aggr", ["gcn", "max", "appnp"])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_model_of_64_bits_is_computed_in_them(
    aggr: str, sparse: bool, small_graph: Data, dense_graph: Data
) -> None:
    data = small_graph if sparse else dense_graph
    model = CrossGCN(data.x.size(1), 8, 2, 3, aggr=aggr)
    wanted = whole_graph_scores(model, data)
    scores = infer(model.double(), source_of(data), rows_per_chunk=17)
    assert scores.dtype == torch.float64
    torch.testing.assert_close(scores.float(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize(
    "preset", sorted(name for name, each in PRESETS.items() if each.inputs != "hops")
)
def test_every_preset_sparse_features_and_all(
    preset: str, num_layers: int, small_graph: Data
) -> None:
    torch.manual_seed(0)
    model = build_model(preset, 24, 3, hidden_channels=8, num_layers=num_layers)
    assert_exact(model, small_graph)


@pytest.mark.parametrize("aggregate_first", [False, True])
@pytest.mark.parametrize("aggr", sorted(AGGREGATIONS))
def test_every_aggregation(aggr: str, aggregate_first: bool, dense_graph: Data) -> None:
    torch.manual_seed(0)
    assert_exact(CrossGCN(10, 8, 2, 3, aggr=aggr, aggregate_first=aggregate_first), dense_graph)


@pytest.mark.parametrize("residual", ["add", "norm"])
def test_residual_stacks(residual: Any, dense_graph: Data) -> None:
    torch.manual_seed(0)
    assert_exact(CrossGCN(10, 8, 4, 3, residual=residual), dense_graph)


def test_hidden_values_may_be_in_files_which_are_gone_afterwards(
    dense_graph: Data, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    assert_exact(CrossGCN(10, 8, 3, 3), dense_graph, folder=tmp_path / "hidden")
    assert list((tmp_path / "hidden").iterdir()) == []


def test_a_full_disk_is_said_in_words(
    dense_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(WorkFailed, match="No space left on device"):
        infer(CrossGCN(10, 8, 2, 3), source_of(dense_graph), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_each_nodes_features_are_transformed_once_per_layer(
    dense_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    project = CrossFeatureTransform.project

    def count(self: CrossFeatureTransform, x: Any) -> Tensor:
        rows.append(x.size(0))
        return project(self, x)

    monkeypatch.setattr(CrossFeatureTransform, "project", count)
    for aggregate_first in (False, True):
        rows.clear()
        model = CrossGCN(10, 8, 2, 3, aggregate_first=aggregate_first)
        infer(model, source_of(dense_graph), rows_per_chunk=7)
        assert sum(rows) == 2 * 90 and max(rows) == 7


def test_only_what_the_nodes_reach_is_computed() -> None:
    line = torch.arange(99)
    both = torch.cat([torch.stack([line, line + 1]), torch.stack([line + 1, line])], dim=1)

    read: set[int] = set()

    class Watched(MemoryGraph):
        def features(self, nodes: Tensor) -> Any:
            read.update(nodes.tolist())
            return super().features(nodes)

    source = Watched(torch.randn(100, 4), both)
    infer(CrossGCN(4, 8, 2, 2), source, nodes=torch.tensor([50]))
    assert read == {48, 49, 50, 51, 52}


@pytest.mark.parametrize("entries", [1, 40])
def test_heavy_nodes_make_small_chunks(
    entries: int, dense_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_rows, "_ENTRIES_PER_CHUNK", entries)
    rows = exact_rows.ExactRows(source_of(dense_graph))
    chunks = list(rows.chunks())
    assert torch.equal(torch.cat(chunks), torch.arange(90))
    degrees = rows.source.offsets.diff()
    assert all(chunk.numel() == 1 or degrees[chunk].sum() <= entries for chunk in chunks)
    assert_exact(CrossGCN(10, 8, 2, 3), dense_graph)


@pytest.mark.parametrize("aggr", ["gcn", "appnp"])
@pytest.mark.parametrize("world_size", [2, 11])
def test_processes_share_the_rows(world_size: int, aggr: str, dense_graph: Data) -> None:
    torch.manual_seed(0)
    model = CrossGCN(10, 8, 2, 3, aggr=aggr)
    wanted = whole_graph_scores(model, dense_graph)
    source = source_of(dense_graph)
    barrier = threading.Barrier(world_size)
    shared: list[Any] = [None] * world_size
    computed = [0] * world_size

    def run(rank: int) -> Tensor:
        def gather(matrix: Tensor) -> None:
            computed[rank] += int((matrix != 0).any(dim=1).sum())
            shared[rank] = matrix
            barrier.wait(30)
            total = torch.stack(shared).sum(dim=0)
            barrier.wait(30)
            matrix.copy_(total)

        return infer(
            model, source, rows_per_chunk=10, rank=rank, world_size=world_size, gather=gather
        )

    with ThreadPoolExecutor(world_size) as pool:
        results = list(pool.map(run, range(world_size)))
    for result in results:
        torch.testing.assert_close(result, wanted, rtol=1e-5, atol=1e-6)
    if world_size == 2:
        assert 0.3 < computed[0] / sum(computed) < 0.7


def test_the_model_is_left_as_it_was(dense_graph: Data) -> None:
    model = CrossGCN(10, 8, 2, 3)
    for training in (True, False):
        model.train(training)
        infer(model, source_of(dense_graph))
        assert model.training is training


class Unusual(CrossGCN):
    def forward(self, *arguments: Any) -> Tensor:  # type: ignore[override]
        return super().forward(*arguments) * 2


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (Unusual(10, 8, 3), {}, "Unusual is not a plain sequence"),
        (nn.Linear(10, 3), {}, "Linear is not a plain sequence"),
        (NodeClassifier([GCNConv(10, 3)], 0.0), {}, "GCNConv is not a layer of this package"),
        (CrossGCN(10, 8, 2, 3), {"world_size": 2}, "torch.distributed, which is not"),
        (CrossGCN(10, 8, 2, 3), {"rows_per_chunk": 0}, "rows_per_chunk must be at least 1"),
    ],
)
def test_what_it_cannot_do_is_refused(
    model: Any, settings: dict[str, Any], message: str, dense_graph: Data
) -> None:
    with pytest.raises(BadInput, match=message):
        infer(model, source_of(dense_graph), **settings)
