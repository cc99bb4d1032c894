"""A model over COO edges, over a prepared graph, trained and explained is one function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from crossgcn import (
    BadInput,
    CrossGCN,
    CrossGCNConv,
    PreparedGraph,
    RunConfig,
    Split,
    train_full_batch,
)
from crossgcn.graph import edges_of_kind

NODES = 12  # node 11 is isolated, node 3 has a self-loop, edges are directed and weighted
EDGES = torch.tensor(
    [
        [0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 0, 5, 3, 8, 9, 10, 9, 2],
        [1, 0, 2, 1, 4, 5, 3, 3, 7, 6, 5, 0, 3, 9, 8, 9, 10, 8],
    ]
)
WEIGHTS = torch.linspace(0.3, 2.0, EDGES.size(1))
Y = torch.arange(NODES) % 3
SPLIT = Split(torch.arange(0, 6), torch.arange(6, 9), torch.arange(9, 12))
KINDS: list[dict[str, Any]] = [
    {},
    {"improved": True},
    {"add_self_loops": False},
    {"normalize": False},
]
SETTINGS = [
    {"aggr": aggr, "aggregate_first": aggregate_first, **kind}
    for aggr in ("add", "mean", "max", "softmax")
    for aggregate_first in (False, True)
    for kind in KINDS
] + [{"order": 1}, {"order": [3, 1], "order_weights": "per-unit"}]


def make(**settings: Any) -> tuple[CrossGCN, Tensor]:
    torch.manual_seed(0)
    settings = {"order": [2, 1], "order_weights": "learned"} | settings
    model = CrossGCN(5, 4, 2, 3, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, torch.randn(NODES, 5)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_over_coo_and_prepared_edges_and_in_training(settings: dict[str, Any]) -> None:
    model, x = make(**settings)
    with torch.no_grad():
        scores = model(x, EDGES, WEIGHTS)
    graph = PreparedGraph(x, EDGES, WEIGHTS)
    prepared = graph.view(torch.arange(NODES), model.propagations)
    torch.testing.assert_close(model(*prepared), scores, rtol=1e-5, atol=1e-5)
    losses = []
    train_full_batch(
        *(model, graph, Y, SPLIT, RunConfig(epochs=2)),
        seed=0,
        on_metrics=lambda metrics: losses.append(metrics.train_loss),
    )
    loss = functional.cross_entropy(scores[SPLIT.train], Y[SPLIT.train])
    assert losses[0] == pytest.approx(float(loss), abs=1e-5)


class Halved(CrossGCN):
    """A user's model that does something before its layers."""

    def forward(self, x: Any, *edges: Any) -> Tensor:
        return super().forward(x * 0.5, *edges)


def test_what_a_subclass_overrides_is_trained() -> None:
    torch.manual_seed(0)
    model, x = Halved(5, 4, 2, 3, order_weights="learned"), torch.randn(NODES, 5)
    with torch.no_grad():
        scores = model(x, EDGES)
    losses = []
    train_full_batch(
        *(model, PreparedGraph(x, EDGES), Y, SPLIT, RunConfig(epochs=1)),
        on_metrics=lambda metrics: losses.append(metrics.train_loss),
    )
    loss = functional.cross_entropy(scores[SPLIT.train], Y[SPLIT.train])
    assert losses == [pytest.approx(float(loss), abs=1e-5)]


def test_dropout_after_a_training_is_drawn_anew_in_each_pass() -> None:
    model, x = make(dropout=0.5)
    train_full_batch(model, PreparedGraph(x, EDGES), Y, SPLIT, RunConfig(epochs=1))
    model.train()
    assert not torch.equal(model(x, EDGES), model(x, EDGES))


@pytest.mark.parametrize("aggr", ["add", "max"])
def test_improved_edges_without_weights(aggr: str) -> None:
    model, x = make(improved=True, aggr=aggr)
    prepared = PreparedGraph(x, EDGES).view(torch.arange(NODES), model.propagations)
    torch.testing.assert_close(model(x, EDGES), model(*prepared))


def test_what_would_be_two_functions_is_refused_at_construction() -> None:
    with pytest.raises(BadInput, match=r"flow='target_to_source'.*edge_index.flip\(0\)"):
        CrossGCN(5, 4, 2, 3, flow="target_to_source")
    with pytest.raises(ValueError, match="does not support adding self-loops"):
        CrossGCNConv(5, 4, normalize=False, add_self_loops=True)


@pytest.mark.parametrize("kind", ["gcn", "improved", "normalised", "given"])
def test_weights_of_prepared_edges_get_gradients(kind: Any) -> None:
    weight = WEIGHTS.double().requires_grad_()
    x = torch.randn(NODES, 2, dtype=torch.float64)

    def multiply(weight: Tensor, x: Tensor) -> Tensor:
        return edges_of_kind(kind, EDGES, NODES, weight, dtype=torch.float64) @ x

    assert torch.autograd.gradcheck(multiply, (weight, x.requires_grad_()))
