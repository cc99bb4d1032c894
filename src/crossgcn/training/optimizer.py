"""The optimizer of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class AdamState(NamedTuple):
    """A weight with what Adam keeps of it.

    Attributes:
        memory: The weight as it lies in memory; ``mean`` and ``square`` lie alike.
        mean: Running mean of the gradients.
        square: Running mean of their squares.
        step: Number of steps, a tensor.
        decay: Rate of the weight decay.
    """

    weight: Tensor
    memory: Tensor
    mean: Tensor
    square: Tensor
    step: Tensor
    decay: float


class Optimizer:
    r"""PyTorch's fused Adam, with weight decay of matrices; frozen weights are left out.

    It updates the memory of each weight as it lies: ``torch.optim.Adam`` copies a weight with
    permuted dimensions in every step. Decay adds :math:`\lambda\theta` to the gradient, which is
    the gradient of the penalty :math:`\frac{\lambda}{2}\theta^2`.

    Attributes:
        weights: The trained weights, in the order in which :meth:`step` takes gradients.
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float) -> None:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        matrices = [weight for weight in trained if weight.dim() >= 2]
        others = [weight for weight in trained if weight.dim() < 2]
        self.learning_rate = learning_rate
        self.weights = [*matrices, *others]
        self._orders = [_storage_order(weight) for weight in self.weights]
        self._memory = [
            weight.detach().permute(order)
            for weight, order in zip(self.weights, self._orders, strict=True)
        ]
        self._decays = [weight_decay] * len(matrices) + [0.0] * len(others)
        count = len(matrices)
        groups = [
            {"params": self._memory[:count], "weight_decay": weight_decay},
            {"params": self._memory[count:], "weight_decay": 0.0},
        ]
        self._adam = torch.optim.Adam(
            [group for group in groups if group["params"]],
            lr=learning_rate,
            fused=True,
            capturable=any(weight.is_cuda for weight in trained),
        )
        for memory in self._memory:
            self._adam.state[memory] = {
                "step": torch.zeros((), device=memory.device),
                "exp_avg": torch.zeros_like(memory),
                "exp_avg_sq": torch.zeros_like(memory),
            }

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Update the weights in place; a weight without a gradient is not changed."""
        for memory, order, gradient in zip(self._memory, self._orders, gradients, strict=True):
            memory.grad = None if gradient is None else gradient.permute(order).contiguous()
        self._adam.step()

    def states(self) -> Iterator[AdamState]:
        """Yield what belongs to each weight."""
        for weight, memory, decay in zip(self.weights, self._memory, self._decays, strict=True):
            state = self._adam.state[memory]
            of_steps = state["exp_avg"], state["exp_avg_sq"], state["step"]
            yield AdamState(weight, memory, *of_steps, decay)


def _storage_order(tensor: Tensor) -> tuple[int, ...]:
    """Return the dimensions from the largest stride to the smallest."""
    strides = tensor.stride()
    return tuple(sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], dim)))
