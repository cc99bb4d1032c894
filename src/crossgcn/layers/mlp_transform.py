"""A perceptron as feature transform, as in the paper's GIN."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.errors import check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.cross_feature_transform import make_linear
from crossgcn.layers.feature_transform import FeatureTransform


class MLPTransform(FeatureTransform):
    r"""A perceptron with one hidden layer, which multiplies no features explicitly.

    .. math:: \mathbf{z} = \mathbf{W}^2\,\text{ReLU}(\mathbf{W}^1\mathbf{x} + \mathbf{b}^1)

    Args:
        in_channels: Features per row; ``-1`` to infer it from the first input.
        order: Ignored; every transform takes it.
        hidden_channels: Width of the hidden layer; ``out_channels`` by default.
        hidden_bias: Use :math:`\mathbf{b}^1`.
    """

    bias = None
    stackable = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 1,
        *,
        hidden_channels: int | None = None,
        hidden_bias: bool = True,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        width = out_channels
        if hidden_channels is not None:
            width = check_count("hidden_channels", hidden_channels)
        self.hidden = make_linear(in_channels, width, bias=hidden_bias)
        self.output = make_linear(width, out_channels, bias=False)

    @property
    def in_channels(self) -> int:  # type: ignore[override]
        """Features per row, -1 while not yet known."""
        return self.hidden.in_channels

    @property
    def num_projections(self) -> int:
        """Width of the linear part: the hidden layer."""
        return self.hidden.out_channels

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Apply the first linear map."""
        return self.hidden.project(x)

    def combine(self, projections: Tensor) -> Tensor:
        """Apply bias, ReLU and the second linear map."""
        bias = self.hidden.bias
        hidden = torch.relu(projections if bias is None else projections + bias.unsqueeze(-2))
        out: Tensor = self.output(hidden)
        return out
