"""Ways to combine the orders, each against its equation written out in loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from order_lstm import OrderLSTM
from torch import Tensor, nn

from crossgcn import BadInput, CrossFeatureTransform, CrossGCN
from crossgcn.layers.order_weights import ORDER_WEIGHTS, PerUnit


def draw(given: Any, order: int = 3, **settings: Any) -> CrossFeatureTransform:
    """A transform in 64 bits, away from its start."""
    torch.manual_seed(order)
    transform = CrossFeatureTransform(6, 4, order, order_weights=given, bias=False, **settings)
    for parameter in transform.double().parameters():
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
    assert isinstance(transform.aggregator, PerUnit)
    hidden, gates = orders_of(transform, x), transform.aggregator.gates.tolist()
    out = transform(x).detach()
    for row in range(5):
        for unit in range(4):
            crossed = sum(
                gates[(k - 1) * 4 + unit] * float(hidden[k][row, unit]) for k in range(1, order)
            )
            expected = float(hidden[0][row, unit]) + crossed
            assert float(out[row, unit]) == pytest.approx(expected, rel=1e-12)
    weights = transform.unit_order_weights()
    assert weights is not None
    torch.testing.assert_close(
        out, sum(a * h for a, h in zip(weights.detach(), hidden, strict=True))
    )


def test_a_module_reads_the_orders_first_to_last() -> None:
    """The LSTM over the orders that the paper suggests."""
    transform = draw(OrderLSTM(4))
    module = transform.aggregator
    assert isinstance(module, OrderLSTM) and transform.order_weights is None
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    _, (last, _) = module.lstm(torch.stack(orders_of(transform, x)).flatten(1, -2))
    torch.testing.assert_close(transform(x), module.read_out(last[0]).view(2, 5, 4))
    before = [parameter.clone() for parameter in module.parameters()]
    transform.reset_parameters()
    assert not any(map(torch.equal, before, module.parameters()))
    with pytest.raises(BadInput, match="a name, a module, or 3 finite numbers"):
        draw(OrderLSTM)


def test_every_layer_of_a_model_has_a_copy_of_a_module() -> None:
    module = OrderLSTM(4)
    model = CrossGCN(6, 4, 2, 4, order_weights=module)
    modules = [each for each in model.modules() if isinstance(each, OrderLSTM)]
    assert len(modules) == 2 and module not in modules


def test_training_starts_as_a_linear_layer() -> None:
    x = torch.randn(5, 7)
    linear = CrossFeatureTransform(7, 3, 4, order_weights="per-unit")
    torch.testing.assert_close(linear(x), x @ linear.weight[0].mT)


@pytest.mark.parametrize("given", ["per-unit", OrderLSTM(4)], ids=str)
def test_the_release_adds_every_projection_to_the_first_order(given: Any) -> None:
    transform = draw(given, first_order="release")
    assert transform.aggregator is not None
    x = torch.randn(5, 6, dtype=torch.float64)
    hidden = orders_of(transform, x)
    hidden[0] = sum(x @ weight.mT for weight in transform.weight)
    torch.testing.assert_close(transform(x), transform.aggregator(torch.stack(hidden)))


@pytest.mark.parametrize("name", ORDER_WEIGHTS)
def test_a_single_order_is_a_linear_layer_with_nothing_added(name: str) -> None:
    transform = CrossFeatureTransform(7, 3, 1, order_weights=name)
    assert {key for key, _ in transform.named_parameters()} == {"weight", "bias"}
    x = torch.randn(5, 7)
    expected = nn.functional.linear(x, transform.weight[0], transform.bias)
    torch.testing.assert_close(transform(x), expected)


def test_resetting_goes_back_to_the_start() -> None:
    transform = draw("per-unit")
    transform.reset_parameters()
    assert transform.aggregator is not None
    assert not any(parameter.any() for parameter in transform.aggregator.parameters())
