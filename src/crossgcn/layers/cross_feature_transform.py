"""The cross-feature transformation of the paper (Equation 6), and a perceptron in its place."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from math import sqrt
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from crossgcn.errors import check_count, unknown_name
from crossgcn.graph import DenseFeatures, SparseMatrix
from crossgcn.kernels.plain import multiply_up, with_one_first
from crossgcn.layers.catalogue import OrderWeights, make_order_aggregation
from crossgcn.layers.feature_transform import FeatureTransform, check_order
from crossgcn.layers.orders import OrderAggregator, OrderSum, cross_and_sum

FirstOrder = Literal["paper", "release"]
Scaling = Literal["none", "unit"]


class CrossFeatureTransform(FeatureTransform):
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
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        order_weights: How the orders are aggregated, by a name of
            :data:`~crossgcn.layers.catalogue.ORDER_AGGREGATIONS`: ``"gated"`` holds
            :math:`\alpha_1` at 1 and trains the others from 0, so training starts as a linear
            layer; ``"learned"`` trains them from 1; ``"fixed"`` keeps all at 1; ``"mean"`` at
            1/K. A list of K numbers is kept as it is.
        first_order: ``"paper"`` uses :math:`\mathbf{W}^1\mathbf{x}` as the first-order term,
            ``"release"`` the sum of all K projections, as in the authors' code (NOTE[D2]).
        bias: Add :math:`\mathbf{b}`, before any activation (NOTE[D3]).
        scaling: ``"unit"`` scales the projections so that all orders start at the same size
            after :meth:`calibrate`: for high orders, deep models, and very large or small
            features.

    Shapes:
        - **x**: ``[..., rows, in_channels]`` dense, or ``[rows, in_channels]``
          as ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`,
          which is never made dense.
        - **output**: ``[..., rows, out_channels]``.

    Attributes:
        weight: All projections, ``[order, out_channels, in_channels]``.
        order_weights: :math:`\alpha`, ``[order]``; ``None`` if :attr:`aggregator` aggregates the
            orders. If it is trained, :math:`\alpha_1` is 1 whatever its entry is; see
            :meth:`effective_order_weights`.
        aggregator: The module that aggregates the orders, or ``None``.
        projection_scale: A constant factor per order, ``[order]``, all 1 until calibrated;
            ``None`` without scaling.
    """

    weight: nn.Parameter | UninitializedParameter
    order_weights: Tensor | None
    projection_scale: Tensor | None
    stackable = True
    multiplies_first = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        order_weights: OrderWeights = "gated",
        first_order: FirstOrder = "paper",
        bias: bool = True,
        scaling: Scaling = "none",
    ) -> None:
        super().__init__()
        if first_order not in get_args(FirstOrder):
            raise unknown_name("first_order", str(first_order), get_args(FirstOrder))
        if scaling not in get_args(Scaling):
            raise unknown_name("scaling", str(scaling), get_args(Scaling))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.order = order = check_order(order)
        self.order_aggregation = order_weights
        self.first_order = first_order
        self.scaling = scaling

        if in_channels == -1:
            self.weight = UninitializedParameter()
        else:
            self.weight = nn.Parameter(torch.empty(order, out_channels, in_channels))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

        made = make_order_aggregation(order_weights, order, out_channels)
        self.aggregator = made if isinstance(made, OrderAggregator) else None
        self._sum = made if isinstance(made, OrderSum) else None
        initial = None if self._sum is None else self._sum.initial()
        if initial is not None and self.trains_order_weights:
            self.order_weights = nn.Parameter(initial)
        else:
            self.register_buffer("order_weights", initial)
        self.register_buffer("projection_scale", torch.ones(order) if scaling == "unit" else None)
        self._calibrating = False
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each projection by Glorot's rule and reset the bias and the order weights.

        With ``scaling="unit"``, projections from the second on are drawn larger, and the
        scale is reset to 1.
        """
        if not isinstance(self.weight, UninitializedParameter):
            self._draw_weight()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self._sum is not None and self.order_weights is not None:
            with torch.no_grad():
                self.order_weights.copy_(self._sum.initial())
        if self.aggregator is not None:
            self.aggregator.reset_parameters()
        if self.projection_scale is not None:
            self.projection_scale.fill_(1.0)

    @property
    def trains_order_weights(self) -> bool:
        """Whether order weights from the second on are trained."""
        return self._sum is not None and self._sum.trained and self.order > 1

    @property
    def decays_order_weights(self) -> bool:
        """Whether trained order weights are part of the weight decay (NOTE[D5])."""
        return self._sum is not None and self._sum.decayed

    @property
    def num_projections(self) -> int:
        """Width of the linear part: all orders together."""
        return self.order * self.out_channels

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        copies = 1 if self.aggregator is None else self.aggregator.kept_copies
        return copies * self.num_projections, 1

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        r"""Compute all K projections :math:`\mathbf{W}^k\mathbf{x}` in one matrix product.

        They are ``[..., rows, order * out_channels]``, one order after the other.
        """
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.shape[-1])
        return x @ self._projections()

    def forward(self, x: Tensor | SparseMatrix, sum_by: SparseMatrix | None = None) -> Tensor:
        """Transform each row of ``x``.

        Args:
            sum_by: Return the product of this matrix and the result, without the bias.
        """
        return super().forward(x) if sum_by is None else self.transform(x, sum_by)

    def transform(
        self, x: Tensor | SparseMatrix | DenseFeatures, sum_by: SparseMatrix | None = None
    ) -> Tensor:
        """Transform each row of ``x`` without adding the bias."""
        sums = self.aggregator is None and self.projection_scale is None and self.order > 1
        if isinstance(x, DenseFeatures) and sums:
            crossing = (self.order_weights, *self._crossing)
            return x.cross(self._projections(), *crossing, sum_by=sum_by)
        out = self.combine(self.project(x))  # type: ignore[arg-type]
        return out if sum_by is None else sum_by @ out

    def combine(self, projections: Tensor) -> Tensor:
        """Cross the projections and aggregate the orders, without adding the bias."""
        if self.projection_scale is not None:
            projections = self._scale(projections, self.projection_scale)
        if self.aggregator is not None:
            orders = self._by_order(projections)
            hidden = multiply_up(orders.unbind(-2))
            if self.first_order == "release":
                # NOTE[D2] The released code adds every projection to the first order.
                hidden[0] = orders.sum(dim=-2)
            return cast(Tensor, self.aggregator(hidden))
        if self.order == 1 and isinstance(self.order_aggregation, str):
            return projections
        assert self.order_weights is not None
        return cross_and_sum(projections, self.order_weights, *self._crossing)

    @property
    def _crossing(self) -> tuple[bool, bool]:
        """How orders are summed; see :func:`~crossgcn.layers.orders.cross_and_sum`."""
        return self.first_order == "release", self.trains_order_weights

    def _projections(self) -> Tensor:
        """Return all projections side by side, ``[in_channels, order * out_channels]``."""
        return self.weight.movedim(-1, -3).flatten(-2)

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
        if self.aggregator is not None:
            return self.aggregator.order_weights()
        weights = self.effective_order_weights()
        return None if weights is None else weights.unsqueeze(-1).expand(-1, self.out_channels)

    @contextmanager
    def calibrating(self) -> Iterator[None]:
        """Set the scale in every forward pass within this context; see :meth:`calibrate`."""
        self._calibrating = True
        try:
            yield
        finally:
            self._calibrating = False

    @torch.no_grad()
    def calibrate(self, x: Tensor | SparseMatrix) -> None:
        """Set the scale so that all orders have the same size on these rows.

        Without ``scaling="unit"`` this does nothing. For a whole model see
        :func:`~crossgcn.models.node_classifier.calibrate`.
        """
        with self.calibrating():
            self(x)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        scaling = "" if self.scaling == "none" else f", scaling={self.scaling!r}"
        return (
            f"{self.in_channels}, {self.out_channels}, order={self.order}, "
            f"order_weights={self.order_aggregation!r}, first_order={self.first_order!r}{scaling}"
        )

    def _by_order(self, projections: Tensor) -> Tensor:
        return projections.reshape(*projections.shape[:-1], self.order, self.out_channels)

    def _scale(self, projections: Tensor, scale: Tensor) -> Tensor:
        orders = self._by_order(projections)
        if self._calibrating:
            glorot = sqrt(2.0 / (self.in_channels + self.out_channels))
            scale.copy_(_measure_scale(orders, glorot))
        return (orders * scale[..., None, :, None]).flatten(-2)

    def _materialize(self, in_channels: int) -> None:
        assert isinstance(self.weight, UninitializedParameter)
        self.in_channels = in_channels
        self.weight.materialize((self.order, self.out_channels, in_channels))
        self._draw_weight()

    def _draw_weight(self) -> None:
        first, *others = self.weight
        nn.init.xavier_uniform_(first)
        for projection in others:
            if self.scaling == "unit":
                nn.init.uniform_(projection, -sqrt(3.0), sqrt(3.0))
            else:
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


def _measure_scale(projections: Tensor, size: float) -> Tensor:
    """Return a factor per order, ``[order]``, that gives all products the same size.

    ``size`` is the root mean square that the products should have. Rows without features are left
    out. If no row is left, all factors are 1.
    """
    rows = projections.detach().flatten(0, -3).double()
    rows = rows[rows.any(dim=-1).any(dim=-1)]
    product, scales = torch.ones_like(rows[:, 0]), []
    for projection in rows.unbind(-2):
        product = product * projection
        scale = size / product.square().mean().sqrt()
        scale = torch.where(scale.isfinite() & (scale > 0), scale, 1.0)
        product = product * scale
        scales.append(scale)
    return torch.stack(scales).to(projections.dtype)


def make_linear(
    in_channels: int, out_channels: int, order: int = 1, *, bias: bool = True
) -> CrossFeatureTransform:
    """Make a linear map, a transform of order 1; ``order`` is ignored."""
    return CrossFeatureTransform(in_channels, out_channels, 1, order_weights="fixed", bias=bias)


class MLPTransform(FeatureTransform):
    r"""A perceptron with one hidden layer, which multiplies no features explicitly.

    .. math:: \mathbf{z} = \mathbf{W}^2\,\text{ReLU}(\mathbf{W}^1\mathbf{x} + \mathbf{b}^1)

    Args:
        in_channels: Features per row; ``-1`` to infer it from the first input.
        order: Ignored; every transform takes it.
        hidden_channels: Width of the hidden layer; ``out_channels`` by default.
        hidden_bias: Use :math:`\mathbf{b}^1`.
    """

    bias = None
    stackable = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 1,
        *,
        hidden_channels: int | None = None,
        hidden_bias: bool = True,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        width = out_channels
        if hidden_channels is not None:
            width = check_count("hidden_channels", hidden_channels)
        self.hidden = make_linear(in_channels, width, bias=hidden_bias)
        self.output = make_linear(width, out_channels, bias=False)

    @property
    def in_channels(self) -> int:  # type: ignore[override]
        """Features per row, -1 while not yet known."""
        return self.hidden.in_channels

    @property
    def num_projections(self) -> int:
        """Width of the linear part: the hidden layer."""
        return self.hidden.out_channels

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Apply the first linear map."""
        return self.hidden.project(x)

    def combine(self, projections: Tensor) -> Tensor:
        """Apply bias, ReLU and the second linear map."""
        bias = self.hidden.bias
        hidden = torch.relu(projections if bias is None else projections + bias.unsqueeze(-2))
        out: Tensor = self.output(hidden)
        return out
