"""Exact scores of all nodes of a large graph, layer by layer, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from crossgcn.errors import BadInput
from crossgcn.graph.graph_source import Features, GraphSource
from crossgcn.layers.graph_convolution import GraphConvolution
from crossgcn.models.mlp import MLP
from crossgcn.models.stack import Stack
from crossgcn.training.shared_rows import Gather, SharedRows, StreamedHop

__all__ = ["infer"]

Rows = Callable[[Tensor], Tensor]
Enter = Callable[[Tensor], Any]


def infer(
    model: Stack,
    source: GraphSource,
    *,
    nodes: Tensor | None = None,
    rows_per_chunk: int = 1 << 16,
    folder: Path | None = None,
    device: torch.device | str = "cpu",
    rank: int = 0,
    world_size: int = 1,
    gather: Gather | None = None,
) -> Tensor:
    """What ``model`` says of nodes when it sees all their neighbours, in bounded memory.

    Each layer is computed for all nodes that the next one needs before that one starts, so a
    node's features are transformed once per layer, whatever its degree. At any time there are the
    hidden values of two layers, and the edges of some rows; the graph itself stays where it is.
    Aggregations over several hops at once (``appnp``, ``mixhop``, ``cheb``, random propagation)
    also keep a few matrices as wide as what they join, in memory.

    Args:
        model: Any :class:`~crossgcn.models.stack.Stack` of this package's layers, on ``device``.
        source: The graph.
        nodes: The nodes to score; all where left out.
        rows_per_chunk: How many nodes are worked on at once.
        folder: Keep hidden values in temporary files there instead of in memory.
        device: Where layers are computed.
        rank: Which process this is, where several share the work.
        world_size: Of how many.
        gather: Adds up a matrix over all processes, in place: rows that others computed are zero
            in it. ``torch.distributed.all_reduce`` where left out.

    Returns:
        Scores, a row per node, on the CPU; in every process.
    """
    _check_model(model)
    work = SharedRows(
        source,
        rows_per_chunk=rows_per_chunk,
        folder=folder,
        device=torch.device(device),
        dtype=next(model.parameters()).dtype,
        rank=rank,
        world_size=world_size,
        gather=gather,
    )
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            scores = _run(model, work, None if nodes is None else torch.unique(nodes))
    finally:
        model.train(was_training)
    return scores if nodes is None else scores[nodes]


def _run(model: Stack, work: SharedRows, nodes: Tensor | None) -> Tensor:
    needed = _needed(model, work, nodes)
    hidden: Tensor | None = None
    for position, layer in enumerate(model.layers):
        last = position == len(model.layers) - 1
        width: int = layer.out_channels  # type: ignore[assignment]
        enter = partial(_enter, model, work, hidden)
        compute = (
            _convolve(layer, work, enter, needed[position])
            if (isinstance(layer, GraphConvolution))
            else _transform(layer, enter)
        )
        if model.residual != "none" and hidden is not None and hidden.size(-1) == width:
            compute = _add_entered(compute, work, hidden)
        hidden = work.fill(width, compute, needed[position + 1], in_memory=last)
    assert hidden is not None
    return hidden


def _enter(model: Stack, work: SharedRows, hidden: Tensor | None, nodes: Tensor) -> Features:
    """What a layer is given of some nodes; see :meth:`crossgcn.models.stack.Stack.forward`."""
    if hidden is None:
        return work.features(nodes)
    active = work.read(hidden, nodes).relu()
    return normalize(active, dim=-1) if model.residual == "norm" else active


def _transform(layer: nn.Module, enter: Enter) -> Rows:
    return lambda rows: layer(enter(rows))


def _add_entered(compute: Rows, work: SharedRows, hidden: Tensor) -> Rows:
    return lambda rows: compute(rows) + work.read(hidden, rows)


def _convolve(
    layer: GraphConvolution, work: SharedRows, enter: Enter, needed: Tensor | None
) -> Rows:
    """How a graph convolution's rows are computed, once all nodes have sent theirs."""

    def send(nodes: Tensor) -> Tensor:
        return layer.send(enter(nodes))

    width = layer.sent_channels
    several = len(layer.propagations) > 1
    if width is not None or several:
        sent = work.fill(width or layer.transform.in_channels, send, needed)
        send = partial(work.read, sent)
    if several:
        hops = [StreamedHop(work, kind) for kind in layer.propagations]
        joined = layer.join(sent.to(work.device), hops)  # type: ignore[arg-type]
        return lambda rows: layer.finish(joined[rows.to(work.device)])
    (kind,) = layer.propagations
    if layer.sums_neighbours and width is not None:
        return lambda rows: layer.finish(work.multiply(rows, kind, sent))

    def compute(rows: Tensor) -> Tensor:
        columns, block = work.block(rows, kind)
        return layer.finish(layer.join(send(columns), (block,)))

    return compute


def _needed(model: Stack, work: SharedRows, nodes: Tensor | None) -> list[Tensor | None]:
    """The nodes that enter each layer, and those that leave the last; ``None`` for all."""
    needed = [nodes]
    for layer in reversed(model.layers):
        hops = len(layer.propagations)  # type: ignore[arg-type]
        after = needed[-1]
        if after is not None and hops > 0:
            after = work.reach(after) if hops == 1 else None
        needed.append(after)
    return needed[::-1]


def _check_model(model: Stack) -> None:
    if not isinstance(model, Stack) or type(model).forward not in (Stack.forward, MLP.forward):
        raise BadInput(
            f"{type(model).__name__} is not a plain stack of layers, so it cannot be computed "
            "layer by layer: call it on the whole graph"
        )
    if model.num_models is not None:
        raise BadInput("several models stacked into one cannot be computed layer by layer")
    for layer in model.layers:
        if not isinstance(layer, GraphConvolution) and getattr(layer, "propagations", None) != ():
            raise BadInput(
                f"{type(layer).__name__} is no layer of this package, so how its neighbours are "
                "joined is not known: call the model on the whole graph"
            )
