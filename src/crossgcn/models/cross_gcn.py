"""Cross-GCN: cross-feature graph convolutions, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossgcn.errors import BadInput
from crossgcn.layers import CrossGCNConv
from crossgcn.layers.catalogue import ONLY_OF_CROSS, TRANSFORMS, find_part
from crossgcn.layers.graph_convolution import Aggregation
from crossgcn.models.node_classifier import NodeClassifier, Residual, layer_widths


class CrossGCN(NodeClassifier):
    """Any number of :class:`~crossgcn.CrossGCNConv` layers.

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: Number of layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        order: Highest order of the crosses, one for all layers or one per
            layer: ``order=[2, 1]`` crosses in the first layer only.
        aggr: The aggregation of every layer, see :class:`~crossgcn.CrossGCNConv`; GCN's
            normalised sum by default.
        transform: The feature transform, see :class:`~crossgcn.CrossGCNConv`; one for all
            layers or one per layer: ``["mlp", "linear"]``. A layer of order 1 is linear.
        residual: ``"none"``, ``"add"`` or ``"norm"``, see
            :class:`~crossgcn.models.node_classifier.NodeClassifier`.
        **kwargs: For every :class:`~crossgcn.CrossGCNConv`, such as
            ``order_weights``, ``first_order``, ``aggregate_first``, ``scaling``,
            ``bias`` and ``cached``.

    Shapes:
        - **x**: ``[nodes, in_channels]``, dense or sparse CSR.
        - **edge_index**: ``[2, edges]``, or a sparse adjacency (transposed).
        - **output**: class scores ``[nodes, out_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        *,
        order: int | Sequence[int] = 2,
        aggr: Aggregation = "gcn",
        transform: str | Sequence[str] = "cross",
        residual: Residual = "none",
        **kwargs: Any,
    ) -> None:
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        orders = list(order) if isinstance(order, Sequence) else [order] * num_layers
        if len(orders) != num_layers:
            raise BadInput(
                f"order={list(orders)} names {len(orders)} layers, but num_layers is {num_layers}: "
                "give one order for all layers or one per layer"
            )
        transforms = [transform] * num_layers if isinstance(transform, str) else list(transform)
        if len(transforms) != num_layers:
            raise BadInput(
                f"transform={transforms} names {len(transforms)} layers, but num_layers is "
                f"{num_layers}: give one transform for all layers or one per layer"
            )
        if residual == "add" and not any(a == b for a, b in widths[1:]):
            raise BadInput(
                "residual='add' needs a layer whose input and output have the same width, and none "
                f"of these {num_layers} layers has: give at least 3 layers"
            )
        super().__init__(
            (
                CrossGCNConv(
                    width_in,
                    width_out,
                    layer_order,
                    aggr=aggr,
                    **_settings(name, layer_order, kwargs),
                )
                for (width_in, width_out), layer_order, name in zip(
                    widths, orders, transforms, strict=True
                )
            ),
            dropout,
            residual=residual,
        )


def _settings(transform: str, order: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a layer's arguments: without crosses it is linear, and has no order weights."""
    if transform == "cross":
        return {"transform": transform, **settings}
    part = find_part("transform", transform, TRANSFORMS)
    kept = {name: value for name, value in settings.items() if name not in ONLY_OF_CROSS}
    return {"transform": "linear" if order == 1 and part.has_order else transform, **kept}
