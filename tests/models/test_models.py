"""Stacks of layers: depth, order per layer, and what distinguishes the models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from crossgcn import GCN, GIN, MLP, PRESETS, BadInput, CrossGCN, build_model, load_dataset
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier

EDGES = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 1, 3]])


def layers_of(model: NodeClassifier) -> list[Any]:
    return list(model.layers)


def test_an_ungated_start_of_cross_gcn_is_gcn() -> None:
    cross, plain, x = CrossGCN(6, 8, 2, 3).eval(), GCN(6, 8, 2, 3).eval(), torch.randn(5, 6)
    for ours, theirs in zip(layers_of(plain), layers_of(cross), strict=True):
        ours.weight.data.copy_(theirs.weight[:1])
    torch.testing.assert_close(cross(x, EDGES), plain(x, EDGES))


def test_order_per_layer_turns_crosses_on_and_off() -> None:
    """The ablation of Table 4: a layer of order 1 is linear in its input, one of order 2 is not."""
    for orders in ([1, 1], [2, 1], [1, 2], [3, 2]):
        model = CrossGCN(6, 8, 2, 3, order=orders, order_weights="fixed", bias=False)
        for layer, order in zip(layers_of(model), orders, strict=True):
            assert layer.weight.size(0) == order
            x = torch.randn(5, layer.in_channels)
            doubled = torch.allclose(layer(2 * x, EDGES), 2 * layer(x, EDGES), atol=1e-5)
            assert doubled == (order == 1)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_any_depth(depth: int) -> None:
    model = CrossGCN(6, 8, depth, 3)
    assert len(model.propagations) == depth
    nn.init.constant_(layers_of(model)[-1].bias, -1e3)
    out = model(torch.randn(5, 6), EDGES)
    assert out.shape == (5, 3)
    assert (out < 0).all(), "the last layer must not be activated"


def test_gin_transforms_with_a_perceptron_and_no_batch_norm() -> None:
    model, x = GIN(6, 8, 1, 3).eval(), torch.randn(5, 6)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    conv = GCNConv(6, 6, bias=False)
    conv.lin.weight.data = torch.eye(6)
    aggregated = conv(x, EDGES)
    (layer,) = layers_of(model)
    transform = layer.transform
    assert isinstance(transform.hidden, CrossFeatureTransform)
    hidden = torch.relu(transform.hidden(aggregated))
    expected = transform.output(hidden) + layer.bias
    torch.testing.assert_close(model(x, EDGES), expected)


def test_mlp_ignores_the_graph() -> None:
    model, x = MLP(6, 8, 2, 3).eval(), torch.randn(5, 6)
    torch.testing.assert_close(model(x, EDGES), model(x))
    assert model.propagations == ()


def test_dropout_acts_in_training_only() -> None:
    model, x = CrossGCN(6, 8, 2, 3, dropout=0.5), torch.randn(5, 6)
    assert not torch.equal(model(x, EDGES), model(x, EDGES))
    model.eval()
    assert torch.equal(model(x, EDGES), model(x, EDGES))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_takes_the_sparse_features_of_citeseer(name: str) -> None:
    data = load_dataset("citeseer")
    model: NodeClassifier = build_model(name, data.x.size(1), 6, hidden_channels=8).eval()
    dense = model(data.x.to_dense(), data.edge_index)
    torch.testing.assert_close(model(data.x, data.edge_index), dense, rtol=1e-4, atol=1e-5)


def test_presets_are_the_models_of_the_design() -> None:
    def layer_settings(name: str) -> tuple[object, ...]:
        layer = layers_of(build_model(name, 6, 3))[0]
        transform = layer.transform
        return (
            transform.order,
            transform.order_aggregation,
            transform.first_order,
            layer.aggregate_first,
            layer.bias is not None,
        )

    assert layer_settings("cross-gcn") == (2, "gated", "paper", False, False)
    assert layer_settings("cross-gcn-release") == (2, "learned", "release", False, False)
    assert layer_settings("cross-gcn-release-fix") == (2, "fixed", "release", False, False)
    assert layer_settings("cross-gcn-paper") == (2, "learned", "paper", True, True)
    assert layer_settings("cross-gcn-paper-fix") == (2, "fixed", "paper", True, True)
    assert layer_settings("gcn") == (1, "fixed", "paper", False, False)


def test_overrides_replace_the_presets_settings() -> None:
    model = build_model("cross-gcn-release", 6, 3, order=3, bias=True, order_weights=None)
    layer = layers_of(model)[0]
    assert layer.weight.size(0) == 3
    assert layer.bias is not None
    assert layer.transform.order_aggregation == "learned"


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadInput, match=r"unknown model 'cross-gnc'.*did you mean 'cross-gcn'"):
        build_model("cross-gnc", 6, 3)
    with pytest.raises(BadInput, match=r"'gcn' has no option 'order'.*takes bias"):
        build_model("gcn", 6, 3, order=2)
    with pytest.raises(BadInput, match=r"order=\[2, 1, 1\] names 3 layers, but num_layers is 2"):
        CrossGCN(6, 8, 2, 3, order=[2, 1, 1])
    with pytest.raises(BadInput, match=r"num_layers must be a whole number of at least 1; got 0"):
        CrossGCN(6, 8, 0, 3)
    with pytest.raises(BadInput, match=r"dropout must be at least 0 and below 1; got 1.0"):
        CrossGCN(6, 8, 2, 3, dropout=1.0)
    with pytest.raises(
        BadInput, match=r"hidden_channels must be a whole number of at least 1; got 0"
    ):
        GIN(6, 0, 2, 3)
