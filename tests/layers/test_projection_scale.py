"""Every order starts at the same size, and stays an exact polynomial."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossgcn import BadInput, CrossFeatureTransform, CrossGCNConv, load_dataset
from crossgcn.graph import SparseMatrix
from crossgcn.kernels.plain import multiply_up
from crossgcn.layers.cross_feature_transform import _measure_scale

KINDS = ("bags of words", "dense", "bags of words, large", "dense, small")


def features(kind: str) -> Tensor | SparseMatrix:
    data = load_dataset("citeseer" if "words" in kind else "citeseer-cross")
    factor = {"large": 1e6, "small": 1e-6}.get(kind.rpartition(", ")[2], 1.0)
    if "words" not in kind:
        return factor * data.x  # type: ignore[no-any-return]
    words = SparseMatrix.from_torch(data.x)
    return words.with_values(factor * words.values)


def scaled_orders(transform: CrossFeatureTransform, x: Tensor | SparseMatrix) -> list[Tensor]:
    """h^1 to h^K as they are summed."""
    with torch.no_grad():
        projections = transform.project(x).view(-1, transform.order, transform.out_channels)
        assert transform.projection_scale is not None
        return multiply_up((projections * transform.projection_scale.unsqueeze(-1)).unbind(-2))


@pytest.mark.parametrize("kind", KINDS)
def test_orders_up_to_8_start_at_the_size_of_the_first(kind: str) -> None:
    torch.manual_seed(0)
    x = features(kind)
    transform = CrossFeatureTransform(x.size(1), 64, 8, scaling="unit")
    transform.calibrate(x)
    sizes = [float(h.double().square().mean().sqrt()) for h in scaled_orders(transform, x)]
    assert sizes == pytest.approx([sizes[0]] * 8, rel=1e-3)
    with torch.no_grad():
        projections = CrossFeatureTransform(x.size(1), 64, 8).project(x).view(-1, 8, 64)
    unscaled = [
        float(h.double().square().mean().sqrt()) for h in multiply_up(projections.unbind(-2))
    ]
    if kind != "dense":
        assert not 1e-3 < unscaled[-1] / unscaled[0] < 1e3, "scaling is there for a reason"


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_order_is_as_large_as_glorots_for_rows_of_length_1(kind: str) -> None:
    torch.manual_seed(0)
    x = features(kind)
    transform = CrossFeatureTransform(x.size(1), 32, 2, order_weights="gated", scaling="unit")
    transform.calibrate(x)
    with torch.no_grad():
        out = transform(x)
    glorot = (2 / (x.size(1) + 32)) ** 0.5
    present = out[out.any(dim=1)]
    assert float(present.square().mean().sqrt()) == pytest.approx(glorot, rel=1e-3)


def test_nothing_is_scaled_before_it_is_measured() -> None:
    transform = CrossFeatureTransform(6, 4, 3, order_weights="fixed", scaling="unit")
    twin = CrossFeatureTransform(6, 4, 3, order_weights="fixed")
    with torch.no_grad():
        twin.weight.copy_(transform.weight)
    x = torch.randn(5, 6)
    torch.testing.assert_close(transform(x), twin(x))


@pytest.mark.parametrize("first_order", ["paper", "release"])
@pytest.mark.parametrize("order_weights", ["fixed", "per-unit", "attention", "concat", "lstm"])
def test_scales_are_the_same_as_larger_weights(order_weights: str, first_order: str) -> None:
    torch.manual_seed(1)
    transform, twin = (
        CrossFeatureTransform(
            6,
            4,
            3,
            order_weights=order_weights,
            first_order=first_order,  # type: ignore[arg-type]
            scaling=scaling,
        ).double()
        for scaling in ("unit", "none")
    )
    x = 30 * torch.randn(50, 6, dtype=torch.float64)
    transform.calibrate(x)
    state = transform.state_dict()
    scale = state.pop("projection_scale")
    assert scale.max() < 0.1
    state["weight"] = state["weight"] * scale[:, None, None]
    twin.load_state_dict(state)
    torch.testing.assert_close(transform(x), twin(x))


@given(factor=st.floats(1e-9, 1e9), order=st.integers(1, 5), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_the_unit_of_the_features_does_not_matter(factor: float, order: int, seed: int) -> None:
    torch.manual_seed(seed)
    transform = CrossFeatureTransform(6, 4, order, order_weights="fixed", scaling="unit").double()
    x = torch.randn(20, 6, dtype=torch.float64)
    transform.calibrate(x)
    expected = transform(x)
    transform.calibrate(factor * x)
    torch.testing.assert_close(transform(factor * x), expected)


def test_rows_without_features_do_not_count() -> None:
    torch.manual_seed(0)
    transform, x = CrossFeatureTransform(6, 4, 3, scaling="unit"), torch.randn(20, 6)
    transform.calibrate(x)
    assert transform.projection_scale is not None
    alone = transform.projection_scale.clone()
    transform.calibrate(torch.cat([x, torch.zeros(80, 6)]))
    torch.testing.assert_close(transform.projection_scale, alone)
    transform.calibrate(torch.zeros(5, 6))
    assert transform.projection_scale.tolist() == [1.0, 1.0, 1.0]


def test_the_measure_is_the_root_mean_square_of_the_products() -> None:
    projections = torch.tensor([[[3.0, 4.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 2.0]]])
    first = 5 / (25 / 4) ** 0.5
    second = 5 / (first * ((3 * 1) ** 2 + (4 * 2) ** 2) ** 0.5 / 4**0.5)
    torch.testing.assert_close(_measure_scale(projections, 5.0), torch.tensor([first, second]))
    huge = _measure_scale(torch.full((2, 1, 3), 1e30), 1.0)
    torch.testing.assert_close(huge, torch.tensor([1e-30]))


def test_a_lazy_transform_is_drawn_and_measured_in_one_go() -> None:
    transform = CrossFeatureTransform(-1, 4, 3, scaling="unit")
    transform.calibrate(100 * torch.randn(50, 9))
    assert transform.projection_scale is not None
    assert (transform.projection_scale < 0.1).all()
    restored = CrossFeatureTransform(-1, 4, 3, scaling="unit")
    restored.load_state_dict(transform.state_dict())
    x = torch.randn(5, 9)
    torch.testing.assert_close(restored(x), transform(x), rtol=0, atol=0)
    transform.reset_parameters()
    assert transform.projection_scale.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("aggregate_first", [False, True])
def test_a_convolution_measures_what_it_crosses(aggregate_first: bool) -> None:
    data = load_dataset("citeseer-cross")
    torch.manual_seed(0)
    layer = CrossGCNConv(12, 16, 4, aggregate_first=aggregate_first, scaling="unit")
    with layer.transform.calibrating(), torch.no_grad():
        layer(data.x, data.edge_index)
    x = data.x
    if aggregate_first:
        mean = CrossGCNConv(12, 12, 1, bias=False)
        with torch.no_grad():
            mean.transform.weight.copy_(torch.eye(12)[None])
            x = mean(data.x, data.edge_index)
    sizes = [float(h.square().mean().sqrt()) for h in scaled_orders(layer.transform, x)]
    assert sizes == pytest.approx([(2 / 28) ** 0.5] * 4, rel=1e-3)


def test_an_unknown_scaling_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"scaling.*did you mean 'unit'"):
        CrossFeatureTransform(4, 3, scaling="units")  # type: ignore[arg-type]
