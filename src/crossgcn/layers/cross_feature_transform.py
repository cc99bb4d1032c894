"""The cross-feature transformation of the paper (Equation 6)."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from crossgcn import kernels
from crossgcn.errors import check_count, unknown_name
from crossgcn.graph import SparseMatrix
from crossgcn.kernels.reference import multiply_up, with_one_first
from crossgcn.layers.order_weights import OrderWeights, PerUnit, make_order_weights

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
            them from 1; ``"fixed"`` keeps all at 1; a list of K numbers fixes them at these.
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
            orders. If they are trained, :math:`\alpha_1` is 1 whatever the first entry is.
        aggregator: The module that combines the orders, or ``None``.
        trains_order_weights: Whether the order weights from the second on are trained.
        decays_order_weights: Whether weight decay applies to order weights (NOTE[D5]).

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
    """A layer without hops: models call it without edges."""

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
        meaning = "1 is a linear map, 2 adds products of two features"
        self.order = order = check_count("order", order, meaning)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.first_order = first_order
        if in_channels == -1:
            self.weight = UninitializedParameter()
        else:
            self.weight = nn.Parameter(torch.empty(order, out_channels, in_channels))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

        name = order_weights if isinstance(order_weights, str) else None
        self.is_linear = order == 1 and name is not None
        self.trains_order_weights = order > 1 and name in ("gated", "learned")
        self.decays_order_weights = order > 1 and name == "learned"
        is_module = isinstance(order_weights, nn.Module)
        self.order_aggregation = type(order_weights).__name__ if is_module else order_weights
        combined_by = make_order_weights(order_weights, order, out_channels)
        self.aggregator = combined_by if isinstance(combined_by, nn.Module) else None
        self._initial = combined_by if isinstance(combined_by, Tensor) else None
        weights: Any = None if self._initial is None else self._initial.clone()
        if self.trains_order_weights:
            self.order_weights = nn.Parameter(weights)
        else:
            self.register_buffer("order_weights", weights)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise projections by Glorot and reset the bias and the order weights."""
        if not isinstance(self.weight, UninitializedParameter):
            self._init_weight()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.order_weights is not None and self._initial is not None:
            with torch.no_grad():
                self.order_weights.copy_(self._initial)
        for module in () if self.aggregator is None else self.aggregator.modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        out = self.combine(self.project(x))
        return out if self.bias is None else out + self.bias

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        r"""Compute all K projections :math:`\mathbf{W}^k\mathbf{x}` in one matrix product.

        The result is ``[..., rows, order * out_channels]``, with the orders concatenated.
        """
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.shape[-1])
        return x @ self.weight.movedim(-1, 0).flatten(1)

    def combine(self, projections: Tensor) -> Tensor:
        """Cross the projections and combine the orders, without adding the bias."""
        if self.is_linear:
            return projections
        if self.aggregator is None:
            rows = projections.reshape(-1, projections.size(-1))
            release, first_is_one = self.first_order == "release", self.trains_order_weights
            out = kernels.cross(rows, cast(Tensor, self.order_weights), release, first_is_one)
            return out.view(*projections.shape[:-1], self.out_channels)
        orders = projections.chunk(self.order, dim=-1)
        hidden = multiply_up(orders)
        if self.first_order == "release":
            # NOTE[D2] The released code adds every projection to the first order.
            hidden[0] = sum(orders[1:], start=orders[0])
        if isinstance(self.aggregator, PerUnit):
            return self.aggregator(hidden)  # type: ignore[no-any-return]
        return cast(Tensor, self.aggregator(torch.stack(hidden)))

    def gates(self) -> list[Tensor]:
        """Return the parameter of ``"per-unit"`` order weights in a list, which may be empty."""
        return [self.aggregator.gates] if isinstance(self.aggregator, PerUnit) else []

    def unit_order_weights(self) -> Tensor | None:
        r"""Return the weights :math:`\alpha` that the sum uses, ``[order, out_channels]``.

        ``None`` if the orders are not summed.

        NOTE[D4] If the weights are trained, :math:`\alpha_1` is the constant 1, without decay.
        Training it would be redundant: :math:`\mathbf{W}^1` is in every :math:`\mathbf{h}^k`, so
        scaling all :math:`\alpha` by c and :math:`\mathbf{W}^1` by 1/c changes nothing.
        """
        if isinstance(self.aggregator, PerUnit):
            return self.aggregator.order_weights()
        if self.order_weights is None:
            return None
        weights = self.order_weights
        weights = with_one_first(weights) if self.trains_order_weights else weights
        return weights.unsqueeze(-1).expand(-1, self.out_channels)

    def extra_repr(self) -> str:
        """Return the arguments for ``print(model)``."""
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order}, "
            f"order_weights={self.order_aggregation!r}, first_order={self.first_order!r}"
        )

    def _materialize(self, in_channels: int) -> None:
        assert isinstance(self.weight, UninitializedParameter)
        self.in_channels = in_channels
        self.weight.materialize((self.order, self.out_channels, in_channels))
        self._init_weight()

    def _init_weight(self) -> None:
        for projection in self.weight:
            nn.init.xavier_uniform_(projection)

    def _load_from_state_dict(
        self, state_dict: MutableMapping[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Infer ``in_channels`` from a saved weight if it is not known yet."""
        saved = state_dict.get(prefix + "weight")
        if isinstance(self.weight, UninitializedParameter) and saved is not None:
            self._materialize(saved.size(-1))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
