r"""Order weights, which combine the products of all orders into one vector.

Most choices are a weighted sum :math:`\sum_k \alpha_k \mathbf{h}^k`; the transform holds the
weights. All others are modules that map ``[order, ..., channels]`` to ``[..., channels]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, unknown_name

OrderWeights = str | Sequence[float] | nn.Module
"""A name of :data:`ORDER_WEIGHTS`, one fixed number per order, or a module."""

ORDER_WEIGHTS = ("fixed", "learned", "gated", "per-unit")


def make_order_weights(given: OrderWeights, order: int, channels: int) -> Tensor | nn.Module:
    """Return the initial weights of a sum, ``[order]``, or the module that combines the orders.

    Args:
        given: The argument ``order_weights`` of :class:`~crossgcn.CrossFeatureTransform`.
        channels: Width of the products.
    """
    if isinstance(given, nn.Module):
        return given
    if not isinstance(given, str):
        return _check_numbers(given, order)
    if given not in ORDER_WEIGHTS:
        others = (f"a list of {order} numbers", "a module")
        raise unknown_name("order_weights", given, [*ORDER_WEIGHTS, *others])
    if order > 1 and given == "per-unit":
        return PerUnit(order, channels)
    weights = torch.ones(order)
    if given == "gated":
        weights[1:] = 0.0
    return weights


def _check_numbers(given: Sequence[float], order: int) -> Tensor:
    try:
        weights = torch.tensor([float(weight) for weight in given])
    except (TypeError, ValueError):
        weights = torch.empty(0)
    if weights.numel() != order or not torch.isfinite(weights).all():
        raise BadInput(
            f"order_weights of a layer of order {order} must be a name, a module, or {order} "
            f"finite number{'s' if order > 1 else ''}, one per order; got {given!r}"
        )
    return weights


class PerUnit(nn.Module):
    r"""A trained weight for each order and output unit; ``"gated"`` has one per order.

    .. math:: \mathbf{z} = \mathbf{h}^1 + \sum_{k\ge2} \boldsymbol{\alpha}_k \odot \mathbf{h}^k

    All start at 0, so training starts as a linear layer. The parameter is a vector, order after
    order, because weight decay applies to matrices and not to vectors (NOTE[D5]).
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.gates = nn.Parameter(torch.zeros((order - 1) * channels))

    def reset_parameters(self) -> None:
        """Set all weights to 0."""
        nn.init.zeros_(self.gates)

    def forward(self, hidden: Tensor | Sequence[Tensor]) -> Tensor:
        """Sum the orders."""
        out = hidden[0]
        for gate, crossed in zip(self.gates.view(-1, self.channels), hidden[1:], strict=True):
            out = out + gate * crossed
        return out

    def order_weights(self) -> Tensor:
        r"""Return the weights of all orders, ``[order, channels]``; those of the first are 1."""
        gates = self.gates.view(-1, self.channels)
        return torch.cat([torch.ones_like(gates[:1]), gates])
