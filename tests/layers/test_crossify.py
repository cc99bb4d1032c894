from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from order_lstm import OrderLSTM
from torch import Tensor, nn

from crossgcn import BadInput, CrossFeatureTransform
from crossgcn.layers.crossify import crossed_maps, crossify

NODES = 9
EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 0, 3], [1, 0, 2, 1, 4, 5, 3, 3, 7, 6, 5, 3]])
DEGREES = torch.tensor([1, 4, 3, 1])


def features() -> Tensor:
    return torch.randn(NODES, 6, generator=torch.Generator().manual_seed(0))


def perceptron(channels: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Linear(channels, 8), nn.ReLU(), nn.Linear(8, 4))


LAYERS: dict[str, tuple[Any, int]] = {
    "ChebConv": (lambda: pyg.ChebConv(6, 4, 3), 3),
    "DirGNNConv": (lambda: pyg.DirGNNConv(pyg.SAGEConv(6, 4)), 5),
    "EdgeConv": (lambda: pyg.EdgeConv(perceptron(12)), 2),
    "FAConv": (lambda: _GivenTwice(pyg.FAConv(6)), 2),
    "GATConv": (lambda: pyg.GATConv(6, 2, heads=2), 1),
    "GATv2Conv": (lambda: pyg.GATv2Conv(6, 2, heads=2), 2),
    "GCNConv": (lambda: pyg.GCNConv(6, 4), 1),
    "GENConv": (lambda: pyg.GENConv(6, 4), 4),
    "GINConv": (lambda: pyg.GINConv(perceptron()), 2),
    "GPSConv": (lambda: pyg.GPSConv(6, pyg.GCNConv(6, 6)), 3),
    "GraphConv": (lambda: pyg.GraphConv(6, 4), 2),
    "HypergraphConv": (lambda: pyg.HypergraphConv(6, 4), 1),
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(6, 4), 4),
    "SAGEConv": (lambda: pyg.SAGEConv(6, 4), 2),
    "TAGConv": (lambda: pyg.TAGConv(6, 4), 4),
    "TransformerConv": (lambda: pyg.TransformerConv(6, 4), 4),
}
MODELS: dict[str, tuple[Any, int]] = {
    "GCN": (lambda: pyg.GCN(6, 8, 2, 4, norm="batch"), 2),
    "GraphSAGE": (lambda: pyg.GraphSAGE(6, 8, 2, 4, jk="cat"), 5),
    "GAT": (lambda: pyg.GAT(6, 8, 2, 4, heads=2), 2),
    "GATv2": (lambda: pyg.GAT(6, 8, 2, 4, v2=True), 4),
    "GIN": (lambda: pyg.GIN(6, 8, 2, 4), 4),
    "PNA": (
        lambda: pyg.PNA(6, 8, 2, 4, aggregators=["mean", "max"], scalers=["identity"], deg=DEGREES),
        6,
    ),
    "EdgeCNN": (lambda: pyg.EdgeCNN(6, 8, 2, 4), 4),
    "perceptron and APPNP": (
        lambda: pyg.Sequential(
            "x, edge_index",
            [(perceptron(), "x -> x"), (pyg.APPNP(3, 0.1), "x, edge_index -> x")],
        ),
        2,
    ),
}


