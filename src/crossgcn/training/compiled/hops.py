"""Training passes of cross-hops by the CPU's compiled kernels, without autograd.

A batch is a few hundred rows, so PyTorch spends more time between its operations than in them.
The products with all columns, exponentials and logarithms are PyTorch's; the crosses, the readout
of each bag and their gradients are loops. Results are those of autograd but for rounding.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.sampling.source import Features
from crossgcn.kernels import has_numba
from crossgcn.kernels.cpu import drop, hop_loops
from crossgcn.kernels.cpu.loops import call
from crossgcn.layers.orders import WeightsPerUnit
from crossgcn.models.cross_hops import BagReadout, CrossHops
from crossgcn.training.adam import Adam
from crossgcn.training.compiled.network import flat, update_weights

__all__ = ["HopPasses"]


class HopPasses:
    """The passes of a model, and the steps of its optimiser.

    Arrays are kept from one batch to the next: scores are valid until the next forward pass.

    Args:
        model: Its weights are read where they are, and changed there by :meth:`update`.

    Attributes:
        gradients: Of each parameter of the model, filled by :meth:`backward`.
    """

    def __init__(self, model: CrossHops) -> None:
        transform, readout = model.transform, model.readout
        self.bags, self.order = model.bags, model.order
        self.units, self.classes = transform.out_channels, readout.out_channels
        self._dropout, self._draws = model.input_dropout, model.input_dropout.draws()
        self.gradients: dict[Tensor, Tensor] = {
            each: torch.empty_like(each).detach() for each in model.parameters()
        }
        gates = torch.empty(0)
        if isinstance(transform.aggregator, WeightsPerUnit):
            gates = transform.aggregator.gates
        # Views of the weights and their gradients, as the loops take them.
        self._projection = transform.weight.detach().flatten(0, 1)
        self._grad_projection = self.gradients[transform.weight].flatten(0, 1)
        weights = (gates, readout.weight, readout.bias)
        self._readout = self._arrays(*weights)
        self._grad_readout = self._arrays(*(self.gradients.get(each, each) for each in weights))
        self._seen = self._projections = self._gradient = self._scores = torch.empty(0)
        self._updates: list[tuple[Any, ...]] | None = None

    @classmethod
    def of(cls, model: torch.nn.Module) -> HopPasses | None:
        """Return the passes of a model; ``None`` if it is another, or has foreign code in it."""
        if type(model) is not CrossHops or not has_numba():
            return None
        aggregator = model.transform.aggregator
        usual = (
            (aggregator is None if model.order == 1 else type(aggregator) is WeightsPerUnit)
            and type(model.readout) is BagReadout
            and model.transform.projection_scale is None
            and model.transform.first_order != "release"
            and not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
            and all(
                p.requires_grad and p.dtype == torch.float32 and p.is_contiguous()
                for p in model.parameters()
            )
        )
        return cls(model) if usual else None

    @staticmethod
    def takes(x: Features) -> TypeGuard[Tensor]:
        """Whether these rows can be computed: dense ones in float32."""
        return not isinstance(x, SparseMatrix) and x.dtype == torch.float32

    def forward(self, x: Tensor) -> Tensor:
        """Return what the model returns in training mode."""
        if self._draws is not None and self._dropout.p > 0:
            x = drop(x, None, self._draws, self._dropout.p, activate=False)
        else:
            self._dropout.training = True
            x = self._dropout(x)
        shape = (self.order, self.units, len(x))
        if self._projections.shape != shape:
            self._projections, self._gradient = torch.empty(shape), torch.empty(shape)
            self._scores = torch.empty(self.bags, self.classes, len(x))
        torch.mm(self._projection, x.t(), out=self._projections.flatten(0, 1))
        given = (self._projections.numpy(), *self._readout, self._scores.numpy())
        call(hop_loops.score_units, self._projections.numel(), *given)
        self._seen = x
        scores = self._scores.transpose(1, 2)
        return scores if self.bags > 1 else scores[0]

    def backward(self, slope: Tensor) -> None:
        """Compute the gradients, given that of the scores of the last forward pass."""
        x, projections = self._seen, self._projections
        slope = slope.reshape(self.bags, len(x), self.classes).transpose(1, 2).contiguous()
        given = (slope.numpy(), projections.numpy(), *self._readout[:2])
        filled = (self._gradient.numpy(), *self._grad_readout)
        call(hop_loops.score_units_backward, projections.numel(), *given, *filled)
        # The product in this order is faster than its transpose.
        self._grad_projection.copy_(x.t().mm(self._gradient.flatten(0, 1).t()).t())

    def _arrays(self, gates: Tensor, weight: Tensor, bias: Tensor) -> tuple[Any, Any, Any]:
        return (
            gates.detach().view(self.order - 1, self.units).numpy(),
            weight.detach().numpy(),
            bias.detach().view(self.bags, self.classes).numpy(),
        )

    def update(self, optimizer: Adam) -> None:
        """Do a step of Adam with these gradients."""
        if self._updates is None:
            self._updates = [
                (step.numpy(), *map(flat, (*memory, self.gradients[weight])), np.float32(decay))
                for weight, *memory, step, decay in optimizer.states()
            ]
        for step, *memory, gradient, decay in self._updates:
            step += 1
            number = float(step)
            step_size = np.float32(optimizer.learning_rate / (1.0 - 0.9**number))
            correction = np.float32((1.0 - 0.999**number) ** -0.5)
            update_weights(memory, gradient, (step_size, correction, decay))


def score_bags(
    scores: Tensor, labels: Tensor, in_bag: Tensor, count: float, totals: Tensor
) -> Tensor:
    """Return the gradient, for the scores, of the cross-entropy of the nodes of each bag.

    Args:
        scores: ``[bags, nodes, classes]``, from :meth:`HopPasses.forward`.
        count: By which the sums over the nodes are divided.

    The others are those of :func:`~crossgcn.kernels.cpu.hop_loops.score_bags`.
    """
    log_chances = scores.detach().transpose(1, 2).log_softmax(dim=1)
    slope = log_chances.exp()
    arrays = (each.numpy() for each in (log_chances, slope, labels, in_bag))
    hop_loops.score_bags(*arrays, np.float32(count), totals.numpy())
    return slope.transpose(1, 2)
