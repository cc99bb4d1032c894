"""A perceptron that sees no graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.stack import Edges, Stack, layer_widths

__all__ = ["MLP"]


class MLP(Stack):
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
