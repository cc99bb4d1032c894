"""The cross-feature transformation of the paper (Equation 6)."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from crossgcn import kernels
from crossgcn.errors import check_count, unknown_name
from crossgcn.graph import SparseMatrix
from crossgcn.kernels.reference import multiply_up, with_one_first
from crossgcn.layers.order_weights import (
    OrderSum,
    OrderWeights,
    PerUnit,
    make_order_weights,
)

FirstOrder = Literal["paper", "release"]


class CrossFeatureTransform(nn.Module):
    r"""Cross a node's features with themselves, up to a chosen order.

    Each order multiplies one more learned projection onto the last:

    .. math::
        \mathbf{h}^{k} = (\mathbf{W}^{k}\mathbf{x}) \odot \mathbf{h}^{k-1},
        \quad \mathbf{h}^{0} = \mathbf{1},
        \qquad \mathbf{z} = \sum_{k=1}^{K} \alpha_k \mathbf{h}^{k} + \mathbf{b}

    Every output unit is a rank-one stand-in for a full order-:math:`k` weight
    tensor, so the cost is :math:`KDE` instead of :math:`ED^K`. Rows never
    meet: no graph is involved. With ``order=1`` this is a linear layer.

    Args:
        in_channels: Features per row; ``-1`` to infer it from the first input.
        out_channels: Width E of the output.
        order: Highest order K of the crosses, at least 1.
        order_weights: How the orders are combined. ``"gated"`` holds :math:`\alpha_1` at 1 and
            trains the others from 0, so training starts as a linear layer; ``"learned"`` trains
            them from 1; ``"fixed"`` keeps all at 1, and a list of K numbers at these.
            ``"per-unit"`` is gated with a weight for each output unit. A module maps the
            products ``[order, ..., out_channels]`` to ``[..., out_channels]``; see the example.
        first_order: ``"paper"`` uses :math:`\mathbf{W}^1\mathbf{x}` as the first-order term,
            ``"release"`` the sum of all K projections, as in the authors' code (NOTE[D2]).
        bias: Add :math:`\mathbf{b}`, before any activation (NOTE[D3]).

    Shapes:
        - **x**: ``[..., rows, in_channels]`` dense, or ``[rows, in_channels]``
          as ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`,
          which is never made dense.
        - **output**: ``[..., rows, out_channels]``.

    Attributes:
        weight: All projections, ``[order, out_channels, in_channels]``.
        order_weights: :math:`\alpha`, ``[order]``; ``None`` if :attr:`aggregator` combines the
            orders. If it is trained, :math:`\alpha_1` is 1 whatever its entry is; see
            :meth:`effective_order_weights`.
        aggregator: The module that combines the orders, or ``None``.

    Example:
        The LSTM over the orders that the paper suggests:

        >>> import torch
        >>> from crossgcn import CrossFeatureTransform
        >>> class OrderLSTM(torch.nn.Module):
        ...     def __init__(self, channels):
        ...         super().__init__()
        ...         self.lstm = torch.nn.LSTM(channels, channels)
        ...
        ...     def forward(self, hidden):  # [order, ..., channels]
        ...         _, (last, _) = self.lstm(hidden.flatten(1, -2))
        ...         return last[0].view_as(hidden[0])
        >>> transform = CrossFeatureTransform(16, 8, order=3, order_weights=OrderLSTM(8))
        >>> transform(torch.randn(5, 16)).shape
        torch.Size([5, 8])
    """

    weight: nn.Parameter | UninitializedParameter
    order_weights: Tensor | None
    bias: nn.Parameter | None
    aggregator: nn.Module | None
    propagations = ()
    """It has no hops, so it can be a layer of a model."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        order_weights: OrderWeights = "gated",
        first_order: FirstOrder = "paper",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if first_order not in get_args(FirstOrder):
            raise unknown_name("first_order", str(first_order), get_args(FirstOrder))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.order = order = check_order(order)
        self.first_order = first_order

        if in_channels == -1:
            self.weight = UninitializedParameter()
        else:
            self.weight = nn.Parameter(torch.empty(order, out_channels, in_channels))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

        foreign = isinstance(order_weights, nn.Module)
        self.order_aggregation = type(order_weights).__name__ if foreign else order_weights
        made = make_order_weights(order_weights, order, out_channels)
        self.is_linear = order == 1 and isinstance(order_weights, str)
        self.aggregator = None if isinstance(made, OrderSum) else made
        self._sum = made if isinstance(made, OrderSum) else OrderSum(torch.ones(order))
        initial = None if self.aggregator is not None else self._sum.initial.clone()
        if initial is not None and self._sum.trained:
            self.order_weights = nn.Parameter(initial)
        else:
            self.register_buffer("order_weights", initial)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise projections by Glorot and reset the bias and the order weights."""
        if not isinstance(self.weight, UninitializedParameter):
            self._init_weight()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.order_weights is not None:
            with torch.no_grad():
                self.order_weights.copy_(self._sum.initial)
        for module in () if self.aggregator is None else self.aggregator.modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        out = self.transform(x)
        return out if self.bias is None else out + self.bias

    def transform(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x`` without adding the bias."""
        return self.combine(self.project(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        r"""Compute all K projections :math:`\mathbf{W}^k\mathbf{x}` in one matrix product.

        They are ``[..., rows, order * out_channels]``, one order after the other.
        """
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.shape[-1])
        return x @ self._projections()

    def combine(self, projections: Tensor) -> Tensor:
        """Cross the projections and combine the orders, without adding the bias."""
        if self.is_linear:
            return projections
        if self.aggregator is None:
            assert self.order_weights is not None
            return _cross_and_sum(
                projections,
                self.order_weights,
                release=self.first_order == "release",
                first_is_one=self.trains_order_weights,
            )
        orders = projections.chunk(self.order, dim=-1)
        hidden = multiply_up(orders)
        if self.first_order == "release":
            # NOTE[D2] The released code adds every projection to the first order.
            hidden[0] = sum(orders[1:], start=orders[0])
        if isinstance(self.aggregator, PerUnit):
            return self.aggregator(hidden)  # type: ignore[no-any-return]
        return cast(Tensor, self.aggregator(torch.stack(hidden)))

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can record it, as far as is known."""
        return isinstance(self.aggregator, PerUnit | None)

    @property
    def trains_order_weights(self) -> bool:
        """Whether order weights from the second on are trained."""
        return self._sum.trained

    @property
    def decays_order_weights(self) -> bool:
        """Whether trained order weights are part of the weight decay (NOTE[D5])."""
        return self._sum.decayed

    def effective_order_weights(self) -> Tensor | None:
        r"""Return the weights :math:`\alpha` that the sum uses, ``[order]``.

        NOTE[D4] If they are trained, :math:`\alpha_1` is the constant 1. It would be redundant:
        :math:`\mathbf{W}^1` is in every :math:`\mathbf{h}^k`, so scaling all :math:`\alpha` by c
        and :math:`\mathbf{W}^1` by 1/c changes nothing. As a constant it is also not decayed.
        """
        weights = self.order_weights
        if weights is None or not self.trains_order_weights:
            return weights
        return with_one_first(weights)

    def unit_order_weights(self) -> Tensor | None:
        """Return the weight of each order and output unit, ``[order, out_channels]``.

        ``None`` if the orders are not summed.
        """
        if isinstance(self.aggregator, PerUnit):
            return self.aggregator.order_weights()
        weights = self.effective_order_weights()
        return None if weights is None else weights.unsqueeze(-1).expand(-1, self.out_channels)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order}, "
            f"order_weights={self.order_aggregation!r}, first_order={self.first_order!r}"
        )

    def _projections(self) -> Tensor:
        """Return all projections side by side, ``[in_channels, order * out_channels]``."""
        return self.weight.movedim(-1, 0).flatten(1)

    def _materialize(self, in_channels: int) -> None:
        assert isinstance(self.weight, UninitializedParameter)
        self.in_channels = in_channels
        self.weight.materialize((self.order, self.out_channels, in_channels))
        self._init_weight()

    def _init_weight(self) -> None:
        for projection in self.weight:
            nn.init.xavier_uniform_(projection)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        with self._without_uninitialized():
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: MutableMapping[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        stored = state_dict.get(prefix + "weight")
        if isinstance(self.weight, UninitializedParameter) and stored is not None:
            self._materialize(stored.size(-1))
        with self._without_uninitialized():
            super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @contextmanager
    def _without_uninitialized(self) -> Iterator[None]:
        """Hide a weight of unknown width, which cannot be saved or loaded."""
        weight = self.weight
        if isinstance(weight, UninitializedParameter):
            self.register_parameter("weight", None)
        try:
            yield
        finally:
            self.weight = weight


def _cross_and_sum(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool
) -> Tensor:
    """Cross projections of any leading dimensions; see :func:`crossgcn.kernels.cross`."""
    rows = projections.reshape(-1, projections.size(-1))
    out = kernels.cross(rows, order_weights, release, first_is_one)
    return out.view(*projections.shape[:-1], out.size(-1))


def check_order(order: object) -> int:
    """Return an order as an ``int``, or raise :class:`BadInput`."""
    return check_count("order", order, "1 is a linear map, 2 adds products of two features")
