"""Feature transformations by name."""

from __future__ import annotations

import pytest
import torch

from crossgcn import BadInput, CrossFeatureTransform
from crossgcn.layers import MLPTransform
from crossgcn.layers.graph_convolution import GraphConvolution
from crossgcn.layers.other_crossings import OTHER_CROSSINGS, CrossNetworkV2
from crossgcn.layers.transforms import TRANSFORMS, make_transform, transform_settings


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("aggregate_first", [True, False])
def test_every_name_makes_a_transform_for_a_convolution(name: str, aggregate_first: bool) -> None:
    transform = make_transform(name, 6, 4, 3)
    layer = GraphConvolution(transform, 4, aggregate_first=aggregate_first)
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    assert layer(torch.randn(4, 6), edges).shape == (4, 4)


@pytest.mark.parametrize("name", [name for name in TRANSFORMS if name != "mlp"])
def test_the_bias_is_left_to_the_convolution(name: str) -> None:
    names = [name for name, _ in torch.nn.Module.named_parameters(make_transform(name, 6, 4))]  # type: ignore[arg-type]
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
        transform_settings("nothing")


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
    with pytest.raises(BadInput, match=rf"'{name}' has no setting '{setting}'; {has}"):
        make_transform(name, 6, 4, **{setting: True})


def test_peers_are_known_by_their_names() -> None:
    assert set(OTHER_CROSSINGS) < set(TRANSFORMS)
    assert transform_settings("hofm") == {"rank": 1}
