"""Cross-GCN: cross-feature graph convolutions, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from crossgcn.errors import BadInput
from crossgcn.layers import CrossGCNConv
from crossgcn.layers.catalogue import ONLY_OF_CROSS
from crossgcn.layers.graph_convolution import Aggregation
from crossgcn.models.node_classifier import NodeClassifier, Residual, layer_widths, make_stack


class CrossGCN(NodeClassifier):
    """Any number of :class:`~crossgcn.CrossGCNConv` layers.

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input.
        hidden_channels: Width of the hidden layers.
        num_layers: Number of layers, at least 1.
        out_channels: Number of classes; ``hidden_channels`` by default.
        dropout: Probability of dropping an entry of a layer's input.
        act: The activation between layers, by a name of PyG's, a function, or ``None``; like
            ``act_first``, ``act_kwargs``, ``norm``, ``norm_kwargs`` and ``jk`` as in PyG's models.
        norm: The normalisation between layers, such as ``"batch_norm"``.
        jk: Jumping knowledge: ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``.
        order: Highest order of the crosses, one for all layers or one per
            layer: ``order=[2, 1]`` crosses in the first layer only.
        aggr: The aggregation of every layer, see :class:`~crossgcn.CrossGCNConv`; GCN's
            normalised sum by default.
        transform: The feature transform, see :class:`~crossgcn.CrossGCNConv`; one for all
            layers or one per layer: ``["mlp", "linear"]``.
        residual: ``"none"``, ``"add"`` or ``"norm"``, see
            :class:`~crossgcn.models.node_classifier.NodeClassifier`.
        **kwargs: For every :class:`~crossgcn.CrossGCNConv`, such as
            ``order_weights``, ``first_order``, ``aggregate_first``, ``scaling``,
            ``bias`` and ``cached``.

    Shapes:
        - **x**: ``[nodes, in_channels]``, dense or sparse CSR.
        - **edge_index**: ``[2, edges]``, or a sparse adjacency (transposed).
        - **output**: class scores ``[nodes, out_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        act_first: bool = False,
        act_kwargs: Mapping[str, Any] | None = None,
        norm: str | nn.Module | None = None,
        norm_kwargs: Mapping[str, Any] | None = None,
        jk: str | None = None,
        *,
        order: int | Sequence[int] = 2,
        aggr: Aggregation = "gcn",
        transform: str | Sequence[str] = "cross",
        residual: Residual = "none",
        **kwargs: Any,
    ) -> None:
        out, stack = make_stack(
            hidden_channels,
            num_layers,
            out_channels,
            act=act,
            act_first=act_first,
            act_kwargs=act_kwargs,
            norm=norm,
            norm_kwargs=norm_kwargs,
            jk=jk,
        )
        widths = layer_widths(in_channels, hidden_channels, out, num_layers)
        orders = _one_per_layer("order", order, num_layers)
        transforms = _one_per_layer("transform", transform, num_layers)
        if residual == "add" and not any(a == b for a, b in widths[1:]):
            raise BadInput(
                "residual='add' needs a layer whose input and output have the same width, and none "
                f"of these {num_layers} layers has: give at least 3 layers"
            )
        others = {name: value for name, value in kwargs.items() if name not in ONLY_OF_CROSS}
        layers = (
            CrossGCNConv(
                *width, order, aggr=aggr, transform=name, **(kwargs if name == "cross" else others)
            )
            for width, order, name in zip(widths, orders, transforms, strict=True)
        )
        super().__init__(layers, dropout, residual=residual, stack=stack)


def _one_per_layer(what: str, given: Any, num_layers: int) -> list[Any]:
    values = [given] * num_layers if isinstance(given, str | int) else list(given)
    if len(values) != num_layers:
        raise BadInput(
            f"{what}={values} names {len(values)} layers, but num_layers is {num_layers}: "
            f"give one {what} for all layers or one per layer"
        )
    return values
