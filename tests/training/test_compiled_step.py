from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from architectures import ARCHITECTURES, graph_of, make, one_thread  # noqa: F401
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.model_batch import can_be_compiled, stack_models
from crossgcn.training.objective import find_targets
from crossgcn.training.scoring import NodeScorer

pytest.importorskip("numba")
IN_PYTORCH = ("gin",)
COMPILED = [name for name in ARCHITECTURES if name not in IN_PYTORCH]
DECAY = 0.05
SEED = 2**32 - 3


def training(model: NodeClassifier, graph: PreparedGraph, data: Data) -> FullBatchStep:
    nodes = make_splits(data, "random", num_splits=1, train=5)[0].train
    return FullBatchStep(
        [model],
        graph,
        data.y,
        [nodes],
        RunConfig(learning_rate=0.02, weight_decay=DECAY),
        seeds=[SEED],
    )


def dense_twin(graph: PreparedGraph) -> PreparedGraph:
    twin = deepcopy(graph)
    if isinstance(twin.x, SparseMatrix):
        twin.x = torch.from_numpy(twin.x.to_scipy().toarray())
    return twin


def exact_pass(step: FullBatchStep) -> tuple[Tensor, int, dict[str, Tensor]]:
    """Loss, right answers and gradients of the next step, by autograd in float64."""
    twin = deepcopy(step.model).double().train()
    twin.dropout.follow(torch.tensor([SEED]), step.count + 1)
    x, blocks = step.objective.targets.inputs
    if isinstance(x, SparseMatrix):
        x = x.with_values(x.values.double())
    else:
        assert isinstance(x, Tensor)
        x = x.double()
    scores = twin(x, tuple(block.with_values(block.values.double()) for block in blocks))[0]
    labels = step.objective.targets.labels[0]
    loss = cross_entropy(scores, labels)
    total = loss
    for name, weight in twin.named_parameters():
        learned = name.endswith("order_weights") and _is_learned(twin, name)
        if name.endswith(".weight"):
            total = total + 0.5 * DECAY * weight.square().sum()
        elif learned:
            total = total + 0.5 * DECAY * weight[..., 1:].square().sum()
    gradients = torch.autograd.grad(total, list(twin.parameters()), allow_unused=True)
    names = [name for name, _ in twin.named_parameters()]
    right = int((scores.argmax(1) == labels).sum())
    filled = [
        torch.zeros_like(weight) if gradient is None else gradient
        for weight, gradient in zip(twin.parameters(), gradients, strict=True)
    ]
    return loss.detach(), right, dict(zip(names, filled, strict=True))


def _is_learned(model: NodeClassifier, name: str) -> bool:
    module = model.get_submodule(name.removesuffix(".order_weights"))
    assert isinstance(module, CrossFeatureTransform)
    return module.order_aggregation == "learned"


def assert_steps_are_exact(step: FullBatchStep, steps: int = 4) -> None:
    """Follow some steps with PyTorch's Adam in float64, on gradients by autograd."""
    assert step._compiled is not None
    names = [name for name, _ in step.model.named_parameters()]
    weights = [torch.nn.Parameter(weight.detach().double()) for weight in step.model.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.02)
    for _ in range(steps):
        loss, right, gradients = exact_pass(step)
        step.run()
        torch.testing.assert_close(step.losses[0].double(), loss, rtol=1e-5, atol=1e-6)
        count = float(step.objective.targets.counts)
        assert float(step.accuracies) == right / count
        for name, weight in zip(names, weights, strict=True):
            weight.grad = gradients[name]
        optimizer.step()
        for name, weight in zip(names, weights, strict=True):
            live = step.model.get_parameter(name)
            torch.testing.assert_close(live.double(), weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("dropout", [0.5, 0.0])
@pytest.mark.parametrize("architecture", COMPILED)
def test_steps_are_those_of_autograd_and_torchs_adam(
    architecture: str, dropout: float, features: str, small_graph: Data
) -> None:
    graph = graph_of(architecture, small_graph)
    graph = graph if features == "sparse" else dense_twin(graph)
    model = make(architecture, small_graph, seed=1, dropout=dropout)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    assert_steps_are_exact(training(model, graph, small_graph))


@pytest.mark.parametrize("architecture", COMPILED)
def test_gradients_are_those_of_autograd(architecture: str, small_graph: Data) -> None:
    step = training(
        make(architecture, small_graph, seed=2), graph_of(architecture, small_graph), small_graph
    )
    _, _, gradients = exact_pass(step)
    compiled = step._compiled
    assert compiled is not None
    with torch.no_grad():
        before = [weight.detach().clone() for weight in step.model.parameters()]
    step.run()
    updates = iter(compiled.updates)
    names = {id(weight): name for name, weight in step.model.named_parameters()}
    starts = dict(zip(names.values(), before, strict=True))
    for group in step.optimizer.groups:
        for weight, order in zip(group.weights, group.orders, strict=True):
            *_, (layer, gradient), decay = next(updates)
            name = names[id(weight)]
            start = starts[name].permute(order).reshape(-1).double()
            whole = (
                torch.from_numpy(getattr(layer, gradient)).double().view(-1) + float(decay) * start
            )
            expected = gradients[name].permute(order).reshape(-1)
            torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-6)
    assert next(updates, None) is None


