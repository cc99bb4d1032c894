"""One training step of one model by the CPU's compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from crossgcn.kernels.cpu import loops as cpu_loops
from crossgcn.kernels.cpu.loops import call
from crossgcn.training.adam import Adam
from crossgcn.training.compiled.blocked_features import BlockedFeatures
from crossgcn.training.compiled.network import CompiledNetwork
from crossgcn.training.objective import Objective

Array = Any


class CompiledStep:
    """Forward, backward and Adam, on the same weights and running means as the PyTorch step.

    Args:
        objective: Of a single stacked model that can be compiled.
        seed: Decides the dropped entries.
    """

    def __init__(self, objective: Objective, optimizer: Adam, seed: int) -> None:
        self.seed = seed
        self.weight_decay = objective.weight_decay
        self.learning_rate = optimizer.learning_rate
        self.network = CompiledNetwork(objective.model, objective.targets)
        places: dict[int, tuple[Any, str]] = {}
        for layer, own in zip(objective.model.layers, self.network.layers, strict=True):
            places[id(own.transform.weight)] = (own, "grad_weight")
            places[id(layer.bias)] = (own, "grad_bias")
            places[id(own.transform.order_weights)] = (own, "grad_order_weights")
        self.updates = [
            (
                *(_flat(tensor) for tensor in (memory, mean, square)),
                places[id(weight)],
                np.float32(group.weight_decay),
            )
            for group in optimizer.groups
            for weight, memory, mean, square in zip(
                group.weights, group.memory, group.means, group.squares, strict=True
            )
        ]

    def __call__(self, step: int) -> tuple[float, int]:
        """Do one step, counted from 1; return the loss and the number of correct predictions."""
        with np.errstate(all="ignore"):
            return self._step((self.seed, step), step)

    def _step(self, key: tuple[int, int], step: int) -> tuple[float, int]:
        self.network.forward(key)
        result = self.network.loss()
        self.network.backward(key)
        for layer in self.network.layers:
            if layer.trained_order_weights and layer.transform.decays_order_weights:
                layer.grad_order_weights[1:] += self.weight_decay * layer.order_weights[0, 1:]
        step_size = np.float32(self.learning_rate / (1.0 - 0.9**step))
        correction = np.float32((1.0 - 0.999**step) ** -0.5)
        for *memory, (layer, name), decay in self.updates:
            rates = (step_size, correction, decay)
            if name == "grad_weight" and layer is self.network.layers[0] and self.network.is_wide:
                self._update_in_blocks(layer, memory, rates)
            else:
                _adam(memory, getattr(layer, name), rates)
        return result

    def _update_in_blocks(self, layer: Any, memory: list[Array], rates: tuple[Any, ...]) -> None:
        source, width = self.network.source, layer.weight.shape[1]
        assert isinstance(source, BlockedFeatures)

        def update(first: int, last: int, gradient: Array) -> None:
            here = slice(first * width, last * width)
            _adam([array[here] for array in memory], gradient, rates)

        source.each_gradient(layer.grad_projections, update)


def _adam(memory: list[Array], gradient: Array, rates: tuple[Any, ...]) -> None:
    weight, mean, square = memory
    call(cpu_loops.adam, weight.size, weight, gradient.reshape(-1), mean, square, *rates)


def _flat(tensor: Tensor) -> Array:
    return tensor.detach().view(-1).numpy()
