"""A perceptron as feature transform: the paper's GIN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crossgcn.errors import check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.cross_feature_transform import make_linear
from crossgcn.layers.feature_transform import FeatureTransform
from crossgcn.layers.graph_convolution import GraphConvolution


class MLPTransform(FeatureTransform):
    r"""A perceptron with one hidden layer, which multiplies no features explicitly.

    .. math:: \mathbf{z} = \mathbf{W}^2\,\text{ReLU}(\mathbf{W}^1\mathbf{x} + \mathbf{b}^1)

    Args:
        in_channels: Features per row; ``-1`` to infer it from the first input.
        bias: Use :math:`\mathbf{b}^1`.
    """

    bias = None
    stackable = True

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *, bias: bool = True
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.hidden = make_linear(in_channels, hidden_channels, bias=bias)
        self.output = make_linear(hidden_channels, out_channels, bias=False)

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


def make_mlp(
    in_channels: int,
    out_channels: int,
    order: int,
    *,
    hidden_channels: int | None = None,
    hidden_bias: bool = True,
) -> MLPTransform:
    """Make a perceptron whose hidden layer is by default as wide as its output."""
    hidden = out_channels
    if hidden_channels is not None:
        hidden = check_count("hidden_channels", hidden_channels)
    return MLPTransform(in_channels, hidden, out_channels, bias=hidden_bias)


class MLPConv(GraphConvolution):
    r"""Graph convolution with a perceptron as feature transform.

    .. math:: \mathbf{Z} = \text{MLP}(\hat{\mathbf{A}}\mathbf{X}) + \mathbf{b}

    This is the paper's GIN layer: GCN's normalised aggregation, then a perceptron, without
    batch normalisation (the paper's footnote).

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input.
        aggregate_first: Aggregate, then transform, as GIN does; ``False`` transforms first.
        bias: Use biases, in the perceptron and after it.
        **kwargs: As for :class:`~crossgcn.CrossGCNConv`, whose shapes hold too.
    """

    transform: MLPTransform

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        aggregate_first: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        transform = MLPTransform(in_channels, hidden_channels, out_channels, bias=bias)
        super().__init__(
            transform, out_channels, aggregate_first=aggregate_first, bias=bias, **kwargs
        )
