"""Adam for weights whose memory order differs from the order of their dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from crossgcn.kernels import has_triton


class Adam:
    r"""PyTorch's fused Adam, on the memory of each weight as it lies.

    ``torch.optim.Adam`` copies a weight with permuted dimensions in every step, and its
    bookkeeping takes longer than the step of a small model. This class passes contiguous views
    of the same memory to the same fused function, or to a Triton kernel on a GPU.

    The decay of ``decayed`` weights adds :math:`\lambda\theta` to the gradient, which is the
    gradient of the objective's penalty :math:`\frac{\lambda}{2}\theta^2`.
    """

    def __init__(
        self,
        decayed: Iterable[Tensor],
        others: Iterable[Tensor],
        *,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        self.learning_rate = learning_rate
        groups = (_Group(decayed, weight_decay), _Group(others, 0.0))
        self.groups = [group for group in groups if group.weights]

    @property
    def weights(self) -> list[Tensor]:
        """The trained weights, in the order in which :meth:`step` takes gradients."""
        return [weight for group in self.groups for weight in group.weights]

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Update the weights in place; a weight without a gradient is not changed."""
        parts = iter(gradients)
        of_groups = [
            (group.weight_decay, group.updates([next(parts) for _ in group.weights]))
            for group in self.groups
        ]
        updates = [(*update, decay) for decay, own in of_groups for update in own]
        if not updates:
            return
        memory, laid_out, means, squares, steps, decays = zip(*updates, strict=True)
        torch._foreach_add_(steps, 1)
        if memory[0].is_cuda and memory[0].dtype == torch.float32 and has_triton():
            from crossgcn.kernels import gpu

            gpu.adam(memory, laid_out, means, squares, steps, self.learning_rate, decays)
            return
        for decay, own in of_groups:
            if own:
                _fused_adam(own, self.learning_rate, decay)

    def states(self) -> Iterator[tuple[Any, ...]]:
        """Yield each weight, its memory, running means and step, and its decay rate."""
        for group in self.groups:
            parts = (group.weights, group.memory, group.means, group.squares, group.steps)
            for state in zip(*parts, strict=True):
                yield *state, group.weight_decay

    def reset(self) -> None:
        """Forget all steps, in place."""
        for group in self.groups:
            for tensor in (*group.steps, *group.means, *group.squares):
                tensor.zero_()


class _Group:
    """Weights of one decay rate, with their running means."""

    def __init__(self, weights: Iterable[Tensor], weight_decay: float) -> None:
        self.weights = list(weights)
        self.weight_decay = weight_decay
        self.orders = [_storage_order(weight) for weight in self.weights]
        pairs = zip(self.weights, self.orders, strict=True)
        self.memory = [weight.detach().permute(order) for weight, order in pairs]
        self.means = [torch.zeros_like(memory) for memory in self.memory]
        self.squares = [torch.zeros_like(memory) for memory in self.memory]
        self.steps = [memory.new_zeros(()) for memory in self.memory]

    def updates(self, gradients: Sequence[Tensor | None]) -> list[tuple[Tensor, ...]]:
        """Return memory, gradient, means and step of each weight that has a gradient."""
        states = zip(self.orders, self.memory, self.means, self.squares, self.steps, strict=True)
        return [
            (memory, gradient.permute(order).contiguous(), *state)
            for gradient, (order, memory, *state) in zip(gradients, states, strict=True)
            if gradient is not None
        ]


@torch.no_grad()
def _fused_adam(
    updates: list[tuple[Tensor, ...]], learning_rate: float, weight_decay: float
) -> None:
    memory, gradients, means, squares, steps = (list(part) for part in zip(*updates, strict=True))
    # What torch.optim.adam.adam calls, after work that takes longer than a small step.
    torch._fused_adam_(
        *(memory, gradients, means, squares, [], steps),
        amsgrad=False,
        lr=learning_rate,
        beta1=0.9,
        beta2=0.999,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )


def _storage_order(tensor: Tensor) -> tuple[int, ...]:
    """Return the dimensions from the largest stride to the smallest."""
    strides = tensor.stride()
    return tuple(sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], dim)))
