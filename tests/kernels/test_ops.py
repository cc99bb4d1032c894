"""The kernels as operations: second derivatives, tracing and ``torch.func``."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from crossgcn.kernels import DropoutBits, ops
from crossgcn.layers import CrossFeatureTransform

BITS = DropoutBits(torch.tensor(9), torch.tensor(4), 1)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("first_is_one", [False, True])
@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_crosses_can_be_differentiated_twice(order: int, release: bool, first_is_one: bool) -> None:
    projections = random(3, 2 * order).requires_grad_()
    weights = random(order, seed=1).requires_grad_()

    def run(projections: Tensor, weights: Tensor) -> Tensor:
        return ops.cross(projections, weights, release, first_is_one)

    assert torch.autograd.gradcheck(run, (projections, weights))
    assert torch.autograd.gradgradcheck(run, (projections, weights))


def test_activated_dropout_can_be_differentiated_twice() -> None:
    x = random(5, 4)
    x[x.abs() < 0.05] = 0.5

    def run(x: Tensor) -> Tensor:
        return ops.drop(x, BITS, 0.5, True) ** 2

    assert torch.autograd.gradgradcheck(run, (x.requires_grad_(),))


def test_transforms_of_torch_func_go_through_a_layer() -> None:
    torch.manual_seed(1)
    layer, x = CrossFeatureTransform(6, 4, 3, order_weights="learned"), random(9, 6).float()
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        out: Tensor = functional_call(layer, weights, (row.unsqueeze(0),))
        return out.square().sum()

    per_row = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    for position, row in enumerate(x):
        own = torch.autograd.grad(layer(row.unsqueeze(0)).square().sum(), list(layer.parameters()))
        for name, gradient in zip(weights, own, strict=True):
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
