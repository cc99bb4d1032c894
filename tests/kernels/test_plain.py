"""The plain kernels, to which the compiled ones are held, against autograd in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from crossgcn.kernels import plain
from crossgcn.kernels.draws import Draws, keep

NO_NODE = -100


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_gradients_of_crosses_are_those_of_autograd(order: int, release: bool) -> None:
    projections = random(2, 5, 3 * order, seed=1).requires_grad_()
    weights = random(2, order, seed=2).requires_grad_()
    gradient = random(2, 5, 3, seed=3)
    parts = projections.view(2, 5, order, 3).unbind(2)
    out = torch.zeros_like(parts[0])
    for k in range(order):
        hidden = torch.stack(parts[: k + 1]).prod(0)
        if release and k == 0:
            hidden = torch.stack(parts).sum(0)
        out = out + weights[:, k, None, None] * hidden
    torch.testing.assert_close(plain.cross(projections, weights, release), out)
    expected = torch.autograd.grad(out, (projections, weights), gradient)
    actual = plain.cross_backward(gradient, projections, weights, release, True)
    torch.testing.assert_close(actual, expected)
    gated = plain.cross(projections, plain.with_one_first(weights), release)
    torch.testing.assert_close(plain.cross(projections, weights, release, True), gated)
    expected = torch.autograd.grad(gated, (projections, weights), gradient)
    actual = plain.cross_backward(gradient, projections, weights, release, True, True)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("activate", [False, True])
def test_drop_masks_and_scales_and_its_gradient_is_that_of_autograd(
    activate: bool, p: float
) -> None:
    draws = Draws(torch.tensor([3, 4]), torch.tensor(1), 2)
    starts, x = torch.tensor([0, 7, 60]), random(60, seed=1).requires_grad_()
    kept = keep(draws, starts, 60, p).bool()
    out = torch.where(kept, x.relu() if activate else x, 0.0) / (1 - p)
    torch.testing.assert_close(plain.drop(x, starts, draws, p, activate), out)
    gradient = random(60, seed=2)
    (expected,) = torch.autograd.grad(out, x, gradient)
    actual = plain.drop_backward(gradient, x, starts, draws, p, activate)
    torch.testing.assert_close(actual, expected)


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    classes=st.integers(1, 6),
    more=st.integers(0, 3),
    seed=st.integers(0, 2**16),
)
def test_scores_are_judged_as_torch_does_model_by_model(
    counts: list[int], classes: int, more: int, seed: int
) -> None:
    """Rows that are no node and outputs that are no score may hold anything."""
    models, rows = len(counts), max(counts)
    scores = random(models, rows, classes + more, seed=seed)
    labels = torch.full((models, rows), NO_NODE)
    for model, count in enumerate(counts):
        generator = torch.Generator().manual_seed(seed + model)
        labels[model, :count] = torch.randint(classes, (count,), generator=generator)
        scores[model, count:] = float("nan")
    losses, accuracies, gradient = plain.score(scores, labels, torch.tensor(counts), classes)
    expected = torch.zeros_like(scores)
    for model, count in enumerate(counts):
        own = scores[model, :count, :classes].clone().requires_grad_()
        loss = functional.cross_entropy(own, labels[model, :count])
        (expected[model, :count, :classes],) = torch.autograd.grad(loss, own)
        torch.testing.assert_close(losses[model], loss.detach())
        right = int((own.argmax(1) == labels[model, :count]).sum())
        assert float(accuracies[model]) == right / count
    torch.testing.assert_close(gradient, expected)
