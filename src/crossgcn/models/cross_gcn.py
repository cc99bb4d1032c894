"""Cross-GCN, and the models to compare it with: GCN, GIN and a perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from crossgcn.errors import BadInput
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv, MLPTransform
from crossgcn.layers.order_weights import OrderWeights
from crossgcn.models.node_classifier import NodeClassifier, layer_widths


class CrossGCN(NodeClassifier):
    """A stack of :class:`~crossgcn.CrossGCNConv` layers.

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input.
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers, at least 1.
        out_channels: Number of classes; ``hidden_channels`` by default.
        dropout: Probability of dropping an entry of a layer's input.
        order: Highest order of the crosses, one for all layers or one per
            layer: ``order=[2, 1]`` crosses in the first layer only.
        order_weights: See :class:`~crossgcn.CrossFeatureTransform`. A module is copied for every
            layer.
        **kwargs: For every :class:`~crossgcn.CrossGCNConv`, such as ``aggr``, ``first_order``,
            ``aggregate_first``, ``bias`` and ``cached``.

    Shapes:
        - **x**: ``[nodes, in_channels]``, dense or sparse CSR.
        - **edge_index**: ``[2, edges]``, or a sparse adjacency (transposed).
        - **output**: class scores ``[nodes, out_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        *,
        order: int | Sequence[int] = 2,
        order_weights: OrderWeights = "gated",
        **kwargs: Any,
    ) -> None:
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        orders = [order] * num_layers if isinstance(order, int) else list(order)
        if len(orders) != num_layers:
            raise BadInput(
                f"order={orders} names {len(orders)} layers, but num_layers is {num_layers}: "
                "give one order for all layers or one per layer"
            )
        layers = (
            CrossGCNConv(*width, order, order_weights=deepcopy(order_weights), **kwargs)
            for width, order in zip(widths, orders, strict=True)
        )
        super().__init__(layers, dropout)


class GCN(CrossGCN):
    """A :class:`~crossgcn.CrossGCN` of order 1, whose layers compute PyG's ``GCNConv``.

    Arguments are those of :class:`~crossgcn.CrossGCN`; ``**kwargs`` go to every layer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, order=1, order_weights="fixed", **kwargs)


class GIN(NodeClassifier):
    """Layers that aggregate, then apply a perceptron, as the paper's GIN.

    The aggregation is GCN's normalised sum, and there is no batch normalisation (the paper's
    footnote). ``hidden_channels`` is also the hidden width of the perceptrons, and ``bias`` also
    applies to them. Further arguments go to every :class:`~crossgcn.CrossGCNConv`.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        *,
        aggregate_first: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = {"aggregate_first": aggregate_first, "bias": bias, **kwargs}
        layers = (
            CrossGCNConv(
                width,
                out,
                transform=MLPTransform(width, hidden_channels, out, bias=bias),
                **settings,
            )
            for width, out in layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        )
        super().__init__(layers, dropout)


class MLP(NodeClassifier):
    """Linear layers on each node's own features; it ignores edges."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        *,
        bias: bool = True,
    ) -> None:
        layers = (
            CrossFeatureTransform(*width, order=1, order_weights="fixed", bias=bias)
            for width in layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        )
        super().__init__(layers, dropout)
