"""Order aggregations: from the products of the K orders to one vector."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.layers.feature_transform import refuse_recurrent, reset_parameters


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


def cross_and_sum(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool = False
) -> Tensor:
    r"""Multiply up the projections and sum the orders, :math:`\sum_k \alpha_k \mathbf{h}^k`.

    Args:
        projections: ``[..., order * channels]``, one order after the other; with weights
            per model, ``[models, rows, order * channels]``.
        order_weights: :math:`\alpha`, ``[order]`` or ``[models, order]``.
        release: Use the sum of all projections as the first order (NOTE[D2]).
        first_is_one: Use 1 as :math:`\alpha_1`, whatever it is given as.
    """
    shape = projections.shape
    if order_weights.dim() == 1:
        order_weights = order_weights.unsqueeze(0)
        projections = projections.reshape(1, -1, shape[-1])
    out = kernels.cross(projections, order_weights, release, first_is_one)
    return out.view(*shape[:-1], out.size(-1))


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
