"""What multiplies features: the cross-feature transform and its graph convolution."""

from crossgcn.layers.cross_feature_transform import CrossFeatureTransform
from crossgcn.layers.cross_gcn_conv import CrossGCNConv
from crossgcn.layers.feature_dropout import FeatureDropout, feature_dropout
from crossgcn.layers.mlp_conv import MLPConv, MLPTransform

__all__ = [
    "CrossFeatureTransform",
    "CrossGCNConv",
    "FeatureDropout",
    "MLPConv",
    "MLPTransform",
    "feature_dropout",
]
