"""Cross-GCN: cross-feature graph convolutions in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from crossgcn.errors import BadInput, unknown_name
from crossgcn.layers import CrossGCNConv
from crossgcn.layers.aggregation import AGGREGATIONS, NodeAggregation, make_aggregation
from crossgcn.layers.cross_gcn_conv import ONLY_OF_CROSSES
from crossgcn.models.node_classifier import NodeClassifier, Residual, layer_widths
from crossgcn.models.presets import WITHOUT_ORDER


class CrossGCN(NodeClassifier):
    """A stack of :class:`~crossgcn.CrossGCNConv` of any depth.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: How many layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        order: Highest order of the crosses, one for all layers or one per
            layer: ``order=[2, 1]`` crosses in the first layer only.
        aggr: How neighbours are joined, by a name of
            :data:`~crossgcn.layers.aggregation.AGGREGATIONS`; GCN's normalised sum when
            left out.
        transform: What crosses features, see :class:`~crossgcn.CrossGCNConv`; one for all
            layers or one per layer: ``["mlp", "linear"]``. Where it would cross, a layer of
            order 1 is linear.
        residual: ``"add"`` for layers that add to what enters them, ``"norm"`` for such that
            also even out its size, see :class:`~crossgcn.models.node_classifier.NodeClassifier`.
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
        aggr: str = "gcn",
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
                "residual='add' adds to what enters a layer where both are equally wide, and none "
                f"of these {num_layers} layers is: give at least 3 layers"
            )
        super().__init__(
            (
                CrossGCNConv(
                    width_in,
                    width_out,
                    layer_order,
                    aggr=_aggregation(aggr),
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
    """What a layer of that order takes, by what crosses features in it."""
    if transform == "cross":
        return {"transform": transform, **settings}
    linear = order == 1 and transform not in WITHOUT_ORDER
    kept = {name: value for name, value in settings.items() if name not in ONLY_OF_CROSSES}
    return {"transform": "linear" if linear else transform, **kept}


def _aggregation(name: str) -> str | Callable[[int], NodeAggregation]:
    """What a layer takes; it knows GCN's by the name of PyG, and has kernels for it."""
    if name in ("gcn", "add"):
        return "add"
    if name not in AGGREGATIONS:
        raise unknown_name("aggregation", name, AGGREGATIONS)
    return partial(make_aggregation, name)
