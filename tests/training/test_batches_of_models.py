"""Models of one hop are exact in batches; others get what their aggregation can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCN
from crossgcn.graph import PreparedGraph
from crossgcn.graph.sampling.batches import AggregatedRows, NodeBatches
from crossgcn.graph.sampling.source import source_of
from crossgcn.models.cross_gcn import GIN
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.step import batches_of


@pytest.fixture
def dense_graph(small_graph: Data) -> Data:
    small_graph.x = small_graph.x.to_dense()
    return small_graph


def gradients(model: NodeClassifier, x: Any, blocks: Any, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    scores = model(x, blocks)
    loss = torch.nn.functional.cross_entropy(scores, y, reduction="sum")
    return scores.detach(), list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda: CrossGCN(24, 8, 1, 3, 0.0, aggregate_first=True), AggregatedRows),
        (lambda: CrossGCN(24, 8, 1, 3, 0.0, aggregate_first=True, aggr="sum"), AggregatedRows),
        (lambda: GIN(24, 8, 1, 3, 0.0), AggregatedRows),
        (lambda: CrossGCN(24, 8, 1, 3, 0.0, aggregate_first=True, aggr="mean"), NodeBatches),
        (lambda: CrossGCN(24, 8, 1, 3, 0.0), NodeBatches),
    ],
)
def test_one_layer_in_batches_is_the_full_batch(
    build: Any, kind: type, world_size: int, folder: bool, dense_graph: Data, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = build()
    nodes = torch.arange(90)[torch.randperm(90)][:50]
    graph = PreparedGraph(dense_graph.x, dense_graph.edge_index)
    wanted, slopes = gradients(model, *graph.view(nodes, model.propagations), dense_graph.y[nodes])
    place = dict(zip(nodes.tolist(), wanted, strict=True))
    total = [torch.zeros_like(slope) for slope in slopes]
    for rank in range(world_size):
        batches = batches_of(
            model,
            source_of(dense_graph),
            nodes,
            fanouts=[1],
            batch_size=16,
            rank=rank,
            world_size=world_size,
            folder=tmp_path if folder else None,
        )
        assert type(batches) is kind and len(batches) == 4
        for batch in batches.epoch(2):
            scores, parts = gradients(model, batch.x, batch.blocks, batch.labels)
            rows = torch.stack([place[node] for node in batch.targets.tolist()])
            torch.testing.assert_close(scores, rows, rtol=1e-5, atol=1e-6)
            total = [one + other for one, other in zip(total, parts, strict=True)]
    for ours, theirs in zip(total, slopes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert list(tmp_path.iterdir()) == []


def test_sums_are_kept_only_where_that_changes_nothing(
    dense_graph: Data, small_graph: Data
) -> None:
    def chosen(model: NodeClassifier, data: Data) -> type:
        return type(batches_of(model, source_of(data), torch.arange(9), fanouts=[1], batch_size=4))

    dropping = CrossGCN(24, 8, 1, 3, 0.5, aggregate_first=True)
    still = CrossGCN(24, 8, 1, 3, 0.0, aggregate_first=True)
    assert chosen(dropping, dense_graph) is NodeBatches
    assert chosen(still, dense_graph) is AggregatedRows
    sparse = small_graph.clone()
    sparse.x = sparse.x.to_sparse_csr()
    assert chosen(still, sparse) is NodeBatches
    with pytest.raises(BadInput, match="sparse features"):
        AggregatedRows(source_of(sparse), torch.arange(3), "gcn", batch_size=2)


@pytest.mark.parametrize(
    ("aggr", "rescaled"), [("gcn", True), ("gat", True), ("max", False), ("sage-lstm", False)]
)
def test_drawn_messages_weigh_more_only_where_they_are_summed(
    aggr: str, rescaled: bool, dense_graph: Data
) -> None:
    source, nodes = source_of(dense_graph), torch.arange(90)
    model = CrossGCN(24, 8, 2, 3, aggr=aggr)
    settings: dict[str, Any] = {"batch_size": 90, "seed": 1}
    ours = batches_of(model, source, nodes, fanouts=[1, 1], **settings)
    rule = [rescaled, rescaled]
    same = NodeBatches(source, nodes, model.propagations, fanouts=[1, 1], rescaled=rule, **settings)
    other = NodeBatches(
        source,
        nodes,
        model.propagations,
        fanouts=[1, 1],
        rescaled=[not r for r in rule],
        **settings,
    )
    first, second, third = (next(iter(each.epoch(0))).blocks for each in (ours, same, other))
    assert all(torch.equal(a.values, b.values) for a, b in zip(first, second, strict=True))
    assert not any(torch.equal(a.values, b.values) for a, b in zip(first, third, strict=True))
