"""Factorisation machines against the enumeration of all combinations."""

from __future__ import annotations

from itertools import combinations
from math import prod

import pytest
import torch
from crossing_cases import add_bias, make_crossing, random_rows, to_csr
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from crossgcn.layers.other_crossings.entries import HigherOrderFM


def combination_by_combination(machine: HigherOrderFM, x: Tensor) -> Tensor:
    """Every product of k different features, for every order, unit and factor vector."""
    outputs = torch.zeros(len(x), machine.out_channels, dtype=torch.float64)
    for number, row in enumerate(x.tolist()):
        for unit in range(machine.out_channels):
            total = sum(w * v for w, v in zip(machine.weight[unit].tolist(), row, strict=True))
            for order in range(2, machine.order + 1):
                for vector in machine.factors[order - 2, unit].tolist():
                    scaled = [p * v for p, v in zip(vector, row, strict=True)]
                    total += sum(prod(chosen) for chosen in combinations(scaled, order))
            outputs[number, unit] = total
    return add_bias(machine, outputs)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("case", ["hofm", "hofm, rank 3"])
def test_equals_the_sum_over_all_combinations(case: str, order: int) -> None:
    torch.manual_seed(order)
    machine = make_crossing(case, 7, 3, order)
    assert isinstance(machine, HigherOrderFM)
    x = random_rows(4, 7, share=0.8)
    expected = combination_by_combination(machine, x)
    torch.testing.assert_close(machine(x), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(machine(to_csr(x)), expected, rtol=1e-12, atol=1e-12)


@given(order=st.integers(2, 5), feature=st.integers(0, 5), seed=st.integers(0, 2**16))
def test_no_feature_is_multiplied_with_itself(order: int, feature: int, seed: int) -> None:
    """In one feature, with the others as they are, the output is a straight line."""
    torch.manual_seed(seed)
    machine = HigherOrderFM(6, 3, order).double()
    x = torch.randn(1, 6, dtype=torch.float64).repeat(3, 1)
    x[:, feature] = torch.tensor([-2.0, 0.5, 3.0])
    low, middle, high = machine(x)
    torch.testing.assert_close(middle, (low + high) / 2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_single_precision_is_enough_for_rows_of_words(order: int) -> None:
    torch.manual_seed(0)
    machine = HigherOrderFM(300, 16, order, rank=2, bias=False)
    x = (torch.rand(50, 300) < 0.1).float()
    exact = HigherOrderFM(300, 16, order, rank=2, bias=False).double()
    exact.load_state_dict({name: value.double() for name, value in machine.state_dict().items()})
    error = (machine(x).double() - exact(x.double())).norm() / exact(x.double()).norm()
    assert error < 1e-6


@pytest.mark.parametrize(("order", "rank"), [(2, 1), (4, 1), (3, 5)])
def test_each_order_costs_rank_vectors_for_each_unit(order: int, rank: int) -> None:
    machine = HigherOrderFM(50, 8, order, rank=rank, bias=False)
    count = sum(p.numel() for p in machine.parameters())
    assert count == 50 * 8 * (1 + (order - 1) * rank)
