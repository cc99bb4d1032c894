"""The batches that suit a model: sampled, exact, or aggregated beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.graph.aggregated_rows import AggregatedRows
from crossgcn.graph.graph_source import GraphSource
from crossgcn.graph.node_batches import NodeBatches
from crossgcn.graph.sparse_matrix import SparseMatrix
from crossgcn.layers.graph_convolution import GraphConvolution
from crossgcn.models.stack import Stack

__all__ = ["batches_of"]


def batches_of(
    model: Stack,
    source: GraphSource,
    nodes: Tensor,
    *,
    fanouts: Sequence[int] | None,
    aggregate_once: bool | None = None,
    folder: Path | None = None,
    num_workers: int = 0,
    **settings: Any,
) -> NodeBatches | AggregatedRows:
    """Batches of nodes for a model.

    A model that looks one hop far needs no sampling, whatever ``fanouts`` say: its batches have
    all neighbours. If it also aggregates before it transforms, and the features are dense, these
    are summed once and batches hold the sums
    (:class:`~crossgcn.graph.aggregated_rows.AggregatedRows`).

    Args:
        model: The model.
        source: The graph.
        nodes: The nodes to go through.
        fanouts: See :class:`~crossgcn.graph.node_batches.NodeBatches`.
        aggregate_once: ``True`` sums features once also where dropout then drops entries of the
            sums instead of the features'; ``False`` never does. When left out, they are where it
            changes nothing.
        folder: Keep such sums in a temporary file there instead of in memory.
        num_workers: Threads that prepare batches ahead of time.
        **settings: ``batch_size``, ``seed``, ``shuffle``, ``rank`` and ``world_size``.
    """
    if len(model.propagations) == 1:
        fanouts = None
        if aggregate_once is None:
            aggregate_once = model.input_dropout.p == 0.0
        if aggregate_once and _may_aggregate_once(model, source):
            (kind,) = model.propagations
            return AggregatedRows(source, nodes, kind, folder=folder, **settings)
    rescaled = [not _weighs_messages(layer) for layer in model.layers for _ in _hops(layer)]
    return NodeBatches(
        source,
        nodes,
        model.propagations,
        fanouts=fanouts,
        num_workers=num_workers,
        rescaled=rescaled,
        **settings,
    )


def _may_aggregate_once(model: Stack, source: GraphSource) -> bool:
    """Whether the first layer needs of the graph no more than sums of dense features."""
    layer = model.layers[0]
    return (
        isinstance(layer, GraphConvolution)
        and layer.aggregate_first
        and layer.sums_neighbours
        and not isinstance(source.features(torch.zeros(1, dtype=torch.long)), SparseMatrix)
    )


def _weighs_messages(layer: nn.Module) -> bool:
    return bool(getattr(getattr(layer, "aggregation", None), "weighs_messages", False))


def _hops(layer: nn.Module) -> Sequence[Any]:
    hops: Sequence[Any] = getattr(layer, "propagations", ("gcn",))
    return hops
