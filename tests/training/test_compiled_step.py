from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES, make, one_thread  # noqa: F401
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn import CrossGCN
from crossgcn.data.splits import make_splits
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep, can_be_compiled

pytest.importorskip("numba")
COMPILED = [name for name in ARCHITECTURES if name != "gin"]
DECAY = 0.05
SEED = 2**32 - 3


def training(model: NodeClassifier, data: Data, *, sparse: bool = True) -> FullBatchStep:
    graph = PreparedGraph(data.x if sparse else data.x.to_dense(), data.edge_index)
    nodes = make_splits(data, "random", num_splits=1, train=5)[0].train
    config = RunConfig(learning_rate=0.02, weight_decay=DECAY)
    return FullBatchStep(model, graph, data.y, nodes, config, seed=SEED)


def exact_pass(step: FullBatchStep) -> tuple[Tensor, float, dict[str, Tensor]]:
    """Loss, accuracy and gradients of the next step, by autograd in float64."""
    twin = deepcopy(step.model).double().train()
    twin.dropout.follow(torch.tensor(SEED), step.count + 1)
    x, blocks = step.inputs
    exact = x.with_values(x.values.double()) if isinstance(x, SparseMatrix) else x.double()
    scores = twin(exact, tuple(block.with_values(block.values.double()) for block in blocks))
    labels = step.labels
    loss = total = cross_entropy(scores, labels)
    weights = dict(twin.named_parameters())
    for name, weight in weights.items():
        if name.endswith(".weight"):
            total = total + 0.5 * DECAY * weight.square().sum()
        elif name.endswith("order_weights"):
            module = twin.get_submodule(name.removesuffix(".order_weights"))
            assert isinstance(module, CrossFeatureTransform)
            if module.order_aggregation == "learned":
                total = total + 0.5 * DECAY * weight[1:].square().sum()
    gradients = torch.autograd.grad(
        total, list(weights.values()), allow_unused=True, materialize_grads=True
    )
    accuracy = float((scores.argmax(1) == labels).double().mean())
    return loss.detach(), accuracy, dict(zip(weights, gradients, strict=True))


def assert_steps_are_exact(step: FullBatchStep, steps: int = 4) -> None:
    """Follow some steps with PyTorch's Adam in float64, on gradients by autograd."""
    assert step._network is not None
    live = dict(step.model.named_parameters())
    places = [weight.data_ptr() for weight in live.values()]
    twins = {name: torch.nn.Parameter(weight.detach().double()) for name, weight in live.items()}
    optimizer = torch.optim.Adam(twins.values(), lr=0.02)
    for _ in range(steps):
        loss, accuracy, gradients = exact_pass(step)
        step.run()
        torch.testing.assert_close(step.loss.double(), loss, rtol=1e-5, atol=1e-6)
        assert float(step.accuracy) == accuracy
        for name, twin in twins.items():
            twin.grad = gradients[name]
        optimizer.step()
        for name, twin in twins.items():
            torch.testing.assert_close(live[name].double(), twin, rtol=1e-4, atol=1e-5)
    assert [weight.data_ptr() for weight in live.values()] == places


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dropout", [0.5, 0.0])
@pytest.mark.parametrize("architecture", COMPILED)
def test_steps_are_those_of_autograd_and_torchs_adam(
    architecture: str, dropout: float, sparse: bool, small_graph: Data
) -> None:
    model = make(architecture, small_graph, seed=1, dropout=dropout)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    assert_steps_are_exact(training(model, small_graph, sparse=sparse))


def test_both_ways_to_multiply_sparse_matrices_give_the_same_steps(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossgcn.training.compiled_network._BAG_FROM", 0)
    assert_steps_are_exact(training(make("three layers", small_graph, seed=1), small_graph))


@pytest.mark.parametrize("architecture", COMPILED)
def test_scores_without_dropout_are_those_of_the_model(
    architecture: str, small_graph: Data
) -> None:
    model, nodes = make(architecture, small_graph, seed=3), torch.arange(0, 90, 4)
    step = training(model, small_graph)
    model, scorer = step.model, step.scorer(nodes)
    assert scorer._network is not None
    for _ in range(2):
        loss, accuracy = scorer()
        labels = small_graph.y[nodes]
        with torch.no_grad():
            expected = model.eval()(small_graph.x.to_dense(), small_graph.edge_index)[nodes]
            for weight in model.parameters():
                weight.mul_(1.5)
        assert float(loss) == pytest.approx(float(cross_entropy(expected, labels)), rel=1e-5)
        assert float(accuracy) == float((expected.argmax(1) == labels).double().mean())


class Louder(CrossGCN):
    def forward(self, *args: Any) -> Tensor:
        return 10 * super().forward(*args)


def test_models_with_code_of_their_own_are_trained_as_they_are(small_graph: Data) -> None:
    def first_loss(model: NodeClassifier) -> float:
        step = training(model, small_graph)
        assert (step._network is not None) == (type(model) is CrossGCN)
        step.run()
        return float(step.loss)

    torch.manual_seed(0)
    plain, louder = (kind(24, 8, 2, 3, dropout=0.0) for kind in (CrossGCN, Louder))
    louder.load_state_dict(plain.state_dict())
    nodes = make_splits(small_graph, "random", num_splits=1, train=5)[0].train
    scores = louder(small_graph.x, small_graph.edge_index)[nodes]
    expected = cross_entropy(scores, small_graph.y[nodes]).detach()
    assert first_loss(louder) == pytest.approx(float(expected), rel=1e-5)
    assert first_loss(louder) != pytest.approx(first_loss(plain), rel=1e-3)


def test_models_the_kernels_do_not_know_are_left_to_autograd(small_graph: Data) -> None:
    def is_compiled(model: NodeClassifier) -> bool:
        return can_be_compiled(model, torch.device("cpu"))

    known = build_model("cross-gcn", 24, 3)
    assert is_compiled(known) and is_compiled(build_model("mlp", 24, 3))
    assert not is_compiled(build_model("gin", 24, 3))
    assert not is_compiled(build_model("cross-gcn", 24, 3, order_weights="per-unit"))
    assert not is_compiled(deepcopy(known).double())
    frozen, hooked, calls = deepcopy(known), deepcopy(known), []
    still = next(frozen.parameters()).requires_grad_(False)
    hooked.layers[0].register_forward_hook(lambda *_: calls.append(1))
    assert not is_compiled(frozen) and not is_compiled(hooked)
    step = training(frozen, small_graph)
    step.run()
    assert torch.equal(next(step.model.parameters()), still)
    training(hooked, small_graph).run()
    assert calls
