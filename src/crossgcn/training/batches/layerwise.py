"""Exact scores of all nodes of a large graph, layer by layer, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.functional import normalize

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.graph.matrix import make_rows
from crossgcn.graph.sampling.batches import ExactRows
from crossgcn.graph.sampling.source import Features, GraphSource
from crossgcn.layers.graph_convolution import GraphConvolution
from crossgcn.models.node_classifier import NodeClassifier

Gather = Callable[[Tensor], Any]
_ROWS_AT_ONCE = 1 << 16


class SharedRows:
    """Fills matrices that have a row per node; each process computes some of the rows.

    Args:
        source: The graph.
        rows_per_chunk: How many nodes are worked on at once.
        folder: Where matrices are kept; memory where ``None``.
        device: Where rows are computed.
        dtype: In which.
        rank: Which process this is.
        world_size: Of how many.
        gather: Adds up a matrix over all processes, in place.
    """

    def __init__(
        self,
        source: GraphSource,
        *,
        rows_per_chunk: int,
        folder: Path | None,
        device: torch.device,
        dtype: torch.dtype,
        rank: int = 0,
        world_size: int = 1,
        gather: Gather | None = None,
    ) -> None:
        if world_size > 1 and gather is None and not dist.is_initialized():
            raise BadInput(
                "work is shared among processes through torch.distributed, which is not "
                "initialised: start with torchrun, or give gather"
            )
        self.device = device
        self._rows = ExactRows(source, rows_per_chunk)
        self._folder, self._dtype = folder, dtype
        self._rank, self._world_size, self._gather = rank, world_size, gather

    @property
    def num_nodes(self) -> int:
        """How many nodes the graph has."""
        return self._rows.source.num_nodes

    def features(self, nodes: Tensor) -> Features:
        """Of some nodes, on the device."""
        features = self._rows.source.features(nodes)
        if isinstance(features, SparseMatrix):
            return self._here(features)
        return features.to(self.device, self._dtype)

    def read(self, matrix: Tensor, nodes: Tensor) -> Tensor:
        """Some rows of a matrix, on the device."""
        return matrix[nodes.to(matrix.device)].to(self.device)

    def block(self, nodes: Tensor, kind: EdgeKind) -> tuple[Tensor, SparseMatrix]:
        """See :meth:`~crossgcn.graph.sampling.batches.ExactRows.block`; on the device."""
        columns, block = self._rows.block(nodes, kind)
        return columns, self._here(block)

    def multiply(self, nodes: Tensor, kind: EdgeKind, dense: Tensor) -> Tensor:
        """Sums over the neighbours of some nodes, on the device.

        Args:
            nodes: A row each.
            kind: How edges are weighed.
            dense: A row per node of the graph.
        """
        if self.device.type == "cpu" and dense.device.type == "cpu":
            return self._here(self._rows.rows(nodes, kind)) @ dense  # no row of it is copied
        columns, block = self.block(nodes, kind)
        return block @ self.read(dense, columns)

    def reach(self, nodes: Tensor) -> Tensor:
        """The nodes and all their neighbours."""
        return self._rows.reach(nodes)

    def fill(
        self,
        width: int,
        compute: Callable[[Tensor], Tensor],
        nodes: Tensor | None,
        *,
        in_memory: bool = False,
    ) -> Tensor:
        """A matrix with a row per node, on the CPU.

        Args:
            width: How wide.
            compute: From nodes to their rows.
            nodes: Which rows to compute; the others stay zero. All where ``None``.
            in_memory: Keep it there, whatever the folder.
        """
        matrix = make_rows(self.num_nodes, width, self._dtype, None if in_memory else self._folder)
        for chunk in self._own_chunks(nodes):
            matrix[chunk] = compute(chunk).to(matrix)
        self._share(matrix)
        return matrix

    def _here(self, matrix: SparseMatrix) -> SparseMatrix:
        """In the precision and on the device that rows are computed in."""
        if matrix.values.dtype != self._dtype:
            own, values = matrix.own, matrix.values.to(self._dtype)
            matrix = SparseMatrix(matrix.row_offsets, matrix.columns, values, matrix.shape)
            matrix.own = own
        # A sparse matrix is sorted anew by each move.
        return matrix if self.device.type == "cpu" else matrix.to(self.device)

    def _own_chunks(self, nodes: Tensor | None) -> Iterator[Tensor]:
        return islice(self._rows.chunks(nodes), self._rank, None, self._world_size)

    def _share(self, matrix: Tensor) -> None:
        if self._gather is not None:
            self._gather(matrix)
        elif self._world_size > 1:
            for first in range(0, matrix.size(0), _ROWS_AT_ONCE):
                part = matrix[first : first + _ROWS_AT_ONCE]
                moved = part.to(self.device)
                dist.all_reduce(moved)
                part.copy_(moved)


class StreamedHop:
    """The whole adjacency as a thing to multiply with, of which a chunk of rows exists at a time.

    Args:
        rows: Who computes rows.
        kind: How edges are weighed.
    """

    def __init__(self, rows: SharedRows, kind: EdgeKind) -> None:
        self._rows = rows
        self._kind = kind

    def own_rows(self, dense: Tensor) -> Tensor:
        """Rows and columns are the same nodes."""
        return dense

    def __matmul__(self, dense: Tensor) -> Tensor:
        def multiply(nodes: Tensor) -> Tensor:
            return self._rows.multiply(nodes, self._kind, dense)

        product = self._rows.fill(dense.size(-1), multiply, None, in_memory=True)
        return product.to(dense.device)


Rows = Callable[[Tensor], Tensor]
Enter = Callable[[Tensor], Any]


def infer(
    model: NodeClassifier,
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
        model: Any model of this package, on ``device``.
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


def _run(model: NodeClassifier, work: SharedRows, nodes: Tensor | None) -> Tensor:
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


def _enter(
    model: NodeClassifier, work: SharedRows, hidden: Tensor | None, nodes: Tensor
) -> Features:
    """Return the input of a layer for some nodes, as ``NodeClassifier.forward`` computes it."""
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


def _needed(model: NodeClassifier, work: SharedRows, nodes: Tensor | None) -> list[Tensor | None]:
    """The nodes that enter each layer, and those that leave the last; ``None`` for all."""
    needed = [nodes]
    for layer in reversed(model.layers):
        hops = len(layer.propagations)  # type: ignore[arg-type]
        after = needed[-1]
        if after is not None and hops > 0:
            after = work.reach(after) if hops == 1 else None
        needed.append(after)
    return needed[::-1]


def _check_model(model: NodeClassifier) -> None:
    if not isinstance(model, NodeClassifier) or type(model).forward is not NodeClassifier.forward:
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
