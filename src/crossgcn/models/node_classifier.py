"""The loop every model shares: dropout, layer, ReLU, and again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from crossgcn.errors import BadInput, unknown_name
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.layers import CrossFeatureTransform, FeatureDropout

Edges = Any
Residual = Literal["none", "add", "norm"]


class NodeClassifier(nn.Module):
    """Layers in a row, with dropout before each and ReLU between them.

    Args:
        layers: The layers, first to last.
        dropout: Probability of dropping an entry of a layer's input.
        input_dropout: The same for the first layer's input; ``dropout`` when left out.
        residual: ``"add"`` adds what entered a layer to what leaves it, wherever both are
            equally wide, before the next ReLU. ``"norm"`` does too, and gives every layer but
            the first rows of length 1 to work on: products of products then cannot grow from
            layer to layer, and stacks of any depth and order train.

    Attributes:
        propagations: The kinds of edges along which information travels, one per hop, all
            layers together; they decide how far the receptive field of an output reaches.
        num_models: How many models' weights it holds, one beside the other, where it is
            several models at once (see :mod:`crossgcn.training.model_batch`); else ``None``.
        num_scores: How many of the last layer's outputs are scores, which come first; all
            where ``None``.
    """

    num_models: int | None = None
    num_scores: int | None = None

    def __init__(
        self,
        layers: Iterable[nn.Module],
        dropout: float,
        *,
        input_dropout: float | None = None,
        residual: Residual = "none",
    ) -> None:
        super().__init__()
        if residual not in get_args(Residual):
            raise unknown_name("residual", str(residual), get_args(Residual))
        self.layers = nn.ModuleList(layers)
        self.dropout = FeatureDropout(dropout)
        self.input_dropout = (
            self.dropout if input_dropout is None else FeatureDropout(input_dropout)
        )
        self.residual = residual

    @property
    def is_calibrated(self) -> bool:
        """Whether no layer waits for :func:`~crossgcn.models.node_classifier.calibrate`."""
        scales = (getattr(module, "projection_scale", None) for module in self.layers.modules())
        return all(scale is None or bool((scale != 1.0).any()) for scale in scales)

    @property
    def propagations(self) -> tuple[EdgeKind, ...]:
        """All layers' hops, first to last."""
        return tuple(kind for layer in self.layers for kind in _propagations(layer))

    @property
    def num_hops(self) -> int:
        """How many times information travels along an edge."""
        return len(self.propagations)

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
                such thing per hop, for a receptive field that shrinks from
                hop to hop.
            edge_weight: One weight per edge of a COO ``edge_index``.
        """
        hidden: Any = x
        hop = 0
        for position, layer in enumerate(self.layers):
            entered = hidden
            dropout = self.dropout if position > 0 else self.input_dropout
            hidden = dropout(hidden, site=position, activate=position > 0)
            if self.residual == "norm" and position > 0:
                hidden = normalize(hidden, dim=-1)
            hops = len(_propagations(layer))
            edges = _edges_of_layer(edge_index, hop, hops)
            hidden = self.apply_layer(layer, hidden, edges, edge_weight)
            if self.residual != "none" and position > 0 and entered.size(-1) == hidden.size(-1):
                hidden = hidden + _at_targets(entered, edges)
            hop += hops
        return cast(Tensor, hidden)

    def apply_layer(
        self, layer: nn.Module, x: Any, edge_index: Edges, edge_weight: Tensor | None
    ) -> Tensor:
        """One layer's turn; a layer that sees no graph is given none."""
        if not _propagations(layer):
            return cast(Tensor, layer(x))
        return cast(Tensor, layer(x, edge_index, edge_weight))


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


def _propagations(layer: nn.Module) -> tuple[EdgeKind, ...]:
    """A layer's hops; one of GCN's for layers of other people."""
    return cast("tuple[EdgeKind, ...]", getattr(layer, "propagations", ("gcn",)))


def _edges_of_layer(edge_index: Edges, hop: int, hops: int) -> Edges:
    if not isinstance(edge_index, Sequence):
        return edge_index
    return edge_index[hop] if hops == 1 else edge_index[hop : hop + hops]


def _at_targets(entered: Tensor, edges: Edges) -> Tensor:
    """What entered a layer, at the nodes whose output leaves it."""
    for edge in edges if isinstance(edges, Sequence) else [edges]:
        if isinstance(edge, SparseMatrix):
            entered = edge.own_rows(entered)
    return entered


@torch.no_grad()
def calibrate(model: nn.Module, x: Tensor | SparseMatrix, edges: Edges) -> None:
    """Scale each layer with ``scaling="unit"`` so that its orders start at the same size.

    One pass without dropout: a layer is scaled by what the scaled layers before it give. The
    scales are constants from here on, part of the model's state, and depend on the weights
    and these inputs alone.

    Args:
        model: One of ours or any other that holds such layers and takes ``x`` and ``edges``, not
            yet trained; layers without scaling are left as they are.
        x: Node features, as the model takes them.
        edges: Edges, likewise; ``PreparedGraph.view`` gives both.

    Raises:
        BadInput: If the model is several models at once.
    """
    models = getattr(model, "num_models", None)
    if models is not None:
        raise BadInput(
            f"this model holds the weights of {models} models; calibrate each of them "
            "before they are stacked"
        )
    was_training = model.training
    with ExitStack() as measuring:
        for module in model.modules():
            if isinstance(module, CrossFeatureTransform):
                measuring.enter_context(module.calibrating())
        model.eval()(x, edges)
    model.train(was_training)
