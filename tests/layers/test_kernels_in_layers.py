from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from crossgcn.kernels import Draws, ops, plain
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
from crossgcn.layers.dropout import feature_dropout

SETTINGS: dict[str, dict[str, Any]] = {
    "order 1": {"order": 1, "order_weights": [0.7]},
    "gated": {"order": 2},
    "learned": {"order": 3, "order_weights": "learned"},
    "release": {"order": 3, "order_weights": "learned", "first_order": "release"},
    "mean": {"order": 4, "order_weights": "mean"},
}
DRAWS = Draws(torch.tensor([9]), torch.tensor(4), 1)
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 1, 6], [1, 0, 3, 2, 5, 4, 6, 1]])


def make(setting: str, dtype: torch.dtype = torch.float32) -> CrossFeatureTransform:
    torch.manual_seed(1)
    layer = CrossFeatureTransform(6, 4, **SETTINGS[setting])
    with torch.no_grad():
        for weight in layer.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return layer.to(dtype)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def output_and_gradients(
    layer: torch.nn.Module, x: Tensor, run: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    out = run(x)
    weights = [x, *layer.parameters()]
    gradients = torch.autograd.grad((out * random(*out.shape)).sum(), weights)
    return [out.detach(), *gradients]


def assert_same_through_plain_kernels(
    compute: Callable[[], list[Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    calls = []
    numba = ops._compiled("numba", "crossgcn.kernels.cpu")

    def counted(*names: str) -> Any:
        calls.append(names)
        return numba

    monkeypatch.setattr(ops, "_compiled", counted)
    compiled = compute()
    assert calls
    monkeypatch.setattr(ops, "_compiled", lambda *_: plain)
    for ours, theirs in zip(compiled, compute(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("shape", [(70, 6), (2, 5, 6)])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_transform_is_the_same_through_compiled_and_plain_kernels(
    setting: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = make(setting), random(*shape).requires_grad_()
    assert_same_through_plain_kernels(lambda: output_and_gradients(layer, x, layer), monkeypatch)


@pytest.mark.parametrize("aggregate_first", [False, True])
def test_a_convolution_is_the_same_through_compiled_and_plain_kernels(
    aggregate_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer = CrossGCNConv(6, 4, 3, order_weights="learned", aggregate_first=aggregate_first)
    x = random(7, 6).requires_grad_()
    assert_same_through_plain_kernels(
        lambda: output_and_gradients(layer, x, lambda x: layer(x, EDGES)), monkeypatch
    )


@pytest.mark.parametrize("activate", [False, True])
def test_dropout_is_the_same_through_compiled_and_plain_kernels(
    activate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random(30, 8).requires_grad_()

    def run(x: Tensor) -> Tensor:
        return feature_dropout(x, 0.4, training=True, activate=activate, draws=DRAWS)

    assert_same_through_plain_kernels(
        lambda: output_and_gradients(torch.nn.Identity(), x, run), monkeypatch
    )


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_crosses_can_be_differentiated_twice(order: int, release: bool) -> None:
    projections = random(2, 3, 2 * order, dtype=torch.float64).requires_grad_()
    weights = random(2, order, dtype=torch.float64, seed=1).requires_grad_()

    def run(projections: Tensor, weights: Tensor) -> Tensor:
        return ops.cross(projections, weights, release)

    assert torch.autograd.gradcheck(run, (projections, weights))
    assert torch.autograd.gradgradcheck(run, (projections, weights))


def test_activated_dropout_can_be_differentiated_twice() -> None:
    x = random(5, 4, dtype=torch.float64)
    x[x.abs() < 0.05] = 0.5

    def run(x: Tensor) -> Tensor:
        return feature_dropout(x, 0.5, training=True, activate=True, draws=DRAWS) ** 2

    assert torch.autograd.gradgradcheck(run, (x.requires_grad_(),))


@pytest.mark.parametrize("setting", SETTINGS)
def test_second_derivatives_of_float32_are_those_of_float64(setting: str) -> None:
    results = []
    for dtype in (torch.float32, torch.float64):
        layer, x = make(setting, dtype), random(20, 6, dtype=dtype).requires_grad_()
        hidden = feature_dropout(layer(x), 0.5, training=True, activate=True, draws=DRAWS)
        weights = [x, *layer.parameters()]
        first = torch.autograd.grad(hidden.square().mean(), weights, create_graph=True)
        norm = torch.stack([gradient.square().sum() for gradient in first]).sum()
        second = torch.autograd.grad(norm, weights)
        results.append([norm.detach(), *second])
    for single, double in zip(*results, strict=True):
        assert double.any()
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("setting", SETTINGS)
def test_transforms_of_torch_func_go_through_a_layer(setting: str) -> None:
    layer, x = make(setting), random(9, 6)
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        out: Tensor = functional_call(layer, weights, (row.unsqueeze(0),))
        return out.square().sum()

    per_row = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    for position, row in enumerate(x):
        own = torch.autograd.grad(
            layer(row.unsqueeze(0)).square().sum(), list(layer.parameters()), allow_unused=True
        )
        for name, gradient in zip(weights, own, strict=True):
            assert gradient is not None
            torch.testing.assert_close(per_row[name][position], gradient, rtol=1e-5, atol=1e-5)


def test_kernels_are_not_called_where_torch_must_see_its_own_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.ones(3)
    assert ops.may_use_kernels(x, torch.nn.Parameter(x))

    class Wrapped(Tensor):
        pass

    assert not ops.may_use_kernels(x, x.as_subclass(Wrapped))
    seen = []

    def look(row: Tensor) -> Tensor:
        seen.append(ops.may_use_kernels(row))
        return row.sum()

    vmap(look)(torch.ones(2, 3))
    grad(look)(x)
    assert seen == [False, False]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not ops.may_use_kernels(x)
    # Nor does a layer call one then.
    monkeypatch.setattr(ops, "_compiled", lambda *_: pytest.fail("a kernel was called"))
    out = feature_dropout(make("learned")(random(5, 6)), 0.5, training=True, activate=True)
    assert out.shape == (5, 4)
