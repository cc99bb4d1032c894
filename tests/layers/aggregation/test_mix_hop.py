from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from aggregation_cases import dense, join, shake, vectors

from crossgcn import BadInput
from crossgcn.layers.aggregation.mix_hop import MixHop


@pytest.mark.parametrize("powers", [(0, 1, 2), (1,), (3, 1), (0, 2)])
def test_each_power_has_a_map_of_its_own(powers: Sequence[int]) -> None:
    aggregation = MixHop(4, powers=powers).double()
    shake(aggregation)
    x, adjacency = vectors(), dense("gcn")
    expected = sum(
        torch.linalg.matrix_power(adjacency, power) @ x @ weight.T
        for power, weight in zip(sorted(powers), aggregation.maps, strict=True)
    )
    torch.testing.assert_close(join(aggregation, x), expected)


def test_it_starts_as_the_mean_of_all_powers() -> None:
    x, adjacency = vectors(), dense("gcn")
    expected = (x + adjacency @ x + adjacency @ adjacency @ x) / 3
    torch.testing.assert_close(join(MixHop(4).double(), x), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("powers", [(), (0,), (-1, 2)])
def test_powers_that_reach_no_neighbour_are_refused(powers: Sequence[int]) -> None:
    with pytest.raises(BadInput, match="powers are whole numbers from 0"):
        MixHop(4, powers=powers)
