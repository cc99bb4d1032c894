"""DCN against its recursion over whole rows."""

from __future__ import annotations

import pytest
import torch
from crossing_cases import add_bias, make_crossing, random_rows
from torch import Tensor

from crossgcn.layers.other_crossings.dcn import CrossNetwork


def row_by_row(network: CrossNetwork, x: Tensor) -> Tensor:
    """x_{l+1} = x_0 (w_l · x_l) + b_l + x_l, and the read-out."""
    outputs = []
    for start in x:
        state = start
        for layer in range(network.order - 1):
            product = torch.dot(network.cross_weight[layer], state)
            state = start * product + state
            if network.cross_bias is not None:
                state = state + network.cross_bias.view(-1, network.in_channels)[layer]
        outputs.append(network.read_out @ state)
    return add_bias(network, torch.stack(outputs).detach())


@pytest.mark.parametrize("order", [2, 3, 4, 6])
@pytest.mark.parametrize("case", ["dcn", "dcn, no biases"])
def test_equals_the_recursion_over_whole_rows(case: str, order: int) -> None:
    torch.manual_seed(order)
    network = make_crossing(case, 7, 3, order)
    assert isinstance(network, CrossNetwork)
    x = random_rows(5, 7)
    torch.testing.assert_close(network(x), row_by_row(network, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [2, 4])
def test_each_order_costs_one_vector(order: int) -> None:
    network = CrossNetwork(50, 8, order, cross_bias=False, bias=False)
    assert sum(p.numel() for p in network.parameters()) == 50 * (8 + order - 1)
    assert network.num_projections == 8 + order - 1


@pytest.mark.parametrize("order", [2, 4, 8])
def test_the_stretch_starts_near_one_whatever_the_order(order: int) -> None:
    torch.manual_seed(0)
    squares = []
    for _ in range(20):
        network = CrossNetwork(200, 1, order)
        x = torch.randn(500, 200)
        stretch = network(x) / (x @ network.read_out.mT)
        squares.append(stretch.square().mean())
    assert 1.0 < torch.stack(squares).mean() < 4.0
