from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from architectures import (
    ARCHITECTURES,
    graph_of,
    make,
    one_thread,  # noqa: F401
    without_kernels,
)
from model_batches import train_together
from torch_geometric.data import Data

from crossgcn import train_full_batch
from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.splits import Split, make_splits
from crossgcn.graph import ModelBatchMatrix, PreparedGraph
from crossgcn.models.cross_gcn import GIN
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training import full_batch
from crossgcn.training.model_batch import (
    stack_models,
    state_shapes,
    unstack_state,
)
from crossgcn.training.selection import Diverged, TrainedModel

SEEDS = [11, 2**32 - 1, 0]
RATES: dict[str, Any] = {"epochs": 8, "learning_rate": 0.02}
Result = TrainedModel | Diverged


def unequal_splits(data: Data) -> list[Split]:
    """Three splits of different training nodes, and of different numbers of them."""
    splits = make_splits(data, "random", num_splits=3, train=5)
    few = make_splits(data, "random", num_splits=1, train=2, seed=5)[0]
    fewer_to_select = replace(splits[2], validation=splits[2].validation[:17])
    return [splits[0], few, fewer_to_select]


def three(architecture: str, data: Data) -> list[NodeClassifier]:
    return [make(architecture, data, seed=seed) for seed in (1, 2, 3)]


