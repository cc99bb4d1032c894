"""The loop every model of the paper shares: dropout, layer, ReLU, and again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.layers import FeatureDropout

__all__ = ["Stack", "layer_widths"]

Edges = Any


class Stack(nn.Module):
    """Layers in a row, with dropout before each and ReLU between them.

    Args:
        layers: The layers, first to last.
        dropout: Probability of dropping an entry of a layer's input.

    Attributes:
        num_hops: How many times information travels along an edge, which
            decides how far the receptive field of an output reaches.
        num_models: How many models' weights it holds, one beside the other, where it is
            several models at once (see :mod:`crossgcn.training.stacking`); else ``None``.
        num_scores: How many of the last layer's outputs are scores, which come first; all
            where ``None``.
    """

    num_hops: int
    num_models: int | None = None
    num_scores: int | None = None

    def __init__(self, layers: Iterable[nn.Module], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = FeatureDropout(dropout)
        self.num_hops = len(self.layers)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(
        self, x: Tensor | SparseMatrix, edge_index: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Class scores of each node, before any softmax.

        Args:
            x: Node features, dense or sparse.
            edge_index: Anything a graph layer takes; or a sequence with one
                such thing per layer, for a receptive field that shrinks from
                layer to layer.
            edge_weight: One weight per edge of a COO ``edge_index``.
        """
        hidden: Any = x
        for position, layer in enumerate(self.layers):
            hidden = self.dropout(hidden, site=position, activate=position > 0)
            edges = _edges_of_layer(edge_index, position)
            hidden = self.apply_layer(layer, hidden, edges, edge_weight)
        return cast(Tensor, hidden)

    def apply_layer(
        self, layer: nn.Module, x: Any, edge_index: Edges, edge_weight: Tensor | None
    ) -> Tensor:
        """One layer's turn; a model that sees no graph overrides this."""
        out: Tensor = layer(x, edge_index, edge_weight)
        return out


def layer_widths(
    in_channels: int, hidden_channels: int, out_channels: int, num_layers: int
) -> list[tuple[int, int]]:
    """Input and output width of each layer of a stack."""
    if num_layers < 1:
        raise BadInput(f"num_layers must be at least 1; got {num_layers}")
    if hidden_channels < 1:
        raise BadInput(f"hidden_channels must be at least 1; got {hidden_channels}")
    widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
    return list(pairwise(widths))


def _edges_of_layer(edge_index: Edges, position: int) -> Edges:
    if isinstance(edge_index, Sequence):
        return edge_index[position]
    return edge_index
