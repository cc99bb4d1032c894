from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.full_batch import lay_out_weights
from crossgcn.training.objective import Optimizer, compute_loss

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in PRESETS if not name.endswith("hops")),
    ("cross-gcn-release", {"order": [3, 1]}),
    ("cross-gcn", {"order_weights": "per-unit"}),
]


def make(name: str, in_channels: int, **settings: Any) -> NodeClassifier:
    torch.manual_seed(1)
    model = build_model(
        name, in_channels, 3, hidden_channels=4, dropout=0.0, bias=True, **settings
    ).double()
    lay_out_weights(model)
    return model


def penalised(model: nn.Module, decay: float) -> Tensor:
    """The objective's second term as the rule puts it in words."""
    total = torch.zeros((), dtype=torch.float64)
    for name, parameter in model.named_parameters():
        kind = name.rsplit(".", 1)[-1]
        if kind.startswith("weight"):
            total = total + parameter.square().sum()
        elif kind == "order_weights":
            layer = model.get_submodule(name.rsplit(".", 1)[0])
            if layer.order_aggregation == "learned":
                total = total + parameter[1:].square().sum()
    return decay / 2 * total


def adam_by_hand(model: nn.Module, data: Data, rate: float, decay: float, steps: int) -> None:
    parameters = list(model.parameters())
    first = [torch.zeros_like(parameter) for parameter in parameters]
    second = [torch.zeros_like(parameter) for parameter in parameters]
    for step in range(1, steps + 1):
        loss = torch.log_softmax(model(data.x, data.edge_index), 1)
        objective = -loss[torch.arange(len(data.y)), data.y].mean() + penalised(model, decay)
        gradients = torch.autograd.grad(objective, parameters, allow_unused=True)
        for parameter, gradient, m, v in zip(parameters, gradients, first, second, strict=True):
            if gradient is not None:
                m.mul_(0.9).add_(0.1 * gradient)
                v.mul_(0.999).add_(0.001 * gradient.square())
                scale = (v / (1 - 0.999**step)).sqrt() + 1e-8
                parameter.data -= rate * m / (1 - 0.9**step) / scale


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_training_minimises_the_loss_and_half_the_decayed_norm(
    name: str, settings: dict[str, Any], small_graph: Data
) -> None:
    data = small_graph
    data.x = data.x.to_dense().double()
    model = make(name, 24, **settings)
    twin = copy.deepcopy(model)
    optimizer = Optimizer(model, 0.02, 0.1)
    for _ in range(6):
        loss = cross_entropy(model(data.x, data.edge_index), data.y)
        optimizer.step(torch.autograd.grad(loss, optimizer.weights, allow_unused=True))
    adam_by_hand(twin, data, 0.02, 0.1, steps=6)
    for (label, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=label)
        if label.endswith("order_weights"):
            assert ours[0] == 1.0


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    classes=st.integers(2, 6),
    weighted=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_losses_and_gradients_are_those_of_torch_for_each_bag(
    counts: list[int], classes: int, weighted: bool, seed: int
) -> None:
    """Rows of an unknown label may hold anything."""
    generator, rows = torch.Generator().manual_seed(seed), max(counts)
    draw = {"generator": generator, "dtype": torch.float64}
    scores = torch.randn(len(counts), rows, classes, **draw)  # type: ignore[call-overload]
    labels = torch.randint(classes, (len(counts), rows), generator=generator)
    of_nodes = torch.rand(rows, **draw) if weighted else None  # type: ignore[call-overload]
    for bag, count in enumerate(counts):
        labels[bag, count:], scores[bag, count:] = -1, torch.nan
    losses, correct, grads = compute_loss(scores, labels, 5, weights=of_nodes)
    for bag, count in enumerate(counts):
        own, known = scores[bag, :count].clone().requires_grad_(), labels[bag, :count]
        each = cross_entropy(own, known, reduction="none")
        loss = (each if of_nodes is None else each * of_nodes[:count]).sum() / 5
        torch.testing.assert_close(losses[bag] / 5, loss.detach())
        assert int(correct[bag]) == int((own.argmax(1) == known).sum())
        torch.testing.assert_close(grads[bag, :count], torch.autograd.grad(loss, own)[0])
        assert not grads[bag, count:].any()


def test_the_loss_of_numbers_is_half_the_squared_error_in_standard_units() -> None:
    numbers = torch.tensor([3.0, torch.nan, 7.0])
    scores = torch.tensor([[0.5], [torch.inf], [1.0]], requires_grad=True)
    loss, correct, grad = compute_loss(
        scores.detach(), numbers, 2, target_scale=torch.tensor([5.0, 2.0])
    )
    exact = ((scores[[0, 2], 0] - torch.tensor([-1.0, 1.0])) ** 2).sum() / 4
    assert float(loss / 2) == float(exact.detach()) and float(correct) == float(2 - 2 * loss)
    assert grad[[0, 2]].tolist() == torch.autograd.grad(exact, scores)[0][[0, 2]].tolist()
    assert grad[1].tolist() == [0.0]
