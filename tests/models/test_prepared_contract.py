"""A model on a prepared graph is the same function as ``model(x, edge_index)``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import GCNConv

from crossgcn import BadInput, CrossGCN, CrossGCNClassifier, CrossGCNConv
from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.graph.sampling.batches import NodeBatches
from crossgcn.graph.sampling.source import MemoryGraph
from crossgcn.training.full_batch import train_full_batch

NODES = 12  # node 3 has a self-loop, node 11 is isolated, edges are directed and weighted
EDGES = torch.tensor(
    [
        [0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 0, 5, 3, 8, 9, 10, 9, 2],
        [1, 0, 2, 1, 4, 5, 3, 3, 7, 6, 5, 0, 3, 9, 8, 9, 10, 8],
    ]
)
WEIGHTS = torch.linspace(0.3, 2.0, EDGES.size(1))
Y = torch.arange(NODES) % 3
SPLIT = Split(torch.arange(0, 6), torch.arange(6, 9), torch.arange(9, 12))

EDGE_OPTIONS = [
    {},
    {"add_self_loops": False},
    {"normalize": False},
    {"normalize": False, "add_self_loops": False},
]
REDUCTIONS = ["gcn", "add", "sum", "mean", "max", "min", "mul"]
OPTIONS: list[dict[str, Any]] = [
    {"aggr": aggr, "aggregate_first": aggregate_first, **edges}
    for aggr in REDUCTIONS
    for aggregate_first in (False, True)
    for edges in EDGE_OPTIONS
] + [{"aggr": "gcn", "order": order, **edges} for order in (1, [3, 1]) for edges in EDGE_OPTIONS]


def features() -> Tensor:
    return torch.randn(NODES, 5, generator=torch.Generator().manual_seed(2))


def say(options: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())


@pytest.mark.parametrize("options", OPTIONS, ids=say)
def test_training_through_a_prepared_graph_trains_the_same_function(
    options: dict[str, Any],
) -> None:
    torch.manual_seed(0)
    x = features()
    model = CrossGCN(5, 4, 2, 3, dropout=0.0, order_weights="learned", **options)
    graph = PreparedGraph(x, EDGES, WEIGHTS)
    with torch.no_grad():
        scores = model(x, EDGES, WEIGHTS)[SPLIT.train]
    losses = []
    train_full_batch(
        model,
        graph,
        Y,
        SPLIT,
        seed=0,
        epochs=3,
        on_epoch=lambda metrics: losses.append(metrics.train_loss),
    )
    assert losses[0] == pytest.approx(float(functional.cross_entropy(scores, Y[:6])), abs=1e-5)
    everyone = torch.arange(NODES)
    with torch.no_grad():
        expected = model.eval()(x, EDGES, WEIGHTS)
        prepared = model(*graph.view(everyone, model.propagations))
        (batch,) = NodeBatches(
            MemoryGraph(x, EDGES, WEIGHTS, Y),
            everyone,
            model.propagations,
            fanouts=None,
            batch_size=NODES,
            shuffle=False,
        ).epoch(0)
        batched = model(batch.x, batch.blocks)
    torch.testing.assert_close(prepared, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(batched, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("edges", EDGE_OPTIONS, ids=say)
@pytest.mark.parametrize("aggr", REDUCTIONS)
def test_a_reduction_means_what_it_means_in_pyg(aggr: str, edges: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = CrossGCN(5, 4, 1, 3, order=1, aggr=aggr, **edges)
    conv = CrossGCNConv(5, 3, order=1, aggr=aggr, **edges)
    add_self_loops = edges.get("add_self_loops", True) and edges.get("normalize", True)
    theirs = GCNConv(
        5,
        3,
        aggr="add" if aggr == "gcn" else aggr,
        normalize=edges.get("normalize", True),
        add_self_loops=add_self_loops,
    )
    with torch.no_grad():
        conv.weight[0].copy_(theirs.lin.weight)
        model.layers[0].weight[0].copy_(theirs.lin.weight)  # type: ignore[index]
    expected = theirs(features(), EDGES, WEIGHTS)
    torch.testing.assert_close(conv(features(), EDGES, WEIGHTS), expected)
    torch.testing.assert_close(model.eval()(features(), EDGES, WEIGHTS), expected)


def test_a_flow_that_no_prepared_graph_has_is_refused_at_construction() -> None:
    with pytest.raises(BadInput, match=r"flow='target_to_source'.*edge_index.flip\(0\)"):
        CrossGCN(5, 4, 2, 3, flow="target_to_source")


@pytest.mark.parametrize("aggr", ["gcn", "mean", "max", "raw-mean", "gat"])
def test_the_classifier_scores_with_the_edges_of_its_aggregation(aggr: str) -> None:
    symmetric = torch.cat([EDGES, EDGES.flip(0)], dim=1).unique(dim=1)  # type: ignore[no-untyped-call]
    classifier = CrossGCNClassifier(hidden_channels=4, order=2, epochs=2, random_state=0, aggr=aggr)
    classifier.fit(features().numpy(), Y.numpy(), edge_index=symmetric.numpy())
    model = classifier.model_.double().eval()
    with torch.no_grad():
        scores = model(features().double(), symmetric)
    predicted = classifier.predict_proba(features().numpy(), edge_index=symmetric.numpy())
    torch.testing.assert_close(torch.from_numpy(predicted), scores.softmax(-1), atol=1e-5, rtol=0)
