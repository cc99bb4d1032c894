"""DCN-v2 against its recursion over whole rows."""

from __future__ import annotations

import pytest
import torch
from crossing_cases import add_bias, make_crossing, random_rows, to_csr
from torch import Tensor

from crossgcn import BadInput
from crossgcn.layers.other_crossings.dcn import CrossNetworkV2


def matrix_of(network: CrossNetworkV2, layer: int) -> Tensor:
    """W_l, written out."""
    if network.cross_weight is not None:
        return network.cross_weight[layer]
    assert network.up_weight is not None and network.down_weight is not None
    return network.up_weight[layer] @ network.down_weight[layer]


def row_by_row(network: CrossNetworkV2, x: Tensor) -> Tensor:
    """x_{l+1} = x_0 ⊙ (W_l x_l + b_l) + x_l, and the read-out."""
    outputs = []
    for start in x:
        state = start
        for layer in range(network.order - 1):
            inner = matrix_of(network, layer) @ state
            if network.cross_bias is not None:
                inner = inner + network.cross_bias.view(-1, network.in_channels)[layer]
            state = start * inner + state
        outputs.append(network.read_out @ state)
    return add_bias(network, torch.stack(outputs).detach())


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("case", ["dcn-v2, full", "dcn-v2, rank 2", "dcn-v2, no biases"])
def test_equals_the_recursion_over_whole_rows(case: str, order: int) -> None:
    torch.manual_seed(order)
    network = make_crossing(case, 7, 3, order)
    assert isinstance(network, CrossNetworkV2)
    x = random_rows(5, 7, share=0.6)
    expected = row_by_row(network, x)
    torch.testing.assert_close(network(x), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(network(to_csr(x)), expected, rtol=1e-12, atol=1e-12)


def test_a_low_rank_is_a_full_matrix_of_that_rank() -> None:
    low = CrossNetworkV2(6, 3, 3, rank=2).double()
    full = CrossNetworkV2(6, 3, 3, rank=None).double()
    assert full.cross_weight is not None
    with torch.no_grad():
        full.read_out.copy_(low.read_out)
        full.cross_weight.copy_(torch.stack([matrix_of(low, 0), matrix_of(low, 1)]))
    x = random_rows(5, 6)
    torch.testing.assert_close(full(x), low(x))


@pytest.mark.parametrize(("rank", "each"), [(None, 50 * 50), (4, 2 * 50 * 4)])
def test_each_order_costs_a_matrix(rank: int | None, each: int) -> None:
    for order in (2, 4):
        network = CrossNetworkV2(50, 8, order, rank=rank, cross_bias=False, bias=False)
        assert sum(p.numel() for p in network.parameters()) == 50 * 8 + (order - 1) * each


def test_an_impossible_rank_is_refused() -> None:
    with pytest.raises(BadInput, match=r"rank must be a whole number of at least 1; got 0"):
        CrossNetworkV2(4, 3, rank=0)
