from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data import plant_crosses
from crossgcn.data.datasets.generated import citeseer_cross
from crossgcn.data.datasets.planetoid import read_bundled_citeseer
from crossgcn.errors import BadInput


@given(
    labels=st.lists(st.integers(-1, 4), min_size=1, max_size=60),
    order=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_a_product_is_positive_for_its_own_class_and_no_other(
    labels: list[int], order: int, seed: int
) -> None:
    y = torch.tensor(labels)
    x = plant_crosses(y, 5, order, generator=torch.Generator().manual_seed(seed))
    for node, label in enumerate(labels):
        for group in range(5):
            product = x[node, group * order : (group + 1) * order].double().prod()
            assert (product > 0) == (label == group), (node, group)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_rule_holds_for_every_node_and_class_of_citeseer(order: int) -> None:
    data = citeseer_cross(order, seed=3)
    products = data.x.double().view(-1, 6, order).prod(-1)
    assert torch.equal(products > 0, data.y.unsqueeze(1) == torch.arange(6))


def test_single_columns_stay_standard_normal_within_each_class() -> None:
    y = torch.zeros(40_000, dtype=torch.int64)
    x = plant_crosses(y, 2, 2, generator=torch.Generator().manual_seed(1))
    assert x.mean(0).abs().max() < 0.03
    assert (x.std(0) - 1).abs().max() < 0.03
    flipped_first = (x[:, 0] < 0).float().mean()
    assert abs(float(flipped_first) - 0.5) < 0.02, "either column may be the one that flips"


def test_only_the_features_differ_from_citeseer() -> None:
    plain, crossed = read_bundled_citeseer(), citeseer_cross()
    assert torch.equal(plain.y, crossed.y)
    assert torch.equal(plain.edge_index, crossed.edge_index)
    assert torch.equal(plain.roles, crossed.roles)
    assert crossed.name == "citeseer-cross"
    assert crossed.num_features == 12


def test_an_order_below_one_is_refused() -> None:
    with pytest.raises(BadInput, match="order is 0"):
        plant_crosses(torch.tensor([0]), 1, 0, generator=torch.Generator())