def assert_equal_runs(one: Result, other: Result, tolerance: float = 1e-5) -> None:
    assert isinstance(one, TrainedModel) and isinstance(other, TrainedModel)
    for ours, theirs in zip(one.history, other.history, strict=True):
        losses = (ours.train_loss, ours.validation_loss)
        assert losses == pytest.approx(
            (theirs.train_loss, theirs.validation_loss), rel=tolerance, abs=tolerance
        )
        # Up to one node: where all its features are dropped, or no unit is active, it is a tie.
        assert ours.train_score == pytest.approx(theirs.train_score, abs=0.07)
        assert ours.validation_score == theirs.validation_score
        assert ours.test_accuracy == theirs.test_accuracy
    assert one.best_epoch == other.best_epoch
    assert one.validation_score == other.validation_score
    assert one.test_accuracy == pytest.approx(other.test_accuracy, abs=0.04)
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        # By the norm: Adam makes a whole step of a gradient that is all rounding.
        difference = float((value - other.state[name]).norm())
        assert difference <= tolerance * (1.0 + float(value.norm())), name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_in_a_stack_is_trained_as_it_would_be_alone_with_and_without_kernels(
    architecture: str, small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, graph = unequal_splits(small_graph), graph_of(architecture, small_graph)
    together = train_together(
        three(architecture, small_graph), graph, small_graph.y, splits, SEEDS, **RATES
    )
    for kernels in ("compiled", "plain"):
        if kernels == "plain":
            without_kernels(monkeypatch)
        for position, model in enumerate(three(architecture, small_graph)):
            split, seed = splits[position], SEEDS[position]
            solo = train_full_batch(model, graph, small_graph.y, split, seed=seed, **RATES)
            assert_equal_runs(together[position], solo)


@pytest.mark.parametrize(
    "settings",
    [{"patience": 2}, {"class_weight": "balanced"}, {"metric": "roc_auc", "patience": 1}],
)
def test_patience_weights_and_metrics_are_those_of_each_model_of_a_stack(
    small_graph: Data, settings: dict[str, Any]
) -> None:
    splits, graph = unequal_splits(small_graph), graph_of("cross-gcn", small_graph)
    uneven = make_splits(small_graph, "random", num_splits=1, train=5, seed=7)[0].train
    splits[1] = replace(splits[1], train=uneven[small_graph.y[uneven] < 2][:6])
    rates = RATES | {"epochs": 12} | settings
    together = train_together(
        three("cross-gcn", small_graph), graph, small_graph.y, splits, SEEDS, **rates
    )
    for position, model in enumerate(three("cross-gcn", small_graph)):
        split, seed = splits[position], SEEDS[position]
        solo = train_full_batch(model, graph, small_graph.y, split, seed=seed, **rates)
        ours = together[position]
        assert isinstance(ours, TrainedModel)
        assert ours.best_epoch == solo.best_epoch
        for name, value in solo.state.items():
            torch.testing.assert_close(ours.state[name], value, rtol=1e-3, atol=1e-5)


def test_real_citation_data_is_trained_alike_too() -> None:
    data = load_dataset("citeseer")
    graph = PreparedGraph(data.x, data.edge_index)
    splits = make_splits(data, "random", num_splits=2, train=20)
    models = [make("cross-gcn", data, seed=seed) for seed in (1, 2)]
    together = train_together(
        models, graph, data.y, splits, [5, 6], epochs=8, learning_rate=0.02, test_curve=True
    )
    for position, model in enumerate(models):
        solo = train_full_batch(
            model,
            graph,
            data.y,
            splits[position],
            seed=5 + position,
            epochs=8,
            learning_rate=0.02,
            test_curve=True,
        )
        assert_equal_runs(together[position], solo)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_outputs_added_to_fill_words_change_nothing(
    architecture: str, small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, graph = unequal_splits(small_graph), graph_of(architecture, small_graph)
    models = three(architecture, small_graph)
    exact = train_together(models, graph, small_graph.y, splits, SEEDS, **RATES)

    def widened(models: list[NodeClassifier], **_: int) -> NodeClassifier:
        stacked = stack_models(models, round_outputs_to=8)
        if not isinstance(stacked, GIN):
            assert stacked.layers[-1].out_channels == 8
        return stacked

    monkeypatch.setattr(full_batch, "stack_models", widened)
    wide = train_together(models, graph, small_graph.y, splits, SEEDS, **RATES)
    for one, other in zip(exact, wide, strict=True):
        assert_equal_runs(one, other)


@pytest.mark.parametrize("architecture", ["cross-gcn", "gin", "cross-gcn-paper"])
def test_a_stack_is_trained_alike_bit_for_bit_each_time(
    architecture: str, small_graph: Data
) -> None:
    splits, graph = unequal_splits(small_graph), graph_of(architecture, small_graph)
    runs = [
        train_together(
            three(architecture, small_graph), graph, small_graph.y, splits, SEEDS, **RATES
        )
        for _ in range(2)
    ]
    for one, two in zip(*runs, strict=True):
        assert_equal_runs(one, two, tolerance=0.0)


def test_the_order_of_a_stack_does_not_matter(small_graph: Data) -> None:
    splits, graph = unequal_splits(small_graph), graph_of("cross-gcn", small_graph)
    models = three("cross-gcn", small_graph)
    one = train_together(models, graph, small_graph.y, splits, SEEDS, **RATES)
    other = train_together(models[::-1], graph, small_graph.y, splits[::-1], SEEDS[::-1], **RATES)
    for ours, theirs in zip(one, other[::-1], strict=True):
        assert_equal_runs(ours, theirs)


@pytest.mark.parametrize("architecture", ["cross-gcn", "cross-gcn-paper", "gin"])
def test_a_model_that_diverges_leaves_the_others_as_they_would_be_without_it(
    architecture: str, small_graph: Data
) -> None:
    splits, graph = unequal_splits(small_graph), graph_of(architecture, small_graph)
    sound = three(architecture, small_graph)
    expected = train_together(sound, graph, small_graph.y, splits, SEEDS, **RATES)
    models = three(architecture, small_graph)
    with torch.no_grad():
        for weight in models[1].parameters():
            weight.fill_(1e30)
    first, bad, last = train_together(models, graph, small_graph.y, splits, SEEDS, **RATES)
    assert_equal_runs(first, expected[0], tolerance=0.0)
    assert_equal_runs(last, expected[2], tolerance=0.0)
    assert isinstance(bad, Diverged)
    assert "in epoch 1" in str(bad) and "the start" in str(bad)
    assert bad.history == []
    for name, value in models[1].state_dict().items():
        assert bad.state[name].isfinite().all()
        assert torch.equal(bad.state[name], value)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_stack_scores_as_its_models_do_and_gives_their_weights_back(
    architecture: str, small_graph: Data
) -> None:
    graph, models = graph_of(architecture, small_graph), three(architecture, small_graph)
    before = [{name: value.clone() for name, value in m.state_dict().items()} for m in models]
    stacked = stack_models(models)
    x = graph.x if isinstance(graph.x, torch.Tensor) else small_graph.x.to_dense()
    edges = ModelBatchMatrix([graph.adjacency] * 3)
    with torch.no_grad():
        together = stacked.eval()(x.expand(3, -1, -1), edges)
        for position, model in enumerate(models):
            own = model.eval()(x, graph.adjacency)
            torch.testing.assert_close(together[position], own, rtol=1e-5, atol=1e-6)
        for weight in stacked.parameters():
            weight.add_(1.0)
    for position, model in enumerate(models):
        trained = dict(model.named_parameters())
        state = unstack_state(dict(stacked.state_dict()), position, state_shapes(model))
        for name, value in state.items():
            assert torch.equal(model.state_dict()[name], before[position][name])
            moved = before[position][name] + (1.0 if name in trained else 0.0)
            torch.testing.assert_close(value, moved, rtol=0, atol=0)
