from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.objective import make_optimizer, order_weight_penalty

GATED = ("cross-gcn",)
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in PRESETS if not name.endswith(("grand", "hops"))),
    ("cross-gcn-release", {"order": 3}),
    ("cross-gcn-release", {"order": [2, 1]}),
]


def make(name: str, in_channels: int, **settings: Any) -> NodeClassifier:
    torch.manual_seed(1)
    return build_model(
        name, in_channels, 3, hidden_channels=4, dropout=0.0, bias=True, **settings
    ).double()


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
    optimizer = make_optimizer(model, 0.02, 0.1)
    for _ in range(6):
        loss = cross_entropy(model(data.x, data.edge_index), data.y)
        penalty = order_weight_penalty(model, 0.1)
        total = loss if penalty is None else loss + penalty
        optimizer.step(torch.autograd.grad(total, optimizer.weights, allow_unused=True))
    adam_by_hand(twin, data, 0.02, 0.1, steps=6)
    for (label, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, msg=label)
        if label.endswith("order_weights"):
            assert ours[0] == 1.0


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_decay_alone_moves_matrices_and_learned_order_weights_only(
    name: str, settings: dict[str, Any]
) -> None:
    model = make(name, 5, **settings)
    with torch.no_grad():
        for label, parameter in model.named_parameters():
            if "bias" in label or label.endswith("order_weights"):
                parameter.fill_(1.0)
    before = copy.deepcopy(dict(model.named_parameters()))
    optimizer = make_optimizer(model, 1e-6, 5e-4)
    nothing = sum(0.0 * parameter.sum() for parameter in model.parameters())
    total = nothing + (order_weight_penalty(model, 5e-4) or 0.0)
    optimizer.step(torch.autograd.grad(total, optimizer.weights))  # type: ignore[arg-type]
    for label, parameter in model.named_parameters():
        change = (parameter.abs() - before[label].abs()).detach()
        if "bias" in label:
            assert not change.any(), label
        elif label.endswith("order_weights"):
            assert change[0] == 0.0, label
            assert bool((change[1:] < 0).all()) == (name not in GATED), label
        else:
            assert (change < 0).all(), label


def test_without_decay_there_is_no_penalty() -> None:
    assert order_weight_penalty(make("cross-gcn-release", 5), 0.0) is None
    assert order_weight_penalty(make("cross-gcn", 5), 1.0) is None
