"""Models with code or settings of others are trained as they are, not as what they resemble."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import CrossGCN, train_full_batch
from crossgcn.data.splits import make_splits
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.model_batch import can_be_compiled, stack_models
from crossgcn.training.selection import TrainedModel


class Louder(CrossGCN):
    def forward(self, x: Any, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return 10 * super().forward(x, edge_index, edge_weight)


def made(kind: type[CrossGCN] = CrossGCN) -> CrossGCN:
    torch.manual_seed(0)
    return kind(24, 8, 3, dropout=0.0)


def first_loss(model: NodeClassifier, data: Data) -> TrainedModel:
    graph, split = PreparedGraph(data.x, data.edge_index), make_splits(data, "public")[0]
    return train_full_batch(model, graph, data.y, split, seed=0, epochs=2)


def test_a_forward_of_ones_own_is_the_one_that_is_trained(small_graph: Data) -> None:
    plain, louder = made(), made(Louder)
    with torch.no_grad():
        scores = louder(small_graph.x, small_graph.edge_index)
    split = make_splits(small_graph, "public")[0]
    expected = torch.nn.functional.cross_entropy(scores[split.train], small_graph.y[split.train])
    trained = first_loss(louder, small_graph)
    assert trained.history[0].train_loss == pytest.approx(expected.item(), rel=1e-5)
    assert trained.history[0].train_loss != first_loss(plain, small_graph).history[0].train_loss


def test_a_hook_is_called(small_graph: Data) -> None:
    model, calls = made(), []
    model.layers[0].register_forward_hook(lambda *_: calls.append(1))
    first_loss(model, small_graph)
    assert calls


def test_frozen_weights_stay_as_they_are(small_graph: Data) -> None:
    model = made()
    still, moving = (dict(model.named_parameters())[f"layers.{i}.transform.weight"] for i in (0, 1))
    before = [still.requires_grad_(False).clone(), moving.detach().clone()]
    first_loss(model, small_graph)
    assert torch.equal(still, before[0])
    assert not torch.equal(moving, before[1])
    assert not can_be_compiled(stack_models([model]))
    assert can_be_compiled(stack_models([made()]))
