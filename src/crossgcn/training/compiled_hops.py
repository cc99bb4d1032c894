"""Training passes of cross-hops by the CPU's compiled kernels, without autograd.

A batch has a few hundred rows, so PyTorch's overhead per operation would exceed the computation.
PyTorch multiplies matrices and computes exponentials and logarithms; compiled loops compute the
crosses, the readout of each bag and their gradients. Results equal autograd's up to rounding.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crossgcn.kernels import cpu_hop_loops as hop_loops
from crossgcn.kernels.cpu_loops import call, drop
from crossgcn.kernels.ops import is_large_product, multiply_large
from crossgcn.layers.order_weights import PerUnit
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.compiled_network import Array, flat


class HopPasses:
    """Forward and backward passes of a model on batches of dense rows.

    Arrays are reused from batch to batch: scores, and the gradient that :meth:`score_bags`
    returns, are valid until the next forward pass.

    Args:
        model: The model whose weights are read in place.

    Attributes:
        gradients: The gradient of each parameter, filled by :meth:`backward`.
    """

    def __init__(self, model: CrossHops) -> None:
        transform, readout = model.transform, model.readout
        self.bags, self.order = model.bags, model.order
        self.units, self.classes = transform.out_channels, readout.out_channels
        self._dropout = model.dropout
        self.gradients: dict[Tensor, Array] = {
            weight: np.empty(weight.shape, dtype=np.float32) for weight in model.parameters()
        }
        # Views of the weights and their gradients, in the shapes that the loops take.
        self._projection = transform.weight.detach().flatten(0, 1)
        self._grad_projection = self.gradients[transform.weight].reshape(self._projection.shape)
        self._product = torch.empty(self._projection.t().shape)
        no_gates = np.empty((0, self.units), dtype=np.float32)
        gates = no_gates, no_gates
        if isinstance(transform.aggregator, PerUnit):
            gates = self._views(transform.aggregator.gates, self.order - 1, self.units)
        weight = self._views(readout.weight, self.classes, self.units)
        bias = self._views(readout.bias, self.bags, self.classes)
        self._readout, self._grad_readout = zip(gates, weight, bias, strict=True)
        self._allocate(0, len(self._product))

    def _views(self, parameter: Tensor, *shape: int) -> tuple[Array, Array]:
        """Return views of a parameter and its gradient in another shape."""
        return parameter.detach().numpy().reshape(shape), self.gradients[parameter].reshape(shape)

    def _allocate(self, rows: int, columns: int) -> None:
        """Allocate arrays for batches of this shape, and set the arguments of the loops."""
        self._dropped = torch.empty(rows, columns)
        self._is_large = is_large_product(self._projection, self._dropped)
        projections, gradient = (torch.empty(self.order, self.units, rows) for _ in range(2))
        self._projections, self._gradient = projections.flatten(0, 1), gradient.flatten(0, 1)
        self._scores, self._log_probabilities, self._grad_scores = (
            torch.empty(self.bags, self.classes, rows) for _ in range(3)
        )
        given, grad_scores = (projections.numpy(), *self._readout), self._grad_scores.numpy()
        self._forward = (*given, self._scores.numpy())
        self._loss = (self._log_probabilities.numpy(), grad_scores)
        self._backward = (grad_scores, *given[:3], gradient.numpy(), *self._grad_readout)
        self._returned = [each.transpose(1, 2) for each in (self._scores, self._grad_scores)]

    def forward(self, x: Tensor) -> Tensor:
        """Return what the model returns in training mode."""
        if x.shape != self._dropped.shape:
            self._allocate(*x.shape)
        if self._dropout.p > 0:
            bits = self._dropout.bits()
            assert bits is not None, "a step decides which entries are dropped"
            entries, key = flat(x.contiguous()), (int(bits.seed), int(bits.step))
            drop(entries, entries, flat(self._dropped), key, self._dropout.p, site=bits.site)
            x = self._dropped
        self._inputs = x
        if self._is_large:
            self._projections.copy_(multiply_large(self._projection, x))
        else:
            torch.mm(self._projection, x.t(), out=self._projections)
        call(hop_loops.score_units, self._projections.numel(), *self._forward)
        return self._returned[0] if self.bags > 1 else self._returned[0][0]

    def score_bags(self, labels: Tensor, in_bag: Tensor, count: float, totals: Tensor) -> Tensor:
        """Return the gradient of each bag's cross-entropy with respect to the last scores.

        Sums over nodes are divided by ``count``. For the other arguments see
        :func:`~crossgcn.kernels.cpu_hop_loops.score_bags`.
        """
        torch.log_softmax(self._scores, dim=1, out=self._log_probabilities)
        torch.exp(self._log_probabilities, out=self._grad_scores)
        given = (labels.numpy(), in_bag.numpy(), np.float32(count), totals.numpy())
        hop_loops.score_bags(*self._loss, *given)
        return self._returned[1]

    def backward(self, grad_scores: Tensor) -> None:
        """Compute the gradients of the weights, given the gradient of the last scores."""
        if grad_scores is not self._returned[1]:
            self._returned[1].copy_(grad_scores)
        call(hop_loops.score_units_backward, self._projections.numel(), *self._backward)
        inputs, gradient = self._inputs.t(), self._gradient
        if self._is_large:
            self._grad_projection[:] = multiply_large(gradient, inputs).numpy()
        else:  # multiplying in this order is faster than computing the transpose
            torch.mm(inputs, gradient.t(), out=self._product)
            self._grad_projection[:] = self._product.numpy().T
