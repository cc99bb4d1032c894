from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data import cross_columns, explicit_crosses, load_dataset, plant_crosses
from crossgcn.data.datasets.citeseer_cross import citeseer_cross
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


def test_the_seed_decides_the_draw() -> None:
    assert torch.equal(citeseer_cross(seed=5).x, citeseer_cross(seed=5).x)
    assert not torch.equal(citeseer_cross(seed=5).x, citeseer_cross(seed=6).x)


def test_an_order_below_one_is_refused() -> None:
    with pytest.raises(BadInput, match="order is 0"):
        plant_crosses(torch.tensor([0]), 1, 0, generator=torch.Generator())


def _slow_crosses(row: list[float], order: int, start: int = 0) -> list[float]:
    """Choose the first column, then cross what comes after it."""
    if order == 0:
        return [1.0]
    return [
        row[first] * rest
        for first in range(start, len(row))
        for rest in _slow_crosses(row, order - 1, first + 1)
    ]


@given(rows=st.integers(0, 4), features=st.integers(1, 7), order=st.integers(1, 4), data=st.data())
def test_every_choice_of_columns_is_multiplied(
    rows: int, features: int, order: int, data: st.DataObject
) -> None:
    order = min(order, features)
    seed = data.draw(st.integers(0, 2**32))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, dtype=torch.float64, generator=generator)
    crosses = explicit_crosses(x, order)
    assert crosses.shape == (rows, math.comb(features, order))
    slow = torch.tensor([_slow_crosses(row, order) for row in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(crosses, slow.reshape(crosses.shape))
    for cross, columns in enumerate(cross_columns(features, order).tolist()):
        torch.testing.assert_close(crosses[:, cross], x[:, columns].prod(dim=1))


def test_columns_ascend_like_words_in_a_dictionary() -> None:
    assert cross_columns(4).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert cross_columns(3, 1).tolist() == [[0], [1], [2]]
    assert cross_columns(3, 3).tolist() == [[0, 1, 2]]


def test_gradients_flow_to_the_features() -> None:
    x = torch.tensor([[2.0, 3.0, 5.0]], requires_grad=True)
    explicit_crosses(x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None and x.grad.tolist() == [[8.0, 7.0, 5.0]]


def test_too_many_crosses_are_refused_with_their_number() -> None:
    with pytest.raises(BadInput, match="3703 features have 6,854,253 crosses of order 2"):
        cross_columns(3703)
    with pytest.raises(BadInput, match="CrossFeatureTransform"):
        explicit_crosses(torch.ones(1, 3703))
    with pytest.raises(
        BadInput, match=r"499,500 crosses of order 2 for 1,000 rows are 499,500,000"
    ):
        explicit_crosses(torch.ones(1000, 1000))


@pytest.mark.parametrize("order", [0, -1, 4])
def test_an_order_without_crosses_is_refused(order: int) -> None:
    with pytest.raises(BadInput, match=f"order is {order}, with 3 features; .* give 1 to 3"):
        explicit_crosses(torch.ones(2, 3), order)


def test_sparse_features_are_refused_with_the_remedy() -> None:
    with pytest.raises(BadInput, match=r"x\.to_dense\(\)"):
        explicit_crosses(torch.eye(3).to_sparse())


def test_the_classes_of_citeseer_cross_are_signs_of_six_columns() -> None:
    pairs, raw = load_dataset("citeseer-cross-pairs", seed=2), citeseer_cross(seed=2)
    columns = cross_columns(12).tolist()
    planted = [columns.index([2 * label, 2 * label + 1]) for label in range(6)]
    assert torch.equal(pairs.x[:, planted] > 0, pairs.y.unsqueeze(1) == torch.arange(6))
    assert torch.equal(pairs.x, explicit_crosses(raw.x))
    assert torch.equal(pairs.edge_index, raw.edge_index)
    assert (pairs.name, pairs.num_features) == ("citeseer-cross-pairs", 66)