@pytest.mark.parametrize("architecture", ["cross-gcn", "three layers", "aggregate first"])
def test_both_ways_to_multiply_sparse_matrices_give_the_same_steps(
    architecture: str, small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossgcn.training.compiled.network._BAG_FROM", 0)
    graph = graph_of(architecture, small_graph)
    assert_steps_are_exact(training(make(architecture, small_graph, seed=1), graph, small_graph))


def test_the_models_own_weights_are_trained_and_no_copy(small_graph: Data) -> None:
    step = training(
        make("three layers", small_graph, seed=1), graph_of("cross-gcn", small_graph), small_graph
    )
    places = [weight.data_ptr() for weight in step.model.parameters()]
    for _ in range(2):
        before = [weight.detach().clone() for weight in step.model.parameters()]
        step.run()
        for old, weight in zip(before, step.model.parameters(), strict=True):
            assert not torch.equal(old, weight)
    assert [weight.data_ptr() for weight in step.model.parameters()] == places
    with torch.no_grad():
        for weight in step.model.parameters():
            weight.zero_()
    step.run()
    assert float(step.losses) == pytest.approx(float(np.log(3)), rel=1e-6)


def test_a_restart_takes_the_same_steps_again(small_graph: Data) -> None:
    step = training(
        make("learned", small_graph, seed=1), graph_of("learned", small_graph), small_graph
    )
    runs = []
    for _ in range(2):
        runs.append([float(step()) for _ in range(5)])
        step.restart()
    assert runs[0] == runs[1]


@pytest.mark.parametrize("architecture", COMPILED)
def test_scores_without_dropout_are_those_of_the_model(
    architecture: str, small_graph: Data
) -> None:
    model, graph = make(architecture, small_graph, seed=3), graph_of(architecture, small_graph)
    nodes = torch.arange(0, 90, 4)
    stacked = stack_models([model])
    targets = find_targets(stacked, graph, small_graph.y, [nodes], torch.device("cpu"))
    scorer = NodeScorer(stacked, targets, RunConfig(), small_graph.y)
    assert scorer._network is not None
    x = graph.x if isinstance(graph.x, Tensor) else small_graph.x.to_dense()
    for _ in range(2):
        losses, accuracies = scorer()
        with torch.no_grad():
            expected = model.eval()(x, small_graph.edge_index)[nodes]
            for weight, own in zip(stacked.parameters(), model.parameters(), strict=True):
                own.mul_(1.5)
                weight.mul_(1.5)
        labels = small_graph.y[nodes]
        assert float(losses) == pytest.approx(float(cross_entropy(expected, labels)), rel=1e-5)
        assert float(accuracies) == int((expected.argmax(1) == labels).sum()) / len(nodes)


def test_models_the_kernels_do_not_know_are_left_to_autograd(small_graph: Data) -> None:
    def known(name: str, count: int = 1, **settings: Any) -> bool:
        models = [build_model(name, 24, 3, **settings) for _ in range(count)]
        return can_be_compiled(stack_models(models))

    assert known("cross-gcn") and known("mlp")
    assert not known("gin") and not known("cross-gcn", count=2)
    doubles = stack_models([build_model("cross-gcn", 24, 3)]).double()
    assert not can_be_compiled(doubles)
