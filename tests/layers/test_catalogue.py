"""Aggregations and feature transforms by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from crossgcn import BadInput, CrossFeatureTransform
from crossgcn.layers import (
    AGGREGATIONS,
    ORDER_AGGREGATIONS,
    TRANSFORMS,
    GraphConvolution,
    MLPTransform,
    make_aggregation,
    make_transform,
)
from crossgcn.layers.other_crossings.dcn import CrossNetworkV2


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("aggregate_first", [True, False])
def test_every_name_makes_a_transform_for_a_convolution(name: str, aggregate_first: bool) -> None:
    transform = make_transform(name, 6, 4, 3)
    layer = GraphConvolution(transform, 4, aggregate_first=aggregate_first)
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    assert layer(torch.randn(4, 6), edges).shape == (4, 4)


@pytest.mark.parametrize("name", [name for name in TRANSFORMS if name != "mlp"])
def test_the_bias_is_left_to_the_convolution(name: str) -> None:
    names = [name for name, _ in make_transform(name, 6, 4).named_parameters()]
    assert "bias" not in names


def test_settings_reach_the_transform() -> None:
    cross = make_transform("cross", 6, 4, 3, order_weights="fixed", first_order="release")
    assert isinstance(cross, CrossFeatureTransform)
    assert (cross.order, cross.order_aggregation, cross.first_order) == (3, "fixed", "release")
    full = make_transform("dcn-v2", 6, 4, 2, rank=None)
    assert isinstance(full, CrossNetworkV2) and full.cross_weight is not None
    perceptron = make_transform("mlp", 6, 4, hidden_channels=9, hidden_bias=False)
    assert isinstance(perceptron, MLPTransform)
    assert perceptron.num_projections == 9 and perceptron.hidden.bias is None


def test_linear_is_of_order_1_and_the_perceptron_as_wide_as_its_output() -> None:
    linear = make_transform("linear", 6, 4, 3)
    assert isinstance(linear, CrossFeatureTransform) and linear.order == 1
    assert make_transform("mlp", 6, 4).num_projections == 4


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"unknown transform 'dcnv2': did you mean 'dcn-v2'"):
        make_transform("dcnv2", 6, 4)
    with pytest.raises(BadInput, match=r"known are cross, linear, mlp, dcn, dcn-v2, cin, hofm"):
        make_transform("nothing", 6, 4)


@pytest.mark.parametrize(
    ("name", "setting", "has"),
    [
        ("hofm", "cross_bias", "it has rank"),
        ("dcn", "rank", "it has cross_bias"),
        ("cin", "hidden_channels", "it has feature_maps, embedding_channels, rank"),
        ("linear", "order_weights", "it has none"),
        ("cross", "bias", "it has order_weights, first_order"),
    ],
)
def test_a_setting_that_a_transform_does_not_have_is_refused_with_those_it_has(
    name: str, setting: str, has: str
) -> None:
    with pytest.raises(BadInput, match=rf"'{name}' has no setting '{setting}': {has}"):
        make_transform(name, 6, 4, **{setting: True})


@pytest.mark.parametrize("table", [AGGREGATIONS, ORDER_AGGREGATIONS, TRANSFORMS])
def test_every_part_has_a_description_and_can_be_imported(table: dict[str, Any]) -> None:
    for part in table.values():
        assert part.description and callable(part.load())


def test_the_names_are_known_without_torch() -> None:
    code = (
        "import sys, crossgcn.models.catalogue, crossgcn.layers.catalogue; "
        "sys.exit(bool({'torch', 'numpy', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_aggregation_is_refused_with_the_list() -> None:
    with pytest.raises(BadInput, match=r"unknown aggregation 'gats': did you mean 'gat'.*appnp"):
        make_aggregation("gats", 4)


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("gat", "heads, negative_slope"),
        ("raw-median", "none"),
        ("raw-softmax", "t, learn, per_channel"),
        ("gru", "none"),
    ],
)
def test_an_unknown_setting_is_refused_with_those_there_are(name: str, has: str) -> None:
    with pytest.raises(BadInput, match=f"aggregation '{name}' has no setting 'cell': it has {has}"):
        make_aggregation(name, 4, cell="lstm")
