"""The perceptron that transforms features in the paper's GIN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crossgcn.graph import SparseMatrix
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform


class MLPTransform(nn.Module):
    r"""A perceptron with one hidden layer, which multiplies no features explicitly.

    .. math:: \mathbf{z} = \mathbf{W}^2\,\text{ReLU}(\mathbf{W}^1\mathbf{x} + \mathbf{b}^1)

    Args:
        in_channels: Features per row; ``-1`` to infer it from the first input.
        hidden_channels: Width of the hidden layer.
        out_channels: Width of the output.
        bias: Use :math:`\mathbf{b}^1`. The output has no bias: a convolution adds its own.

    Shapes:
        - **x**: as for :class:`~crossgcn.CrossFeatureTransform`.
        - **output**: ``[..., rows, out_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *, bias: bool = True
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.hidden = CrossFeatureTransform(in_channels, hidden_channels, order=1, bias=bias)
        self.output = CrossFeatureTransform(hidden_channels, out_channels, order=1, bias=False)

    def reset_parameters(self) -> None:
        """Initialise all weights."""
        self.hidden.reset_parameters()
        self.output.reset_parameters()

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        return self.combine(self.project(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Apply the first linear map, without its bias."""
        return self.hidden.project(x)

    def combine(self, projections: Tensor) -> Tensor:
        """Apply the bias, ReLU and the second linear map to projections."""
        bias = self.hidden.bias
        hidden = torch.relu(projections if bias is None else projections + bias)
        out: Tensor = self.output(hidden)
        return out

    @property
    def in_channels(self) -> int:
        """Features per row, -1 while not yet known."""
        return self.hidden.in_channels
