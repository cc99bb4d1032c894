from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn import train_full_batch
from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.splits import Split, make_splits
from crossgcn.graph import PreparedGraph
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.loop import Diverged, EpochMetrics, TrainedModel
from crossgcn.training.objective import Optimizer

OF_GRAPHS = [name for name, preset in PRESETS.items() if preset.inputs != "hops"]
"""Models that are trained over a whole graph; the others read rows of columns."""


def make(name: str, data: Data, dropout: float = 0.5, **settings: Any) -> NodeClassifier:
    torch.manual_seed(3)
    return build_model(
        name, data.x.size(1), data.num_classes, hidden_channels=8, dropout=dropout, **settings
    )


def own_split(data: Data) -> Split:
    return make_splits(data, "public")[0]


def train(
    data: Data,
    model: NodeClassifier,
    *,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    graph = PreparedGraph(data.x, data.edge_index)
    return train_full_batch(
        *(model, graph, data.y, own_split(data), RunConfig(**settings)),
        seed=4,
        on_metrics=on_metrics,
    )


def assert_same_weights(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_first_of_the_best_epochs_is_selected_and_not_touched_by_later_ones(
    small_graph: Data,
) -> None:
    long = train(small_graph, make("cross-gcn", small_graph), epochs=90, learning_rate=0.05)
    accuracies = [metrics.validation_score for metrics in long.history]
    assert accuracies.count(max(accuracies)) > 1
    assert long.best_epoch == accuracies.index(max(accuracies)) + 1 < 80
    assert long.validation_score == max(accuracies)
    short = train(
        small_graph, make("cross-gcn", small_graph), epochs=long.best_epoch, learning_rate=0.05
    )
    assert_same_weights(long.state, short.state)
    assert long.test_accuracy == short.test_accuracy


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_the_model_ends_with_the_selected_weights_and_their_test_accuracy(
    name: str, small_graph: Data
) -> None:
    model, seen = make(name, small_graph), list[EpochMetrics]()
    trained = train(small_graph, model, epochs=15, on_metrics=seen.append)
    assert tuple(seen) == trained.history and len(seen) == 15
    assert_same_weights(dict(model.state_dict()), trained.state)
    assert all(value.is_contiguous() for value in trained.state.values())
    with torch.no_grad():
        predicted = model.eval()(small_graph.x, small_graph.edge_index).argmax(1)
    test = own_split(small_graph).test
    assert trained.test_accuracy == int((predicted == small_graph.y)[test].sum()) / len(test)


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_training_on_the_receptive_field_is_training_on_the_graph(
    name: str, small_graph: Data
) -> None:
    data, split = small_graph, own_split(small_graph)
    trained = train(data, make(name, data, dropout=0.0), epochs=15, learning_rate=0.02)
    model = make(name, data, dropout=0.0)
    optimizer = Optimizer(model, 0.02, 5e-4)
    x = data.x.to_dense()
    for metrics in trained.history:
        scores = model(x, data.edge_index)
        loss = cross_entropy(scores[split.train], data.y[split.train])
        assert metrics.train_loss == pytest.approx(loss.item(), rel=1e-4)
        optimizer.step(torch.autograd.grad(loss, optimizer.weights, allow_unused=True))
        with torch.no_grad():
            scores = model(x, data.edge_index)
        validation = cross_entropy(scores[split.validation], data.y[split.validation])
        assert metrics.validation_loss == pytest.approx(validation.item(), rel=1e-4)


def test_test_nodes_change_nothing_but_what_is_said_of_them(small_graph: Data) -> None:
    plain = train(small_graph, make("cross-gcn", small_graph), epochs=20)
    test = own_split(small_graph).test
    small_graph.y[test] = (small_graph.y[test] + 1) % 3
    scrambled = train(small_graph, make("cross-gcn", small_graph), epochs=20)
    assert scrambled.history == plain.history
    assert_same_weights(scrambled.state, plain.state)
    assert scrambled.test_accuracy != plain.test_accuracy


def test_features_that_only_test_nodes_reach_are_not_read_before_selection(
    small_graph: Data,
) -> None:
    data = small_graph
    is_test = torch.zeros(90, dtype=torch.bool)
    is_test[own_split(data).test] = True
    source, target = data.edge_index
    data.edge_index = data.edge_index[:, is_test[source] == is_test[target]]
    honest = train(data, make("cross-gcn", data), epochs=20)
    x = data.x.to_dense()
    x[is_test] = float("nan")
    data.x = x.to_sparse_csr()
    poisoned = train(data, make("cross-gcn", data), epochs=20)
    assert poisoned.history == honest.history
    assert_same_weights(poisoned.state, honest.state)
    assert poisoned.test_accuracy != honest.test_accuracy


def test_every_preset_lowers_its_loss_on_citeseer() -> None:
    data = load_dataset("citeseer")
    for name in OF_GRAPHS:
        first, *_, last = train(data, make(name, data), epochs=12).history
        assert last.train_loss < first.train_loss - 0.02, name
        assert last.validation_score > 1 / 6, name


def test_weights_of_classes_and_nodes_multiply_their_losses(small_graph: Data) -> None:
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    nodes, model = own_split(small_graph).train, make("gcn", small_graph, dropout=0.0)
    weights = torch.arange(nodes.numel(), dtype=torch.float32)
    config = RunConfig(class_weight=(1.0, 2.0, 0.0))
    step = FullBatchStep(model, graph, small_graph.y, nodes, config, seed=0, node_weights=weights)
    scores, labels = model(small_graph.x, small_graph.edge_index)[nodes], small_graph.y[nodes]
    each = cross_entropy(scores, labels, torch.tensor([1.0, 2.0, 0.0]), reduction="none")
    step.run()
    assert float(step.loss) == pytest.approx(
        float((each * weights / weights.mean()).mean().detach()), rel=1e-5
    )


def test_features_too_large_to_cross_are_refused_at_the_start(small_graph: Data) -> None:
    small_graph.x = small_graph.x.to_dense() * 1e30
    model = make("cross-gcn-paper-fix", small_graph)
    with pytest.raises(Diverged, match=r"the loss became (nan|inf) in epoch 1; ") as e:
        train(small_graph, model, epochs=5)
    assert "learning_rate" in str(e.value) and "row-normalise" in str(e.value)


def test_infinite_weights_of_features_validation_never_sees_are_not_kept(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.zeros(90, 2)
    x[:30, 0], x[30:, 1] = 1.0, 1.0
    small_graph.x = x.to_sparse_csr()
    model = make("mlp", small_graph, num_layers=1)

    def bursting(optimizer: Optimizer, gradients: Sequence[Tensor | None]) -> None:
        optimizer.weights[0].data[..., 0] = float("inf")

    monkeypatch.setattr("crossgcn.training.device.has_numba", lambda: False)
    monkeypatch.setattr(Optimizer, "step", bursting)
    with pytest.raises(Diverged, match=r"a weight became infinite in epoch 1"):
        train(small_graph, model, epochs=1)


def test_divergence_later_on_leaves_the_model_as_it_was(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(step: FullBatchStep) -> None:
        run(step)
        if int(step.count) == 5:
            for weight in step.model.parameters():
                weight.data.fill_(float("inf"))

    run = FullBatchStep.run
    monkeypatch.setattr(FullBatchStep, "run", burst)
    model = make("cross-gcn", small_graph)
    with pytest.raises(Diverged, match="in epoch 5"):
        train(small_graph, model, epochs=9)
    before = make("cross-gcn", small_graph).state_dict()
    assert_same_weights(dict(model.state_dict()), dict(before))
