"""The graph convolutional network of Kipf and Welling."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.layers import CrossFeatureTransform, MLPConv
from crossgcn.models.cross_gcn import CrossGCN
from crossgcn.models.node_classifier import Edges, NodeClassifier, layer_widths


class GCN(CrossGCN):
    """A :class:`~crossgcn.CrossGCN` of order 1: no crosses, PyG's ``GCNConv`` in each layer.

    Being the same code, it differs from Cross-GCN in nothing but the crosses.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: How many layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        **kwargs: For every layer, such as ``bias`` and ``cached``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            dropout,
            order=1,
            order_weights="fixed",
            **kwargs,
        )


class GIN(NodeClassifier):
    """A stack of :class:`~crossgcn.layers.MLPConv`, without batch normalisation.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers and of the perceptrons within.
        out_channels: Number of classes.
        num_layers: How many layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        **kwargs: For every layer, such as ``aggregate_first`` and ``bias``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        **kwargs: Any,
    ) -> None:
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        super().__init__(
            (
                MLPConv(width_in, hidden_channels, width_out, **kwargs)
                for width_in, width_out in widths
            ),
            dropout,
        )


class MLP(NodeClassifier):
    """Linear layers on each node's own features; a graph is worth the distance to this.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: How many layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        bias: Give each layer a bias.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        *,
        bias: bool = True,
    ) -> None:
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        super().__init__(
            (
                CrossFeatureTransform(
                    width_in, width_out, order=1, order_weights="fixed", bias=bias
                )
                for width_in, width_out in widths
            ),
            dropout,
        )

    def forward(
        self, x: Any, edge_index: Edges = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Class scores of each node; edges are taken, as by any model, and ignored."""
        return super().forward(x, None, None)


class SemiEmb(MLP):
    r"""An MLP trained with graph Laplacian regularisation on its predictions.

    The graph enters the objective only, so a trained model needs no edges:

    .. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
        + \frac{\gamma}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2
        + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2,
        \qquad \mathbf{p}_i = \mathrm{softmax}(\mathbf{z}_i)

    The second sum runs over every undirected edge of the graph, each once,
    whether or not its ends are labelled: in each step all nodes are predicted.
    :mod:`crossgcn.training.objective` computes it. That it compares predictions
    after the softmax, not scores before it, and the default weight were chosen by
    validation accuracy.

    Args:
        in_channels: Features per node; ``-1`` to learn it from the first input.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: How many layers, at least 1.
        dropout: Probability of dropping an entry of a layer's input.
        laplacian_weight: :math:`\gamma`, finite and not negative; 0 is an MLP.
        **kwargs: For :class:`~crossgcn.models.baselines.MLP`, such as ``bias``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        *,
        laplacian_weight: float = 0.3,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, num_layers, dropout, **kwargs)
        if not (math.isfinite(laplacian_weight) and laplacian_weight >= 0):
            raise BadInput(
                f"laplacian_weight must be a finite number of at least 0; got {laplacian_weight}"
            )
        self.laplacian_weight = laplacian_weight
