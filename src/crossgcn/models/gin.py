"""GIN as the paper compares with it: a perceptron in every graph convolution."""

from __future__ import annotations

from typing import Any

from crossgcn.layers import MLPConv
from crossgcn.models.stack import Stack, layer_widths

__all__ = ["GIN"]


class GIN(Stack):
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
