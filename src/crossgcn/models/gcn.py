"""The graph convolutional network of Kipf and Welling."""

from __future__ import annotations

from typing import Any

from crossgcn.models.cross_gcn import CrossGCN

__all__ = ["GCN"]


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
