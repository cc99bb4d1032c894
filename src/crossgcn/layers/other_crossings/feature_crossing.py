"""The base class of feature-crossing modules of other papers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.cross_feature_transform import check_order
from crossgcn.layers.feature_transform import FeatureTransform, is_dense


class FeatureCrossing(FeatureTransform):
    """A feature transform that multiplies features in another way than the paper's.

    Subclasses index the dimensions of weights from the last, so that weights of several models
    can be stacked. Biases are vectors and weights are matrices, which is how weight decay tells
    them apart (NOTE[D5]).

    Args:
        in_channels: Features per row.
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        bias: Add a bias to the output.

    Shapes:
        - **x**: ``[..., rows, in_channels]`` dense, or ``[rows, in_channels]`` as
          ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`.
        - **output**: ``[..., rows, out_channels]``.
    """

    def __init__(self, in_channels: int, out_channels: int, order: int, bias: bool) -> None:
        super().__init__()
        self.in_channels = check_count("in_channels", in_channels)
        self.out_channels = check_count("out_channels", out_channels)
        self.order = check_order(order)
        self.register_parameter("bias", nn.Parameter(torch.empty(out_channels)) if bias else None)

    def reset_parameters(self) -> None:
        """Set the bias to 0; subclasses draw their weights too."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        if x.shape[-1] != self.in_channels:
            raise BadInput(
                f"{type(self).__name__} was made for rows of {self.in_channels} features; "
                f"got {x.shape[-1]}"
            )
        return super().forward(x)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return f"{self.in_channels}, {self.out_channels}, order={self.order}"

    def _every_feature(self, x: Tensor | SparseMatrix) -> Tensor:
        """Return dense rows, the linear part of modules that multiply single features."""
        if isinstance(x, Tensor) and is_dense(x):
            return x
        raise BadInput(
            f"{type(self).__name__} multiplies single features, so sparse rows cannot be projected "
            "to a few numbers and aggregated before it: use --transform-first "
            "(aggregate_first=False), --transform cross, or x.to_dense()"
        )


def draw(weight: Tensor | None, variance: float) -> None:
    """Fill a weight, if there is one, with uniform numbers of a given variance."""
    if weight is not None:
        bound = math.sqrt(3 * variance)
        nn.init.uniform_(weight, -bound, bound)
