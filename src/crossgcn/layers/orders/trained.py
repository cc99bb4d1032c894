"""Order aggregations with parameters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from crossgcn.layers.feature_transform import refuse_recurrent
from crossgcn.layers.orders.order_aggregation import OrderAggregator


class WeightsPerUnit(OrderAggregator):
    r"""A trained weight for each order and output unit; ``"gated"`` has one per order.

    .. math:: \mathbf{z} = \mathbf{h}^1 + \sum_{k\ge2} \boldsymbol{\alpha}_k \odot \mathbf{h}^k

    All start at 0, so training starts as a linear layer. They form one vector, order after
    order, because weight decay applies to matrices and not to vectors (NOTE[D5]).
    """

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.gates = nn.Parameter(torch.zeros((order - 1) * channels))

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Sum the orders with a weight per unit."""
        first, *others = hidden
        out = first
        for gate, crossed in zip(self._by_order().unbind(-2), others, strict=True):
            out = out + gate.unsqueeze(-2) * crossed
        return out

    def order_weights(self) -> Tensor:
        r"""Return :math:`\boldsymbol{\alpha}`, ``[order, channels]``."""
        gates = self._by_order()
        return torch.cat([torch.ones_like(gates[..., :1, :]), gates], dim=-2)

    def _by_order(self) -> Tensor:
        return self.gates.reshape(*self.gates.shape[:-1], self.order - 1, self.channels)


class AttentionOverOrders(OrderAggregator):
    r"""A mean of the orders with weights that each row computes by attention.

    .. math:: \mathbf{z} = \sum_k a_k \mathbf{h}^k, \qquad
        a = \operatorname{softmax}_k\!\left(
        \frac{\mathbf{q}^{\top}\mathbf{h}^k}{\sqrt{E}} + c_k\right)

    Scaled dot-product attention with one learned query for all rows and one learned offset
    per order. Both start at 0, so training starts with the mean of the orders.
    """

    refusal = "weights its orders node by node, so it is no sum of products"

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.query = nn.Parameter(torch.zeros(channels))
        self.offset = nn.Parameter(torch.zeros(order))

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Average the orders of each row."""
        orders = torch.stack(list(hidden), dim=-2)
        query = self.query[..., None, None, :] / sqrt(self.channels)
        scores = (orders * query).sum(dim=-1) + self.offset.unsqueeze(-2)
        return (scores.softmax(dim=-1).unsqueeze(-1) * orders).sum(dim=-2)


class ConcatenatedOrders(OrderAggregator):
    r"""A linear map of the concatenated orders.

    .. math:: \mathbf{z} = \mathbf{C}\,[\mathbf{h}^1; \dots; \mathbf{h}^K]

    :math:`\mathbf{C}` starts as the identity on the first order and zero on the others, so
    training starts as a linear layer. It is a matrix, so weight decay applies to it.
    """

    refusal = "maps its orders together, so its units share each other's products"

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.weight = nn.Parameter(torch.empty(channels, order * channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the map to the identity on the first order."""
        nn.init.eye_(self.weight)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Map the concatenated orders of each row."""
        return torch.cat(list(hidden), dim=-1) @ self.weight.mT


class LSTMOverOrders(OrderAggregator):
    """An LSTM that reads the K hidden vectors as a sequence, the paper's other suggestion.

    A linear read-out follows the last state, because the output of an LSTM stays within (-1, 1)
    and could not serve as logits.
    """

    stackable = False
    kept_copies = 8
    changes_a_single_order = True
    refusal = "reads its orders with an LSTM, so it is no sum of products"

    def __init__(self, order: int, channels: int) -> None:
        super().__init__(order, channels)
        self.lstm = nn.LSTM(channels, channels, batch_first=True)
        self.read_out = nn.Linear(channels, channels, bias=False)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """Read the orders, first to last."""
        refuse_recurrent("order_weights='lstm'", hidden[0], traced=False)
        sequences = torch.stack(list(hidden), dim=-2)
        states, _ = self.lstm(sequences.flatten(0, -3))
        aggregated: Tensor = self.read_out(states[:, -1])
        return aggregated.view_as(hidden[0])
