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
