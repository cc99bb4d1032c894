"""How models with aggregated or scaled orders are decayed, stacked and trained."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from architectures import one_thread  # noqa: F401
from model_batches import train_together
from torch_geometric.data import Data

from crossgcn import train_full_batch
from crossgcn.data.splits import make_splits
from crossgcn.graph import PreparedGraph, stack_inputs
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier, calibrate
from crossgcn.training.model_batch import can_be_compiled, can_be_stacked, stack_models
from crossgcn.training.objective import make_optimizer, order_weight_penalty
from crossgcn.training.selection import TrainedModel

SETTINGS: dict[str, dict[str, Any]] = {
    "per-unit": {"order_weights": "per-unit"},
    "attention": {"order_weights": "attention"},
    "concat": {"order_weights": "concat"},
    "scaled": {"scaling": "unit"},
    "scaled, learned, norm": {"scaling": "unit", "order_weights": "learned", "residual": "norm"},
    "scaled, per-unit, release": {
        "scaling": "unit",
        "order_weights": "per-unit",
        "first_order": "release",
    },
}


def make(kind: str, graph: PreparedGraph, seed: int, **more: Any) -> NodeClassifier:
    torch.manual_seed(seed)
    settings = {"num_layers": 3, "order": 3, "bias": True} | SETTINGS[kind] | more
    model = build_model("cross-gcn", 24, 3, hidden_channels=8, **settings)
    if not model.is_calibrated:
        calibrate(model, graph.x, graph.adjacency)
    return model


def prepare(data: Data) -> PreparedGraph:
    return PreparedGraph(data.x, data.edge_index)


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_model_in_a_stack_is_trained_as_it_would_be_alone(kind: str, small_graph: Data) -> None:
    graph = prepare(small_graph)
    splits = make_splits(small_graph, num_splits=2, train=5)
    models = [make(kind, graph, seed) for seed in (1, 2)]
    assert can_be_stacked(models[0])
    assert not can_be_compiled(stack_models(models[:1]))
    together = train_together(models, graph, small_graph.y, splits, [3, 4], epochs=12)
    for position, model in enumerate(models):
        alone = train_full_batch(
            model, graph, small_graph.y, splits[position], seed=3 + position, epochs=12
        )
        other = together[position]
        assert isinstance(other, TrainedModel)
        assert [epoch.train_loss for epoch in alone.history] == pytest.approx(
            [epoch.train_loss for epoch in other.history], rel=1e-4
        )
        for name, value in alone.state.items():
            torch.testing.assert_close(other.state[name], value, rtol=2e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("kind", SETTINGS)
def test_outputs_added_to_fill_words_change_nothing(kind: str, small_graph: Data) -> None:
    graph = prepare(small_graph)
    model = make(kind, graph, 0).eval()
    inputs = stack_inputs([graph.view(torch.arange(90), model.propagations)])
    exact = stack_models([model])(*inputs)
    wide = stack_models([model], round_outputs_to=8)(*inputs)
    torch.testing.assert_close(wide[..., :3], exact)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("kind", SETTINGS)
def test_decay_alone_moves_matrices_only(kind: str, stacked: bool, small_graph: Data) -> None:
    model = make(kind, prepare(small_graph), 0, order_weights=SETTINGS[kind].get("order_weights"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[parameter == 0] = 1.0
    model = stack_models([model]) if stacked else model
    before = copy.deepcopy(dict(model.named_parameters()))
    optimizer = make_optimizer(model, 1e-6, 5e-4)
    optimizer.step([torch.zeros_like(weight) for weight in optimizer.weights])
    for name, parameter in model.named_parameters():
        moved = not torch.equal(parameter, before[name])
        assert moved == name.endswith("weight"), name


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_model_learns_its_training_nodes(kind: str, small_graph: Data) -> None:
    graph = prepare(small_graph)
    split = make_splits(small_graph, num_splits=1, train="all")[0]
    model = make(kind, graph, 0, num_layers=2, dropout=0.0)
    result = train_full_batch(
        model, graph, small_graph.y, split, seed=0, epochs=60, learning_rate=0.02
    )
    assert result.history[-1].train_loss < 0.5 * result.history[0].train_loss
    again = make(kind, graph, 1, num_layers=2, dropout=0.0)
    again.load_state_dict(result.state)
    with torch.no_grad():
        torch.testing.assert_close(
            again.eval()(graph.x, graph.adjacency), model.eval()(graph.x, graph.adjacency)
        )


def test_learned_weights_of_a_single_order_are_not_decayed_as_there_are_none() -> None:
    model = build_model("cross-gcn", 24, 3, order=1, order_weights="learned")
    assert order_weight_penalty(model, 5e-4) is None
