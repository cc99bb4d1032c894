"""Layers: the cross-feature transform, its graph convolution, and their parts by name.

Names are imported on first use, because the command line reads ``layers.catalogue`` and must not
wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.layers.aggregation.node_aggregation import NodeAggregation
    from crossgcn.layers.catalogue import (
        AGGREGATIONS,
        ORDER_AGGREGATIONS,
        TRANSFORMS,
        make_aggregation,
        make_transform,
    )
    from crossgcn.layers.cross_feature_transform import CrossFeatureTransform
    from crossgcn.layers.cross_gcn_conv import CrossGCNConv
    from crossgcn.layers.feature_dropout import FeatureDropout
    from crossgcn.layers.feature_transform import FeatureTransform
    from crossgcn.layers.graph_convolution import GraphConvolution
    from crossgcn.layers.mlp_transform import MLPTransform
    from crossgcn.layers.orders.order_aggregation import OrderAggregator

__all__ = [
    "AGGREGATIONS",
    "ORDER_AGGREGATIONS",
    "TRANSFORMS",
    "CrossFeatureTransform",
    "CrossGCNConv",
    "FeatureDropout",
    "FeatureTransform",
    "GraphConvolution",
    "MLPTransform",
    "NodeAggregation",
    "OrderAggregator",
    "make_aggregation",
    "make_transform",
]

_HOMES = {
    "aggregation.node_aggregation": ("NodeAggregation",),
    "catalogue": (
        "AGGREGATIONS",
        "ORDER_AGGREGATIONS",
        "TRANSFORMS",
        "make_aggregation",
        "make_transform",
    ),
    "cross_feature_transform": ("CrossFeatureTransform",),
    "cross_gcn_conv": ("CrossGCNConv",),
    "feature_dropout": ("FeatureDropout",),
    "feature_transform": ("FeatureTransform",),
    "graph_convolution": ("GraphConvolution",),
    "mlp_transform": ("MLPTransform",),
    "orders.order_aggregation": ("OrderAggregator",),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
