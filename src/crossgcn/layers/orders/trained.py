"""Aggregations of the K orders that are more than K numbers, each with parameters of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn


class OrderAggregator(nn.Module):
    """From K hidden vectors of a row to one as wide.

    Args:
        order: K.
        channels: Width of the hidden vectors.

    Attributes:
        stackable: Whether its parameters may lie behind a first dimension, one entry per
            model, along which its inputs then have one too.
        capturable: Whether its steps can be recorded as a CUDA graph: none waits for a
            number that the GPU computes.
    """

    stackable = True
    capturable = True

    def __init__(self, order: int, channels: int) -> None:
        super().__init__()
        self.order = order
        self.channels = channels

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        raise NotImplementedError

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Aggregate K tensors ``[..., nodes, channels]`` into one."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of it."""
        return f"order={self.order}, channels={self.channels}"


class WeightsPerUnit(OrderAggregator):
    r"""A weight for each order and each output unit, where ``"gated"`` has one per order.

    .. math:: \mathbf{z} = \mathbf{h}^1 + \sum_{k\ge2} \boldsymbol{\alpha}_k \odot \mathbf{h}^k

    All start at 0, so training starts as a linear layer. They are kept as one vector, order
    after order: a vector, unlike a matrix, is not decayed, and each weight should grow or not
    by its own merit.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.gates = nn.Parameter(torch.empty((order - 1) * channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Close all gates."""
        nn.init.zeros_(self.gates)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Sum the orders, unit by unit."""
        first, *others = hidden
        out = first
        for gate, crossed in zip(self._by_order().unbind(-2), others, strict=True):
            out = out + gate.unsqueeze(-2) * crossed
        return out

    def order_weights(self) -> Tensor:
        r""":math:`\boldsymbol{\alpha}` as it enters the sum, ``[order, channels]``."""
        gates = self._by_order()
        return torch.cat([torch.ones_like(gates[..., :1, :]), gates], dim=-2)

    def _by_order(self) -> Tensor:
        return self.gates.reshape(*self.gates.shape[:-1], self.order - 1, self.channels)


class AttentionOverOrders(OrderAggregator):
    r"""Each row decides how much each of its orders counts.

    .. math:: \mathbf{z} = \sum_k a_k \mathbf{h}^k, \qquad
        a = \operatorname{softmax}_k\!\left(
        \frac{\mathbf{q}^{\top}\mathbf{h}^k}{\sqrt{E}} + c_k\right)

    Scaled dot-product attention with one learned query for all rows and an offset per order,
    which keeps orders apart whose vectors look alike. Both start at 0, where this is the mean
    of the orders.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.query = nn.Parameter(torch.empty(channels))
        self.offset = nn.Parameter(torch.empty(order))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Let all orders count alike."""
        nn.init.zeros_(self.query)
        nn.init.zeros_(self.offset)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Average the orders of each row, by its own weights."""
        orders = torch.stack(list(hidden), dim=-2)
        query = self.query[..., None, None, :] / sqrt(self.channels)
        scores = (orders * query).sum(dim=-1) + self.offset.unsqueeze(-2)
        return (scores.softmax(dim=-1).unsqueeze(-1) * orders).sum(dim=-2)


class ConcatenatedOrders(OrderAggregator):
    r"""All orders side by side, mapped back to the width of one.

    .. math:: \mathbf{z} = \mathbf{C}\,[\mathbf{h}^1; \dots; \mathbf{h}^K]

    :math:`\mathbf{C}` starts as the identity on the first order and zero on the others, so
    training starts as a linear layer. It is a matrix and decayed like one.
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.weight = nn.Parameter(torch.empty(channels, order * channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Take the first order as it is, and nothing of the others."""
        nn.init.eye_(self.weight)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Map each row's orders together."""
        return torch.cat(list(hidden), dim=-1) @ self.weight.mT


class LSTMOverOrders(OrderAggregator):
    """The paper's other suggestion: read the K hidden vectors as a sequence.

    A linear read-out follows the last state, because an LSTM's own output
    never leaves (-1, 1) and could not serve as logits.
    """

    stackable = False

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.lstm = nn.LSTM(channels, channels, batch_first=True)
        self.read_out = nn.Linear(channels, channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.lstm.reset_parameters()
        self.read_out.reset_parameters()

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Read the orders first to last."""
        sequences = torch.stack(list(hidden), dim=-2)
        states, _ = self.lstm(sequences.flatten(0, -3))
        aggregated: Tensor = self.read_out(states[:, -1])
        return aggregated.view_as(hidden[0])


_AGGREGATORS: dict[str, type[OrderAggregator]] = {
    "per-unit": WeightsPerUnit,
    "attention": AttentionOverOrders,
    "concat": ConcatenatedOrders,
    "lstm": LSTMOverOrders,
}


def make_order_aggregator(name: object, order: int, channels: int) -> OrderAggregator | None:
    """The aggregator of that name; ``None`` where orders are summed with a number each.

    A single order needs none, but for an LSTM, which changes it too.

    Args:
        name: The ``order_weights`` argument of the layers.
        order: K.
        channels: Width of the hidden vectors.
    """
    if not isinstance(name, str) or name not in _AGGREGATORS or (order == 1 and name != "lstm"):
        return None
    return _AGGREGATORS[name](order, channels)
