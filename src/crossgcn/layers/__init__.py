"""Layers: the cross-feature transform, its graph convolution, and their parts by name.

Names are imported on first use, because the command line reads ``layers.catalogue`` and must not
wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossgcn.lazy_names import lazy_names

if TYPE_CHECKING:
    from crossgcn.layers.aggregation import NodeAggregation
    from crossgcn.layers.catalogue import (
        AGGREGATIONS,
        ORDER_AGGREGATIONS,
        TRANSFORMS,
        make_aggregation,
        make_transform,
    )
    from crossgcn.layers.cross_feature_transform import CrossFeatureTransform, MLPTransform
    from crossgcn.layers.cross_gcn_conv import CrossGCNConv
    from crossgcn.layers.feature_transform import FeatureDropout, FeatureTransform
    from crossgcn.layers.graph_convolution import GraphConvolution
    from crossgcn.layers.orders import OrderAggregator

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
    "aggregation": ("NodeAggregation",),
    "catalogue": (
        "AGGREGATIONS",
        "ORDER_AGGREGATIONS",
        "TRANSFORMS",
        "make_aggregation",
        "make_transform",
    ),
    "cross_feature_transform": ("CrossFeatureTransform", "MLPTransform"),
    "cross_gcn_conv": ("CrossGCNConv",),
    "feature_transform": ("FeatureDropout", "FeatureTransform"),
    "graph_convolution": ("GraphConvolution",),
    "orders": ("OrderAggregator",),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
