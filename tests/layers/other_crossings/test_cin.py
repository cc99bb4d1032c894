"""CIN against the sums over pairs of fields that define it."""

from __future__ import annotations

import pytest
import torch
from crossing_cases import add_bias, make_crossing, random_rows, to_csr
from torch import Tensor

from crossgcn import BadInput
from crossgcn.layers.other_crossings.cin import CompressedInteractionNetwork


def full_weight(network: CompressedInteractionNetwork, layer: int) -> Tensor:
    """W^k of a layer counted from 0, ``[feature_maps, before, fields]``."""
    if network.rank is None:
        if layer == 0:
            return network.field_weight
        assert network.map_weight is not None
        return network.map_weight[layer - 1]
    second = network.field_weight[layer + 1]
    if layer == 0:
        first: Tensor = network.field_weight[0]
    else:
        assert network.map_weight is not None
        first = network.map_weight[layer - 1]
    return torch.stack([u.mT @ v for u, v in zip(first, second, strict=True)])


def pair_by_pair(network: CompressedInteractionNetwork, x: Tensor) -> Tensor:
    """Every map of every layer as the sum over all pairs of a map and a field."""
    outputs = []
    for row in x:
        out = network.weight @ row
        fields = [v * vector for v, vector in zip(row, network.embedding.mT, strict=True)]
        before, pooled = fields, []
        for layer in range(network.order - 1):
            maps = []
            for weights in full_weight(network, layer):
                total = torch.zeros_like(fields[0])
                for i, one in enumerate(before):
                    for j, other in enumerate(fields):
                        total = total + weights[i, j] * one * other
                maps.append(total)
            pooled += [each.sum() for each in maps]
            before = maps
        out = out + network.read_out @ torch.stack(pooled)
        outputs.append(out)
    return add_bias(network, torch.stack(outputs).detach())


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("case", ["cin, rank 2", "cin, full"])
def test_equals_the_sums_over_all_pairs_of_fields(case: str, order: int) -> None:
    torch.manual_seed(order)
    network = make_crossing(case, 6, 3, order)
    assert isinstance(network, CompressedInteractionNetwork)
    x = random_rows(3, 6)
    torch.testing.assert_close(network(x), pair_by_pair(network, x), rtol=1e-12, atol=1e-12)


def test_parameters_are_those_the_documentation_counts() -> None:
    features, units, maps, width, rank = 50, 8, 4, 3, 2
    for order in (2, 3, 4):
        common = units * features + width * features + units * (order - 1) * maps
        decomposed = CompressedInteractionNetwork(
            features, units, order, feature_maps=maps, embedding_channels=width, rank=rank
        )
        full = CompressedInteractionNetwork(
            features, units, order, feature_maps=maps, embedding_channels=width, rank=None
        )
        counts = [sum(p.numel() for p in each.parameters()) - units for each in (decomposed, full)]
        assert counts == [
            common + order * maps * rank * features + (order - 2) * maps * rank * maps,
            common + maps * features**2 + (order - 2) * maps**2 * features,
        ]


def test_full_weights_say_that_they_need_dense_rows() -> None:
    network = CompressedInteractionNetwork(6, 3, 2, rank=None)
    with pytest.raises(BadInput, match=r"pass x\.to_dense\(\), or give a rank"):
        network(to_csr(random_rows(4, 6).float()))
