"""The cross-feature transformation module of the paper (Equation 6)."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from math import sqrt
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from crossgcn.errors import unknown_name
from crossgcn.graph import SparseMatrix
from crossgcn.layers.orders.order_aggregation import (
    FirstOrder,
    OrderWeights,
    check_order,
    cross_and_sum,
    cross_orders,
    initial_order_weights,
)
from crossgcn.layers.orders.trained import OrderAggregator, make_order_aggregator

Scaling = Literal["none", "unit"]


def measure_scale(projections: Tensor, size: float) -> Tensor:
    """What to multiply each order's projections by, so that all products get one size.

    Rows without features count for nothing; where there are no others, nothing is scaled.

    Args:
        projections: ``[..., order, channels]``, unscaled.
        size: The root mean square that each order's products should have.

    Returns:
        ``[order]``.
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
        in_channels: Features per row; ``-1`` to learn it from the first input.
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        order_weights: The weights :math:`\alpha_k`. ``"gated"`` holds
            :math:`\alpha_1` at 1 and trains the others from 0, so training
            starts as a linear layer and grows crosses where they pay;
            ``"learned"`` does the same from 1; ``"fixed"`` is all 1;
            a list of K numbers is held fixed; ``"mean"`` averages the
            orders. ``"per-unit"`` is ``"gated"`` with a weight for each output
            unit, ``"attention"`` averages the orders with weights that each row
            finds for itself, ``"concat"`` maps all orders together, and
            ``"lstm"`` reads them as a sequence (see
            :mod:`~crossgcn.layers.orders.trained`).
        first_order: ``"paper"`` has :math:`\mathbf{W}^1\mathbf{x}` as its
            first-order term, ``"release"`` the sum of all K projections, as
            in the authors' code (NOTE[D2]).
        bias: Add :math:`\mathbf{b}`, before any activation (NOTE[D3]).
        scaling: ``"unit"`` starts every order at the same size, whatever the
            features are like, once :meth:`calibrate` has seen some of them:
            for high orders, deep models, and very large or small features
            (see :mod:`~crossgcn.layers.cross_feature_transform`).

    Shapes:
        - **x**: ``[..., rows, in_channels]`` dense, or ``[rows, in_channels]``
          as ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`,
          which is never made dense.
        - **output**: ``[..., rows, out_channels]``.

    Attributes:
        weight: All projections, ``[order, out_channels, in_channels]``.
        order_weights: :math:`\alpha`, ``[order]``; none where orders are not summed
            with a number each. Where it is trained, :math:`\alpha_1` is 1 whatever an
            optimiser does to its entry, see :meth:`effective_order_weights`.
        aggregator: What aggregates the orders instead; else ``None``.
        projection_scale: What each order's projections are multiplied by,
            ``[order]``, all 1 until calibrated; ``None`` without scaling.
    """

    weight: nn.Parameter | UninitializedParameter
    bias: nn.Parameter | None
    order_weights: Tensor | None
    projection_scale: Tensor | None
    propagations = ()

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

        initial, trained = initial_order_weights(order_weights, order)
        # Kept, because torch.func puts plain tensors where the parameters are.
        self._order_weights_train = trained
        if trained and initial is not None:
            self.order_weights = nn.Parameter(initial)
        else:
            self.register_buffer("order_weights", initial)
        self.aggregator = make_order_aggregator(order_weights, order, out_channels)
        self.register_buffer("projection_scale", torch.ones(order) if scaling == "unit" else None)
        self._calibrating = False
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot for each projection by itself, zero bias, order weights at their start.

        With ``scaling="unit"``, projections from the second on are drawn larger, and the
        scale is forgotten.
        """
        if not isinstance(self.weight, UninitializedParameter):
            self._draw_weight()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        initial, _ = initial_order_weights(self.order_aggregation, self.order)
        if self.order_weights is not None and initial is not None:
            with torch.no_grad():
                self.order_weights.copy_(initial)
        if self.aggregator is not None:
            self.aggregator.reset_parameters()
        if self.projection_scale is not None:
            self.projection_scale.fill_(1.0)

    @property
    def num_projections(self) -> int:
        """Width of the linear part, all orders together."""
        return self.order * self.out_channels

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x`` on its own."""
        out = self.combine(self.project(x))
        return out if self.bias is None else out + self.bias.unsqueeze(-2)

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        r"""All K projections :math:`\mathbf{W}^k\mathbf{x}` in one matrix product.

        Returns:
            ``[..., rows, order * out_channels]``, one order after the other. This
            part is linear, so it may be exchanged with neighbour aggregation.
        """
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.shape[-1])
        return x @ self.weight.movedim(-1, -3).flatten(-2)

    def combine(self, projections: Tensor) -> Tensor:
        """Cross the projections and aggregate the orders; no bias is added."""
        if self.projection_scale is not None:
            projections = self._scale(projections, self.projection_scale)
        if self.aggregator is not None:
            return self._aggregate(projections, self.aggregator)
        if self.order == 1 and isinstance(self.order_aggregation, str):
            return projections
        weights = self.effective_order_weights()
        assert weights is not None
        return cross_and_sum(projections, weights, self.first_order == "release")

    def effective_order_weights(self) -> Tensor | None:
        r"""The weights :math:`\alpha` as they enter the sum, ``[order]``.

        NOTE[D4] Where they are trained, :math:`\alpha_1` is the constant 1. It would
        be redundant: with :math:`\mathbf{W}^1` in every :math:`\mathbf{h}^k`, scaling all
        :math:`\alpha` by c and :math:`\mathbf{W}^1` by 1/c changes nothing. Being a
        constant here, it is also out of reach of an optimiser's weight decay.
        """
        weights = self.order_weights
        if weights is None or not self._order_weights_train:
            return weights
        return torch.cat([torch.ones_like(weights[..., :1]), weights[..., 1:]], dim=-1)

    @contextmanager
    def calibrating(self) -> Iterator[None]:
        """Let each pass set the scale by what it sees; see :meth:`calibrate`."""
        self._calibrating = True
        try:
            yield
        finally:
            self._calibrating = False

    @torch.no_grad()
    def calibrate(self, x: Tensor | SparseMatrix) -> None:
        """Set the scale so that every order starts at the same size on these rows.

        Nothing is random about it, and without scaling nothing happens. For a whole model
        see :func:`~crossgcn.models.node_classifier.calibrate`.
        """
        with self.calibrating():
            self(x)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of this layer."""
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
            scale.copy_(measure_scale(orders, glorot))
        return (orders * scale[..., None, :, None]).flatten(-2)

    def _aggregate(self, projections: Tensor, aggregator: OrderAggregator) -> Tensor:
        orders = self._by_order(projections)
        hidden = cross_orders(orders)
        if self.first_order == "release":
            # NOTE[D2] The released code adds every projection to the first order.
            hidden[0] = orders.sum(dim=-2)
        aggregated: Tensor = aggregator(hidden)
        return aggregated

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
        for name in [name for name in state_dict if name.startswith(f"{prefix}lstm.")]:
            # Under this name in models that were saved when there was no other aggregator.
            state_dict[f"{prefix}aggregator{name[len(prefix) + 4 :]}"] = state_dict.pop(name)
        stored = state_dict.get(prefix + "weight")
        if isinstance(self.weight, UninitializedParameter) and stored is not None:
            self._materialize(stored.size(-1))
        with self._without_uninitialized():
            super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @contextmanager
    def _without_uninitialized(self) -> Iterator[None]:
        """Hide a weight whose width is not known yet, which has nothing to save or load."""
        weight = self.weight
        if isinstance(weight, UninitializedParameter):
            self.register_parameter("weight", None)
        try:
            yield
        finally:
            self.weight = weight
