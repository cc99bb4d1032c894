"""One layer's weights as plain numbers, and the refusal of layers that are no polynomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from crossgcn.errors import BadInput
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv

Floats = NDArray[np.float64]


class NotASum(BadInput):
    """A layer that is no sum of products of its inputs, and so has no exact explanation."""


@dataclass(frozen=True)
class LayerReading:
    r"""A layer's polynomial, in 64 bits.

    Unit :math:`e` computes :math:`\mathbf{f}_e\mathbf{x} + \sum_{k\ge2} \alpha_{ke}
    \prod_{m\le k} \mathbf{w}^m_e\mathbf{x}`, before or after neighbours are summed.

    Attributes:
        first_order: :math:`\mathbf{f}`, ``[channels, features]``.
        projections: :math:`\mathbf{w}^m`, ``[order, channels, features]``, scaled where the
            layer scales them.
        order_weights: :math:`\alpha`, ``[order, channels]``; that of order 1 is within
            ``first_order``.
        bias: ``[channels]``, zero where there is none.
        aggregate_first: Whether neighbours are summed before features are multiplied.
    """

    first_order: Floats
    projections: Floats
    order_weights: Floats
    bias: Floats
    aggregate_first: bool

    @property
    def order(self) -> int:
        """The highest order whose weight is not zero."""
        used = np.flatnonzero(self.order_weights[1:].any(axis=1))
        return int(used[-1]) + 2 if used.size else 1

    def of_units(self, units: NDArray[np.int64]) -> LayerReading:
        """Some of its units alone."""
        return LayerReading(
            self.first_order[units],
            self.projections[:, units],
            self.order_weights[:, units],
            self.bias[units],
            self.aggregate_first,
        )

    def apply(self, x: Any, adjacency: Any, *, aggregated: bool = False) -> tuple[Floats, Floats]:
        """The layer's output in two parts: first order, and crosses; without the bias.

        Args:
            x: Its input, dense or sparse.
            adjacency: Weights with which neighbours are summed; ``None`` for no graph.
            aggregated: The input of a layer that aggregates first already is aggregated.
        """
        if self.aggregate_first and adjacency is not None and not aggregated:
            x = adjacency @ x
        linear = np.asarray(x @ self.first_order.T)
        crosses, product = np.zeros_like(linear), np.ones_like(linear)
        for position in range(self.order if self.order > 1 else 0):
            product = product * np.asarray(x @ self.projections[position].T)
            if position:
                crosses += self.order_weights[position] * product
        if adjacency is None or self.aggregate_first:
            return linear, crosses
        return np.asarray(adjacency @ linear), np.asarray(adjacency @ crosses)


def read_layer(module: nn.Module, position: int) -> LayerReading:
    """The polynomial of a layer.

    Args:
        module: The layer.
        position: Which layer of the model it is, from 0; for messages.

    Raises:
        NotASum: If it is none.
        BadInput: If it has no weights yet, or some that are not finite.
    """
    where = f"layer {position + 1}"
    if isinstance(module, CrossGCNConv):
        transform, bias = module.transform, module.bias
        aggregate_first = module.aggregate_first
        if not module.sums_neighbours:
            raise NotASum(
                f"{where} joins neighbours by {module.aggr_name!r}, which has no exact "
                "explanation; explain a model whose neighbours are joined by GCN's sum "
                "(aggr='gcn', as in --model cross-gcn)"
            )
        if not isinstance(transform, CrossFeatureTransform):
            raise NotASum(
                f"{where} transforms features by a {type(transform).__name__}, whose products "
                "are not read here; explain a model with transform='cross'"
            )
        if module.flow != "source_to_target":
            raise BadInput(f"{where} has flow={module.flow!r}; use 'source_to_target'")
    elif isinstance(module, CrossFeatureTransform):
        transform, bias, aggregate_first = module, module.bias, False
    else:
        raise NotASum(
            f"{where} is a {type(module).__name__} of {type(module).__module__.split('.')[0]}, "
            "which cannot be read as a sum of products of its inputs, so it has no exact "
            "explanation; explain crossgcn's CrossGCN, crossgcn's GCN or crossgcn's MLP"
        )
    if isinstance(transform.weight, UninitializedParameter):
        raise BadInput(f"{where} has seen no data yet and has no weights; train the model first")
    projections, alpha = _projections(transform), _order_weights(transform, where)
    release = transform.first_order == "release"
    first = alpha[0][:, np.newaxis] * (projections.sum(axis=0) if release else projections[0])
    if not (np.isfinite(projections).all() and np.isfinite(alpha).all()):
        raise BadInput(f"{where} has weights that are not finite; train the model again")
    return LayerReading(
        first,
        projections,
        alpha,
        np.zeros(projections.shape[1]) if bias is None else _numbers(bias),
        aggregate_first,
    )


def _projections(transform: CrossFeatureTransform) -> Floats:
    """The weights, with the constants that projections are multiplied by."""
    weight = _numbers(transform.weight)
    if transform.projection_scale is None:
        return weight
    return weight * _numbers(transform.projection_scale)[:, np.newaxis, np.newaxis]


def _order_weights(transform: CrossFeatureTransform, where: str) -> Floats:
    """Return the weight of each order and unit, ``[order, channels]``."""
    weights = transform.unit_order_weights()
    if weights is None:
        assert transform.aggregator is not None
        raise NotASum(
            f"{where} {transform.aggregator.refusal} "
            f"(order_weights={transform.order_aggregation!r}), which has no exact explanation; "
            "explain a model with 'gated', 'per-unit', 'learned', 'fixed' or 'mean' order weights"
        )
    return _numbers(weights)


def _numbers(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()
