"""The base class of models: a stack of layers, with dropout and ReLU between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import Any, cast

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers import FeatureDropout

Edges = Any


class NodeClassifier(nn.Module):
    """A stack of layers, with dropout before each and ReLU between them.

    Args:
        dropout: Probability of dropping an entry of a layer's input.

    Attributes:
        target_scale: Mean and standard deviation of a number to predict, ``[2]``; ``None`` for
            classes. See :meth:`predict_number`.
    """

    target_scale: Tensor | None

    def __init__(self, layers: Iterable[nn.Module], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        for layer in self.layers:
            flow = getattr(layer, "flow", "source_to_target")
            if flow != "source_to_target":
                raise BadInput(
                    f"a model aggregates from source to target; got flow={flow!r}: reverse the "
                    "edges instead, edge_index.flip(0)"
                )
        self.dropout = FeatureDropout(dropout)
        self.register_buffer("target_scale", None)

    def reset_parameters(self) -> None:
        """Initialise all parameters."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Edges = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Compute class scores of each node, before any softmax.

        Args:
            x: Features of the nodes, ``[nodes, in_channels]``, dense or sparse.
            edge_index: As for a graph layer; or a sequence of one prepared matrix per hop, whose
                receptive field may shrink from hop to hop. Models without hops ignore it.
            edge_weight: One weight per edge of a COO ``edge_index``.
        """
        if edge_index is None and self.propagations:
            raise BadInput(f"{type(self).__name__} needs edges: call model(x, edge_index)")
        hidden: Any = x
        edges = iter(edge_index) if isinstance(edge_index, Sequence) else repeat(edge_index)
        for position, layer in enumerate(self.layers):
            hidden = self.dropout(hidden, site=position, activate=position > 0)
            if _propagations(layer):
                hidden = layer(hidden, next(edges), edge_weight)
            else:
                hidden = layer(hidden)
        return self.in_unit(hidden)

    def predict_number(self, mean: float = 0.0, deviation: float = 1.0) -> None:
        """Make the model predict a number; scores in evaluation have the number's unit.

        In training, scores are standardised: ``(number - mean) / deviation``.
        """
        self.target_scale = torch.tensor([mean, deviation], dtype=torch.float64)

    def in_unit(self, scores: Tensor) -> Tensor:
        """Convert standardised scores to the unit of the target, in evaluation."""
        if self.training or self.target_scale is None:
            return scores
        return scores.double() * self.target_scale[1] + self.target_scale[0]

    @property
    def propagations(self) -> tuple[EdgeKind, ...]:
        """The kind of edges of each graph layer, first to last."""
        return tuple(kind for layer in self.layers for kind in _propagations(layer))

    @property
    def num_outputs(self) -> int:
        """Number of classes; 1 for a number."""
        return self.out_channels

    @property
    def in_channels(self) -> int:
        """Features per node, -1 while not yet known."""
        return int(self.layers[0].in_channels)  # type: ignore[arg-type]

    @property
    def out_channels(self) -> int:
        """Width of the output."""
        return int(self.layers[-1].out_channels)  # type: ignore[arg-type]

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def convs(self) -> nn.ModuleList:
        """The layers, by PyG's name."""
        return self.layers


def layer_widths(
    in_channels: int, hidden_channels: int, out_channels: int | None, num_layers: int
) -> list[tuple[int, int]]:
    """Return input and output width of each layer."""
    check_count("num_layers", num_layers)
    check_count("hidden_channels", hidden_channels)
    last = hidden_channels if out_channels is None else out_channels
    widths = [in_channels, *[hidden_channels] * (num_layers - 1), last]
    return list(pairwise(widths))


def _propagations(layer: nn.Module) -> tuple[EdgeKind, ...]:
    """Return the kinds of edges of a layer; layers of other packages use GCN's."""
    return cast("tuple[EdgeKind, ...]", getattr(layer, "propagations", ("gcn",)))
