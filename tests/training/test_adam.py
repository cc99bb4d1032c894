from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.training.adam import Adam

Gradients = list[Tensor | None]


def weights() -> tuple[list[Tensor], list[Tensor]]:
    """Decayed and other weights; those of more dimensions lie in memory in another order."""
    torch.manual_seed(0)
    decayed: list[Tensor] = [
        nn.Parameter(torch.randn(7, 2, 3, 5).permute(1, 2, 3, 0)),
        nn.Parameter(torch.randn(6, 4).t()),
        nn.Parameter(torch.randn(1, 9, 1).permute(2, 0, 1)),
    ]
    return decayed, [nn.Parameter(torch.randn(11)), nn.Parameter(torch.randn(4, 2).t())]


def random_gradients(adam: Adam, step: int) -> Gradients:
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(weight.shape, generator=generator) for weight in adam.weights]


class Pair:
    """Our Adam and PyTorch's, from the same start."""

    def __init__(self) -> None:
        decayed, others = weights()
        self.ours = Adam(decayed, others, learning_rate=0.03, weight_decay=0.2)
        doubles = [
            [nn.Parameter(weight.detach().double().contiguous()) for weight in group]
            for group in weights()
        ]
        self.twins = [weight for group in doubles for weight in group]
        self.theirs = torch.optim.Adam(
            [
                {"params": doubles[0], "weight_decay": 0.2},
                {"params": doubles[1], "weight_decay": 0.0},
            ],
            lr=0.03,
        )

    def assert_same_step(self, gradients: Sequence[Tensor | None]) -> None:
        self.ours.step(gradients)
        for twin, gradient in zip(self.twins, gradients, strict=True):
            twin.grad = None if gradient is None else gradient.double().contiguous()
        self.theirs.step()
        for weight, twin in zip(self.ours.weights, self.twins, strict=True):
            torch.testing.assert_close(weight.double(), twin, rtol=1e-5, atol=1e-6)


def test_permuted_weights_of_both_decays_take_torchs_steps() -> None:
    pair = Pair()
    for step in range(20):
        pair.assert_same_step(random_gradients(pair.ours, step))


def test_a_weight_without_a_gradient_is_left_alone_and_counts_no_step() -> None:
    pair = Pair()
    for step in range(12):
        gradients = random_gradients(pair.ours, step)
        if step % 3 < 2:
            gradients[step % 2] = None
        gradients[4] = None
        still = pair.ours.weights[4].detach().clone()
        pair.assert_same_step(gradients)
        assert torch.equal(pair.ours.weights[4], still)


def test_gradients_of_any_memory_layout_are_read_right() -> None:
    pair = Pair()
    for step in range(6):
        gradients = random_gradients(pair.ours, step)
        gradients[0] = torch.randn(3, 1, 1).expand(2, 3, 5, 7)
        gradients[1] = torch.randn(()).expand(4, 6)
        gradients[4] = torch.randn(4, 2).t()
        pair.assert_same_step(gradients)


def test_the_steps_are_taken_in_the_memory_of_the_weights() -> None:
    decayed, others = weights()
    before = [(weight.data_ptr(), weight.stride()) for weight in (*decayed, *others)]
    adam = Adam(decayed, others, learning_rate=0.1, weight_decay=0.0)
    views = [weight.detach() for weight in adam.weights]
    start = [view.clone() for view in views]
    adam.step(random_gradients(adam, 0))
    assert [(weight.data_ptr(), weight.stride()) for weight in adam.weights] == before
    for view, old in zip(views, start, strict=True):
        torch.testing.assert_close((view - old).abs(), torch.full_like(old, 0.1))


def test_after_a_reset_the_same_steps_are_taken_again() -> None:
    decayed, others = weights()
    adam = Adam(decayed, others, learning_rate=0.03, weight_decay=0.2)
    start = [weight.detach().clone() for weight in adam.weights]
    ends: list[list[Tensor]] = []
    for _ in range(2):
        for step in range(5):
            adam.step(random_gradients(adam, step))
        ends.append([weight.detach().clone() for weight in adam.weights])
        with torch.no_grad():
            for weight, first in zip(adam.weights, start, strict=True):
                weight.copy_(first)
        adam.reset()
    for one, two in zip(*ends, strict=True):
        assert torch.equal(one, two)


def test_a_group_without_weights_is_no_group() -> None:
    weight = nn.Parameter(torch.ones(3))
    adam = Adam([], [weight], learning_rate=0.5, weight_decay=0.1)
    adam.step([torch.tensor([1.0, -1.0, 2.0])])
    torch.testing.assert_close(weight.detach(), torch.tensor([0.5, 1.5, 0.5]))
