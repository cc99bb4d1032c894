"""Every rival equals its definition, written out in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from paper import rivals

ROWS, FEATURES, OUTPUTS = 3, 4, 2


def cross_network(net: Any, x: Tensor) -> Any:
    """DCN: the row times an inner product, plus the bias and what came before."""
    state = x.clone()
    for weight, bias in zip(net.cross_weight, net.cross_bias, strict=True):
        inner = sum(weight[d] * state[d] for d in range(FEATURES))
        state = torch.stack([x[d] * inner + bias[d] + state[d] for d in range(FEATURES)])
    return net.read_out.weight @ state


def cross_network_v2(net: Any, x: Tensor) -> Any:
    """DCN-v2 with the full matrices that its factors stand for."""
    state = x.clone()
    for down, up, bias in zip(net.down_weight, net.up_weight, net.cross_bias, strict=True):
        matrix = torch.einsum("dr,re->de", up, down)
        state = torch.stack(
            [x[d] * (sum(matrix[d] * state) + bias[d]) + state[d] for d in range(FEATURES)]
        )
    return net.read_out.weight @ state


def cin(net: Any, x: Tensor) -> Any:
    """CIN with full weights, every pair of a map and a field enumerated."""
    fields = [x[j] * net.embedding[:, j] for j in range(FEATURES)]
    first, *others = net.field_weight
    maps, pooled = fields, []
    for layer, v in enumerate(others):
        u = first if layer == 0 else net.map_weight[layer - 1]
        maps = [
            sum(
                (u[h, i] * v[h, j] * (before * field))
                for i, before in enumerate(maps)
                for j, field in enumerate(fields)
            )
            for h in range(len(v))
        ]
        pooled += [each.sum() for each in maps]
    return net.linear.weight @ x + net.read_out @ torch.stack(pooled)


def hofm(net: Any, x: Tensor) -> Any:
    """HOFM, every subset of different features enumerated."""
    out = []
    for e in range(OUTPUTS):
        value = net.linear.weight[e] @ x
        for order, factors in enumerate(net.factors, 2):
            terms = factors[e] * x
            value = value + sum(prod(terms[list(d)]) for d in combinations(range(FEATURES), order))
        out.append(value)
    return torch.stack(out)


TWINS: dict[Callable[..., nn.Module], Callable[[Any, Tensor], Any]] = {
    rivals.CrossNetwork: cross_network,
    rivals.CrossNetworkV2: cross_network_v2,
    rivals.CompressedInteractionNetwork: cin,
    rivals.HigherOrderFM: hofm,
}


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("rival", TWINS)
def test_equals_brute_force(rival: Callable[..., nn.Module], order: int) -> None:
    net = rival(FEATURES, OUTPUTS, order).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(ROWS, FEATURES, dtype=torch.float64)
    expected = torch.stack([TWINS[rival](net, row) for row in x])
    torch.testing.assert_close(net(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rival", TWINS)
def test_a_layer_of_pyg_aggregates_a_rival(rival: Callable[..., nn.Module]) -> None:
    edge_index = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])
    conv = GCNConv(FEATURES, OUTPUTS, bias=False)
    x = torch.randn(ROWS, FEATURES)
    conv.lin = rival(FEATURES, OUTPUTS, 3)
    conv.reset_parameters()
    averages = GCNConv(OUTPUTS, OUTPUTS, bias=False)
    averages.lin = nn.Identity()
    torch.testing.assert_close(conv(x, edge_index), averages(conv.lin(x), edge_index))


def test_an_order_without_products_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        rivals.HigherOrderFM(FEATURES, OUTPUTS, order=1)