class _GivenTwice(nn.Module):
    """A layer that takes the features of its model too."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.layer(x, x, edge_index)


def run(model: nn.Module) -> Tensor:
    out = model(features(), EDGES)
    first: Tensor = out[0] if isinstance(out, tuple) else out
    return first


@pytest.mark.parametrize("case", LAYERS | MODELS)
def test_a_crossed_model_starts_as_the_model_and_then_departs(case: str) -> None:
    build, maps = (LAYERS | MODELS)[case]
    torch.manual_seed(0)
    model = build().eval()
    before = copy.deepcopy(model.state_dict())
    expected = run(model)
    crossed = crossify(model)
    assert len(crossed_maps(crossed)) == maps
    torch.testing.assert_close(run(crossed), expected)

    for module in crossed.modules():
        if isinstance(module, CrossFeatureTransform) and module.order_weights is not None:
            nn.init.constant_(module.order_weights, 0.5)
    assert not torch.allclose(run(crossed), expected)
    # The model itself is as it was.
    assert crossed_maps(model) == ()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_a_crossed_map_computes_its_products() -> None:
    linear = nn.Linear(6, 4)
    crossed = crossify(linear, order=3, order_weights="fixed")
    assert isinstance(crossed, CrossFeatureTransform)
    x = features()
    first, second, third = (x @ weight.T for weight in crossed.weight)
    torch.testing.assert_close(first + linear.bias, linear(x))
    torch.testing.assert_close(
        crossed(x), first + first * second + first * second * third + linear.bias
    )


def test_crosses_train_and_are_saved_and_copied() -> None:
    torch.manual_seed(0)
    crossed = crossify(pyg.GCN(6, 8, 2, 4), order=3)
    y = torch.arange(NODES) % 4
    optimizer = torch.optim.Adam(crossed.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(crossed), y)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    gates = crossed.get_submodule("convs.0.lin").order_weights
    assert isinstance(gates, Tensor) and gates[1:].abs().min() > 0

    crossed.eval()
    restored = crossify(pyg.GCN(6, 8, 2, 4), order=3).eval()
    restored.load_state_dict(crossed.state_dict())
    torch.testing.assert_close(run(restored), run(crossed), rtol=0, atol=0)
    torch.testing.assert_close(run(copy.deepcopy(crossed)), run(crossed), rtol=0, atol=0)


@pytest.mark.parametrize("build", [pyg.GCN, pyg.GraphSAGE, pyg.GAT])
def test_widths_not_known_yet_are_learned_from_the_first_input(build: Any) -> None:
    crossed = crossify(build(-1, 8, 2, 4)).eval()
    out = run(crossed)
    assert out.isfinite().all()
    assert crossed.get_submodule(crossed_maps(crossed)[0]).in_channels == 6
    restored = crossify(build(-1, 8, 2, 4)).eval()
    restored.load_state_dict(crossed.state_dict())
    torch.testing.assert_close(run(restored), out, rtol=0, atol=0)


def test_torchs_lazy_map_too() -> None:
    crossed = crossify(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2)))
    assert crossed(features()).shape == (NODES, 2)
    assert crossed_maps(crossed) == ("0", "1")


def test_only_and_skip_choose_maps_by_name() -> None:
    model = pyg.GraphSAGE(6, 8, 2, 4, jk="cat")
    assert crossed_maps(crossify(model, skip="lin")) == (
        "convs.0.lin_l",
        "convs.0.lin_r",
        "convs.1.lin_l",
        "convs.1.lin_r",
    )
    assert crossed_maps(crossify(model, only="convs.*", skip=["convs.1.*"])) == (
        "convs.0.lin_l",
        "convs.0.lin_r",
    )
    with pytest.raises(BadInput, match=r"'head' is not a linear map of this model, which has conv"):
        crossify(model, skip="head")
    with pytest.raises(BadInput, match="nothing is left to cross"):
        crossify(model, only="lin", skip="lin")


def test_a_map_used_in_two_places_stays_one() -> None:
    shared = nn.Linear(6, 6)
    crossed = crossify(nn.Sequential(shared, nn.ReLU(), shared))
    assert isinstance(crossed, nn.Sequential)
    assert crossed[0] is crossed[2]
    assert isinstance(crossed[0], CrossFeatureTransform)


def test_precision_is_kept_and_frozen_maps_are_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)).double()
    assert {p.dtype for p in crossify(model).parameters()} == {torch.float64}
    model[0].weight.requires_grad_(False)
    with pytest.raises(BadInput, match=r"the map '0' is frozen.* skip"):
        crossify(model)
    assert crossed_maps(crossify(model, skip="0")) == ("1",)


def test_maps_with_hooks_are_refused_by_name() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.LazyLinear(2))
    model[0].register_forward_hook(lambda module, given, out: 2 * out)
    with pytest.raises(BadInput, match=r"the map '0' has hooks.* skip"):
        crossify(model)
    assert crossed_maps(crossify(model, skip="0")) == ("1",)


def test_crossing_twice_leaves_crosses_as_they_are() -> None:
    once = crossify(nn.Sequential(nn.Linear(6, 4)), order_weights=OrderLSTM(4))
    with pytest.raises(BadInput, match="there is no linear map in this model"):
        crossify(once)
    with pytest.raises(BadInput, match="there is no linear map"):
        crossify(pyg.RGCNConv(6, 4, 2))
