"""Feature-crossing modules of other papers, for the place of the cross-feature transform.

All obey :class:`~crossgcn.layers.graph_convolution.FeatureTransform`. Order K means that no
product has more than K factors; with order 1 each is a linear map.

Two of them, DCN and the decomposed CIN, are functions of a few projections of a row, as ours
is. The others multiply single features: they work on the stored entries of sparse rows, and
sparse rows cannot be aggregated before them.
"""

from collections.abc import Mapping

from crossgcn.layers.other_crossings.cin import CompressedInteractionNetwork
from crossgcn.layers.other_crossings.dcn import CrossNetwork
from crossgcn.layers.other_crossings.dcn_v2 import CrossNetworkV2
from crossgcn.layers.other_crossings.feature_crossing import FeatureCrossing
from crossgcn.layers.other_crossings.hofm import HigherOrderFM

__all__ = [
    "OTHER_CROSSINGS",
    "CompressedInteractionNetwork",
    "CrossNetwork",
    "CrossNetworkV2",
    "FeatureCrossing",
    "HigherOrderFM",
]

OTHER_CROSSINGS: Mapping[str, type[FeatureCrossing]] = {
    "dcn": CrossNetwork,
    "dcn-v2": CrossNetworkV2,
    "cin": CompressedInteractionNetwork,
    "hofm": HigherOrderFM,
}
"""By the names that :func:`~crossgcn.layers.transforms.make_transform` knows them by."""
