"""Aggregations of the orders, each against its equation written out in loops."""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crossgcn import CrossFeatureTransform
from crossgcn.layers import OrderAggregator
from crossgcn.layers.orders import (
    AttentionOverOrders,
    ConcatenatedOrders,
    WeightsPerUnit,
)

NAMES = ("per-unit", "attention", "concat")


def draw(name: str, order: int = 3, **settings: Any) -> CrossFeatureTransform:
    """A transform in 64 bits, away from its start."""
    torch.manual_seed(order)
    transform = CrossFeatureTransform(
        6,
        4,
        order,
        order_weights=name,
        bias=False,
        **settings,
    ).double()
    for parameter in transform.parameters():
        nn.init.normal_(parameter)
    return transform


def orders_of(transform: CrossFeatureTransform, x: Tensor) -> list[Tensor]:
    """h^1 to h^K, multiplied up one by one."""
    weights = transform.weight.detach()
    hidden = [x @ weights[0].mT]
    for weight in weights[1:]:
        hidden.append(hidden[-1] * (x @ weight.mT))
    return hidden


@pytest.mark.parametrize("order", [2, 3, 5])
def test_per_unit_weighs_every_order_in_every_unit(order: int) -> None:
    transform, x = draw("per-unit", order), torch.randn(5, 6, dtype=torch.float64)
    aggregator = transform.aggregator
    assert isinstance(aggregator, WeightsPerUnit)
    hidden, gates = orders_of(transform, x), aggregator.gates.tolist()
    out = transform(x).detach()
    for row in range(5):
        for unit in range(4):
            crossed = sum(
                gates[(k - 1) * 4 + unit] * float(hidden[k][row, unit]) for k in range(1, order)
            )
            expected = float(hidden[0][row, unit]) + crossed
            assert float(out[row, unit]) == pytest.approx(expected, rel=1e-12)
    weights = aggregator.order_weights().detach()
    torch.testing.assert_close(out, sum(a * h for a, h in zip(weights, hidden, strict=True)))


@pytest.mark.parametrize("order", [2, 3, 5])
def test_attention_is_a_softmax_over_the_orders_of_each_row(order: int) -> None:
    transform, x = draw("attention", order), torch.randn(5, 6, dtype=torch.float64)
    aggregator = transform.aggregator
    assert isinstance(aggregator, AttentionOverOrders)
    query, offset = aggregator.query.detach(), aggregator.offset.detach()
    hidden, out = orders_of(transform, x), transform(x).detach()
    for row in range(5):
        scores = [
            float(h[row] @ query) / sqrt(4) + float(c) for h, c in zip(hidden, offset, strict=True)
        ]
        total = sum(exp(score) for score in scores)
        expected = sum(exp(s) / total * h[row] for s, h in zip(scores, hidden, strict=True))
        torch.testing.assert_close(out[row], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_concat_maps_all_orders_together(order: int) -> None:
    transform, x = draw("concat", order), torch.randn(5, 6, dtype=torch.float64)
    assert isinstance(transform.aggregator, ConcatenatedOrders)
    blocks = transform.aggregator.weight.chunk(order, dim=1)
    hidden = orders_of(transform, x)
    expected = sum(h @ block.mT for h, block in zip(hidden, blocks, strict=True))
    torch.testing.assert_close(transform(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["per-unit", "concat"])
def test_training_starts_as_a_linear_layer_and_can_leave(name: str) -> None:
    transform = CrossFeatureTransform(7, 3, 4, order_weights=name)
    x = torch.randn(5, 7)
    torch.testing.assert_close(transform(x), x @ transform.weight[0].mT)
    optimizer = torch.optim.Adam(transform.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        transform(x).square().sum().backward()
        optimizer.step()
    assert transform.weight.grad is not None
    assert transform.weight.grad.flatten(1).any(dim=1).all()


def test_attention_starts_as_the_mean_of_the_orders() -> None:
    attention = CrossFeatureTransform(7, 3, 4, order_weights="attention")
    mean = CrossFeatureTransform(7, 3, 4, order_weights="mean")
    with torch.no_grad():
        mean.weight.copy_(attention.weight)
    x = torch.randn(5, 7)
    torch.testing.assert_close(attention(x), mean(x))


@pytest.mark.parametrize("name", NAMES)
def test_the_release_adds_every_projection_to_the_first_order(name: str) -> None:
    transform = draw(name, first_order="release")
    assert isinstance(transform.aggregator, OrderAggregator)
    x = torch.randn(5, 6, dtype=torch.float64)
    hidden = orders_of(transform, x)
    hidden[0] = sum(x @ weight.mT for weight in transform.weight)
    torch.testing.assert_close(transform(x), transform.aggregator(hidden))


@pytest.mark.parametrize("name", NAMES)
def test_a_single_order_is_a_linear_layer_with_nothing_added(name: str) -> None:
    transform = CrossFeatureTransform(7, 3, 1, order_weights=name)
    assert {key for key, _ in transform.named_parameters()} == {"weight", "bias"}
    linear, x = nn.Linear(7, 3), torch.randn(5, 7)
    transform.load_state_dict(
        {"weight": linear.weight[None], "bias": linear.bias, "order_weights": torch.ones(1)}
    )
    torch.testing.assert_close(transform(x), linear(x))


@pytest.mark.parametrize("name", NAMES)
def test_resetting_goes_back_to_the_start(name: str) -> None:
    transform = draw(name)
    fresh = CrossFeatureTransform(6, 4, 3, order_weights=name)
    transform.reset_parameters()
    assert transform.aggregator is not None and fresh.aggregator is not None
    for ours, theirs in zip(
        transform.aggregator.parameters(), fresh.aggregator.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs.double())


@pytest.mark.parametrize("name", NAMES)
def test_models_side_by_side_are_aggregated_as_each_alone(name: str) -> None:
    alone = [draw(name), draw(name)]
    with torch.no_grad():
        for parameter in alone[1].parameters():
            parameter.add_(0.5)
    together = draw(name)
    for key, parameter in list(together.named_parameters()):
        path, _, attribute = key.rpartition(".")
        stacked = torch.stack([dict(each.named_parameters())[key] for each in alone])
        assert parameter.shape == stacked.shape[1:]
        setattr(together.get_submodule(path), attribute, nn.Parameter(stacked.detach()))
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    out = together(x)
    for position, each in enumerate(alone):
        torch.testing.assert_close(out[position], each(x[position]))
