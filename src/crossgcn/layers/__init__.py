"""Layers: the cross-feature transform, its graph convolution, and crosses in any other layer."""

from crossgcn.layers.cross_feature_transform import CrossFeatureTransform
from crossgcn.layers.cross_gcn_conv import CrossGCNConv
from crossgcn.layers.crossify import crossed_maps, crossify
from crossgcn.layers.dropout import FeatureDropout
from crossgcn.layers.mlp_transform import MLPTransform

__all__ = [
    "CrossFeatureTransform",
    "CrossGCNConv",
    "FeatureDropout",
    "MLPTransform",
    "crossed_maps",
    "crossify",
]
