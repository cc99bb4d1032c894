"""The optimizer of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class AdamState(NamedTuple):
    """A weight with what Adam keeps of it.

    Attributes:
        memory: The weight as it lies in memory; ``mean`` and ``square`` lie alike.
        order: The dimensions of the weight in that order.
        mean: Running mean of the gradients.
        square: Running mean of their squares.
        step: Number of steps, a tensor.
        decay: Rate of the weight decay.
    """

    weight: Tensor
    memory: Tensor
    order: tuple[int, ...]
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
        states: What belongs to each of them.
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float) -> None:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        matrices = [weight for weight in trained if weight.dim() >= 2]
        others = [weight for weight in trained if weight.dim() < 2]
        self.learning_rate, self.weights = learning_rate, [*matrices, *others]
        self.states = [_state(weight, weight_decay) for weight in matrices]
        self.states += [_state(weight, 0.0) for weight in others]
        memory = [state.memory for state in self.states]
        groups = [
            {"params": memory[: len(matrices)], "weight_decay": weight_decay},
            {"params": memory[len(matrices) :], "weight_decay": 0.0},
        ]
        self._adam = torch.optim.Adam(
            [group for group in groups if group["params"]],
            lr=learning_rate,
            fused=True,
            capturable=any(weight.is_cuda for weight in trained),
        )
        for state in self.states:
            kept = {"step": state.step, "exp_avg": state.mean, "exp_avg_sq": state.square}
            self._adam.state[state.memory] = kept

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Update the weights in place; a weight without a gradient is not changed."""
        for state, gradient in zip(self.states, gradients, strict=True):
            state.memory.grad = (
                None if gradient is None else gradient.permute(state.order).contiguous()
            )
        self._adam.step()


def _state(weight: Tensor, decay: float) -> AdamState:
    strides = weight.stride()
    order = tuple(sorted(range(weight.dim()), key=lambda dim: (-strides[dim], dim)))
    memory = weight.detach().permute(order)
    mean, square = torch.zeros_like(memory), torch.zeros_like(memory)
    step = torch.zeros((), device=memory.device)
    return AdamState(weight, memory, order, mean, square, step, decay)
