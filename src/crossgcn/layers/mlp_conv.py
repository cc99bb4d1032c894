"""A multi-layer perceptron in the place of the cross-feature transform: the paper's GIN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.graph import SparseMatrix
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform
from crossgcn.layers.graph_convolution import GraphConvolution


class MLPTransform(nn.Module):
    r"""A perceptron with one hidden layer, which may approximate crosses but multiplies nothing.

    .. math:: \mathbf{z} = \mathbf{W}^2\,\text{ReLU}(\mathbf{W}^1\mathbf{x} + \mathbf{b}^1)

    Args:
        in_channels: Features per row; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layer.
        out_channels: Width of the output.
        bias: Use :math:`\mathbf{b}^1`.

    Shapes:
        - **x**: ``[rows, in_channels]``, dense or sparse.
        - **output**: ``[rows, out_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *, bias: bool = True
    ) -> None:
        super().__init__()
        self.hidden = CrossFeatureTransform(
            in_channels, hidden_channels, order=1, order_weights="fixed", bias=bias
        )
        self.output = CrossFeatureTransform(
            hidden_channels, out_channels, order=1, order_weights="fixed", bias=False
        )

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.hidden.reset_parameters()
        self.output.reset_parameters()

    @property
    def in_channels(self) -> int:
        """Features per row, -1 while not yet known."""
        return self.hidden.in_channels

    @property
    def num_projections(self) -> int:
        """Width of the linear part."""
        return self.hidden.out_channels

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x`` on its own."""
        return self.combine(self.project(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """The linear part, which may be exchanged with neighbour aggregation."""
        return self.hidden.project(x)

    def combine(self, projections: Tensor) -> Tensor:
        """The rest: bias, ReLU and the output map."""
        bias = self.hidden.bias
        hidden = torch.relu(projections if bias is None else projections + bias.unsqueeze(-2))
        out: Tensor = self.output(hidden)
        return out


class MLPConv(GraphConvolution):
    r"""Graph convolution with a perceptron as feature transformation.

    .. math:: \mathbf{Z} = \text{MLP}(\hat{\mathbf{A}}\mathbf{X}) + \mathbf{b}

    This is the paper's GIN layer: GCN's normalised aggregation, then an MLP,
    and no batch normalisation (the paper's footnote).

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the perceptron's hidden layer.
        out_channels: Width of the output.
        aggregate_first: Aggregate, then transform, as GIN does; ``False``
            transforms each node first.
        bias: Use biases, in the perceptron and after it.
        **kwargs: As for :class:`~crossgcn.CrossGCNConv`.

    Shapes:
        As for :class:`~crossgcn.CrossGCNConv`.
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
