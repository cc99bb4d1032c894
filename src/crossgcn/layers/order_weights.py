r"""Weights of the orders: how the products of all orders become one vector.

Most choices are a weighted sum :math:`\sum_k \alpha_k \mathbf{h}^k`, whose weights the transform
holds (:class:`OrderSum`). All others are modules that map ``[order, ..., channels]`` to
``[..., channels]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, unknown_name

OrderWeights = str | Sequence[float] | nn.Module
"""A name of :data:`ORDER_WEIGHTS`, one fixed number per order, or a module."""

ORDER_WEIGHTS = ("fixed", "learned", "gated", "per-unit")


class OrderSum(NamedTuple):
    """A sum of the orders with one weight each.

    Attributes:
        initial: The weights that training starts from, ``[order]``.
        trained: Whether the weights from the second on are trained. The first one is then 1.
        decayed: Whether trained weights are part of the weight decay (NOTE[D5]).
    """

    initial: Tensor
    trained: bool = False
    decayed: bool = False


def make_order_weights(given: OrderWeights, order: int, channels: int) -> OrderSum | nn.Module:
    """Return what ``order_weights`` of a transform stands for.

    Args:
        given: The argument, see :class:`~crossgcn.CrossFeatureTransform`.
        channels: Width of the products.
    """
    if isinstance(given, nn.Module):
        return given
    if not isinstance(given, str):
        return OrderSum(_check_numbers(given, order))
    if given not in ORDER_WEIGHTS:
        others = (f"a list of {order} numbers", "a module")
        raise unknown_name("order_weights", given, [*ORDER_WEIGHTS, *others])
    if order > 1 and given == "per-unit":
        return PerUnit(order, channels)
    if given == "gated":
        return OrderSum(torch.eye(order)[0].clone(), trained=order > 1)
    learned = given == "learned" and order > 1
    return OrderSum(torch.ones(order), trained=learned, decayed=learned)


def _check_numbers(given: Sequence[float], order: int) -> Tensor:
    try:
        weights = torch.tensor([float(weight) for weight in given])
    except (TypeError, ValueError):
        weights = torch.empty(0)
    if weights.numel() != order or not torch.isfinite(weights).all():
        raise BadInput(
            f"order_weights of a layer of order {order} is a name, a module, or {order} finite "
            f"number{'s' if order > 1 else ''}, one per order; got {given!r}"
        )
    return weights


class PerUnit(nn.Module):
    r"""A trained weight for each order and output unit; ``"gated"`` has one per order.

    .. math:: \mathbf{z} = \mathbf{h}^1 + \sum_{k\ge2} \boldsymbol{\alpha}_k \odot \mathbf{h}^k

    All start at 0, so training starts as a linear layer. They form one vector, order after
    order, because weight decay applies to matrices and not to vectors (NOTE[D5]).
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__()
        self.order, self.channels = order, channels
        self.gates = nn.Parameter(torch.empty((order - 1) * channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weights from the second order on to 0."""
        nn.init.zeros_(self.gates)

    def forward(self, hidden: Tensor | Sequence[Tensor]) -> Tensor:
        """Sum the orders."""
        out = hidden[0]
        for gate, crossed in zip(self.gates.view(-1, self.channels), hidden[1:], strict=True):
            out = out + gate * crossed
        return out

    def order_weights(self) -> Tensor:
        r"""Return :math:`\boldsymbol{\alpha}`, ``[order, channels]``."""
        gates = self.gates.view(-1, self.channels)
        return torch.cat([torch.ones_like(gates[:1]), gates])
