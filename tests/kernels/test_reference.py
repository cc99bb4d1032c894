"""The kernels in plain PyTorch, to which the others are held, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from crossgcn.kernels import reference
from crossgcn.kernels.reference import DropoutBits, keep


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("first_is_one", [False, True])
@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_crosses_are_products(order: int, release: bool, first_is_one: bool) -> None:
    projections = random(5, 3 * order, seed=1)
    weights = random(order, seed=2)
    parts = projections.view(5, order, 3).unbind(1)
    alpha = reference.with_one_first(weights) if first_is_one else weights
    out = torch.zeros_like(parts[0])
    for k in range(order):
        hidden = torch.stack(parts[: k + 1]).prod(0)
        if release and k == 0:
            hidden = torch.stack(parts).sum(0)
        out = out + alpha[k] * hidden
    actual = reference.cross(projections, weights, release, first_is_one)
    torch.testing.assert_close(actual, out)


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("activate", [False, True])
def test_drop_masks_and_scales(activate: bool, p: float) -> None:
    bits, x = DropoutBits(torch.tensor(3), torch.tensor(1), 2), random(60, seed=1)
    out = torch.where(keep(bits, 60, p), x.relu() if activate else x, 0.0) / (1 - p)
    torch.testing.assert_close(reference.drop(x, bits, p, activate), out)
