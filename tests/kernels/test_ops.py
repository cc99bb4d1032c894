"""Where the kernels step aside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from crossgcn.kernels import ops


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_large_projection_and_its_gradient_are_those_of_a_small_one(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, grad_out = torch.randn(60, 31, dtype=dtype), torch.randn(60, 12, dtype=dtype)
    weight = torch.randn(12, 31, dtype=dtype, requires_grad=True)
    monkeypatch.setattr(ops, "_LARGE_PRODUCT", 0)
    projected = ops.project(x, weight)
    projected.backward(grad_out)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(projected, x @ weight.t(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weight.grad, grad_out.t() @ x, rtol=1e-4, atol=1e-4)
    x.requires_grad_()
    assert torch.autograd.grad(ops.project(x, weight).sum(), x)[0].shape == x.shape
