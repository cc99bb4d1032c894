"""Cross the projections of a row, and sum the orders with one weight each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.layers.feature_transform import reset_parameters


class OrderSum:
    """A sum of the orders with one weight each; the transform holds the weights.

    Subclasses implement :meth:`initial`.

    Attributes:
        trained: Whether the weights from the second on are trained. The first one is then 1.
        decayed: Whether trained weights are part of the weight decay (NOTE[D5]).
    """

    trained = False
    decayed = False

    def __init__(self, order: int) -> None:
        self.order = order

    def initial(self) -> Tensor:
        """Return the weights that training starts from, ``[order]``."""
        raise NotImplementedError


class FixedSum(OrderSum):
    """All weights are 1."""

    def initial(self) -> Tensor:
        """Return ones."""
        return torch.ones(self.order)


class LearnedSum(FixedSum):
    """Weights are trained from 1 and decayed."""

    trained = True
    decayed = True


class GatedSum(OrderSum):
    """Weights are trained from 0, except for the first, so training starts as a linear layer."""

    trained = True

    def initial(self) -> Tensor:
        """Return a one and zeros."""
        return torch.eye(self.order)[0].clone()


class MeanOfOrders(OrderSum):
    """All weights are 1/K."""

    def initial(self) -> Tensor:
        """Return the same fraction for every order."""
        return torch.full((self.order,), 1.0 / self.order)


class GivenSum(OrderSum):
    """Weights are a user's numbers and are not trained."""

    def __init__(self, weights: Sequence[float], order: int) -> None:
        super().__init__(order)
        try:
            self.weights = torch.tensor([float(weight) for weight in weights])
        except (TypeError, ValueError):
            self.weights = torch.empty(0)
        if self.weights.numel() != order or not torch.isfinite(self.weights).all():
            raise BadInput(
                f"order_weights of a layer of order {order} is a name or {order} finite "
                f"number{'s' if order > 1 else ''}, one per order; got {weights!r}"
            )

    def initial(self) -> Tensor:
        """Return the numbers."""
        return self.weights.clone()


class OrderAggregator(nn.Module):
    """Aggregate the K hidden vectors of a row into one of the same width.

    Subclasses implement :meth:`forward`. One whose output is a sum of the orders, with a weight
    for each order and output unit, also implements :meth:`order_weights`: ``explain`` then
    reads it.

    Attributes:
        channels: Width of the hidden vectors.
        stackable: Whether its parameters may have a first dimension of models, which its inputs
            then have too.
        capturable: Whether a CUDA graph can record it: it never waits for a number from the GPU.
        kept_copies: Estimate of how many times it keeps the hidden vectors for backward.
        changes_a_single_order: Whether it is also used with ``order=1``.
        refusal: Why ``explain`` refuses it, after "layer 1 ...".
    """

    stackable = True
    capturable = True
    kept_copies = 2
    changes_a_single_order = False
    refusal = "aggregates its orders by something else than a sum"

    def __init__(self, order: int, channels: int) -> None:
        super().__init__()
        self.order = order
        self.channels = channels

    def reset_parameters(self) -> None:
        """Set own parameters to 0 and draw those of submodules."""
        reset_parameters(self)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Aggregate K tensors ``[..., nodes, channels]`` into one."""
        raise NotImplementedError

    def order_weights(self) -> Tensor | None:
        """Return the weights of a sum, ``[order, channels]``; ``None`` if it is no such sum."""
        return None

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return f"order={self.order}, channels={self.channels}"


def cross_and_sum(projections: Tensor, order_weights: Tensor, release: bool) -> Tensor:
    r"""Multiply up the projections and sum the orders, :math:`\sum_k \alpha_k \mathbf{h}^k`.

    Args:
        projections: ``[..., order * channels]``, one order after the other; with weights
            per model, ``[models, rows, order * channels]``.
        order_weights: :math:`\alpha`, ``[order]`` or ``[models, order]``.
        release: Use the sum of all projections as the first order (NOTE[D2]).
    """
    shape = projections.shape
    if order_weights.dim() == 1:
        order_weights = order_weights.unsqueeze(0)
        projections = projections.reshape(1, -1, shape[-1])
    out = kernels.cross(projections, order_weights, release)
    return out.view(*shape[:-1], out.size(-1))
