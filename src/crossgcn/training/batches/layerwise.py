"""Exact scores of the nodes of a large graph, computed layer by layer in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.graph.matrix import make_rows
from crossgcn.graph.sampling.batches import ExactRows
from crossgcn.graph.sampling.source import Features, GraphSource, adjacency_rows
from crossgcn.layers import CrossGCNConv
from crossgcn.models.node_classifier import NodeClassifier

Gather = Callable[[Tensor], Any]
_ROWS_AT_ONCE = 1 << 16


class ChunkedRows(ExactRows):
    """Computes matrices with a row per node in chunks of rows, which the processes share.

    The arguments are those of :func:`infer`.
    """

    def __init__(
        self,
        source: GraphSource,
        rows_per_chunk: int,
        *,
        folder: Path | None,
        device: torch.device,
        dtype: torch.dtype,
        rank: int,
        world_size: int,
        gather: Gather | None,
    ) -> None:
        if world_size > 1 and gather is None and not dist.is_initialized():
            raise BadInput(
                "processes share the work through torch.distributed, which is not initialised: "
                "start with torchrun, or give gather"
            )
        super().__init__(source, rows_per_chunk)
        self.device, self._dtype, self._folder = device, dtype, folder
        self._rank, self._world_size, self._gather = rank, world_size, gather

    def features(self, nodes: Tensor) -> Features:
        """Return the features of nodes, on the device."""
        features = self.source.features(nodes)
        if isinstance(features, SparseMatrix):
            return self._converted(features)
        return features.to(self.device, self._dtype)

    def read(self, matrix: Tensor, nodes: Tensor) -> Tensor:
        """Return rows of a matrix, on the device."""
        return matrix[nodes.to(matrix.device)].to(self.device)

    def block(self, nodes: Tensor, kind: EdgeKind) -> tuple[Tensor, SparseMatrix]:
        """Return the nodes of the columns, and the block of some nodes' rows on the device."""
        columns, block = super().block(nodes, kind)
        return columns, self._converted(block)

    def multiply(self, nodes: Tensor, kind: EdgeKind, dense: Tensor) -> Tensor:
        """Return the rows of nodes in the product of the adjacency and ``dense``, on the device."""
        if self.device.type == "cpu" and dense.device.type == "cpu":
            # Copies no row of it.
            return self._converted(adjacency_rows(self.source, nodes, kind)) @ dense
        columns, block = self.block(nodes, kind)
        return block @ self.read(dense, columns)

    def fill(
        self,
        width: int,
        compute: Callable[[Tensor], Tensor],
        nodes: Tensor | None,
        *,
        in_memory: bool = False,
    ) -> Tensor:
        """Return a matrix with a row per node, on the CPU; rows of other nodes stay zero.

        ``in_memory`` keeps the matrix in memory even if there is a folder.
        """
        folder = None if in_memory else self._folder
        matrix = make_rows(self.source.num_nodes, width, self._dtype, folder)
        for chunk in islice(self.chunks(nodes), self._rank, None, self._world_size):
            matrix[chunk] = compute(chunk).to(matrix)
        if self._gather is not None:
            self._gather(matrix)
        elif self._world_size > 1:
            for part in torch.split(matrix, _ROWS_AT_ONCE):
                moved = part.to(self.device)
                dist.all_reduce(moved)
                part.copy_(moved)
        return matrix

    def _converted(self, matrix: SparseMatrix) -> SparseMatrix:
        """Return the matrix in the type and on the device in which rows are computed."""
        if matrix.values.dtype != self._dtype:
            own, values = matrix.own, matrix.values.to(self._dtype)
            matrix = SparseMatrix(matrix.row_offsets, matrix.columns, values, matrix.shape)
            matrix.own = own
        # A move would sort the matrix anew.
        return matrix if self.device.type == "cpu" else matrix.to(self.device)


class StreamedHop:
    """The whole adjacency as a factor, of which only a chunk of rows exists at a time."""

    def __init__(self, rows: ChunkedRows, kind: EdgeKind) -> None:
        self._rows, self._kind = rows, kind

    def own_rows(self, dense: Tensor) -> Tensor:
        """Return all rows: rows and columns are the same nodes."""
        return dense

    def __matmul__(self, dense: Tensor) -> Tensor:
        multiply = partial(self._rows.multiply, kind=self._kind, dense=dense)
        return self._rows.fill(dense.size(-1), multiply, None, in_memory=True).to(dense.device)


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
    """Return the scores of nodes with all their neighbours, in bounded memory.

    Each layer is computed for all nodes that the next one needs before the next one starts, so
    the features of a node are transformed once per layer, whatever its degree. At any time the
    hidden values of two layers and the edges of one chunk of rows are in memory. Aggregations
    over several hops (``appnp``, ``mixhop``, ``cheb``, random propagation) also keep a few
    matrices of the width that they aggregate.

    Args:
        model: Any model of this package, on ``device``.
        nodes: The nodes to score, or all.
        folder: Keep hidden values in temporary files there instead of in memory.
        rank: The number of this process, of ``world_size`` that share the work.
        gather: Adds up a matrix over all processes, in place, in which the rows that others
            computed are zero; ``torch.distributed.all_reduce`` by default.

    Returns:
        Scores, a row per node, on the CPU, in every process.
    """
    _check_model(model)
    work = ChunkedRows(
        source,
        rows_per_chunk,
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


def _run(model: NodeClassifier, work: ChunkedRows, nodes: Tensor | None) -> Tensor:
    needed = _needed(model, work, nodes)
    hidden: Tensor | None = None
    for position, layer in enumerate(model.layers):
        last = position == len(model.layers) - 1
        width: int = layer.out_channels  # type: ignore[assignment]
        enter = partial(_enter, model, position, work, hidden)
        if isinstance(layer, CrossGCNConv):
            compute = _convolve(layer, work, enter)
        else:
            compute = partial(_transform, layer, enter)
        hidden = work.fill(width, compute, needed[position + 1], in_memory=last)
    assert hidden is not None
    return hidden


def _enter(
    model: NodeClassifier, position: int, work: ChunkedRows, hidden: Tensor | None, nodes: Tensor
) -> Features:
    """Return a layer's input for some nodes, as ``NodeClassifier.forward`` computes it."""
    if hidden is None:
        return work.features(nodes)
    active: Tensor = model.enter_layer(position, work.read(hidden, nodes))
    return active


def _transform(layer: nn.Module, enter: Enter, rows: Tensor) -> Tensor:
    transformed: Tensor = layer(enter(rows))
    return transformed


def _convolve(layer: CrossGCNConv, work: ChunkedRows, enter: Enter) -> Rows:
    (kind,) = layer.propagations

    def compute(rows: Tensor) -> Tensor:
        columns, block = work.block(rows, kind)
        return layer(enter(columns), block)

    return compute


def _needed(model: NodeClassifier, work: ChunkedRows, nodes: Tensor | None) -> list[Tensor | None]:
    """Return the nodes that enter each layer, and those that leave the last; ``None``: all."""
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
            f"{type(model).__name__} is not a plain sequence of layers, so it cannot be computed "
            "layer by layer: call it on the whole graph"
        )
    for layer in model.layers:
        if not isinstance(layer, CrossGCNConv) and getattr(layer, "propagations", None) != ():
            raise BadInput(
                f"{type(layer).__name__} is not a layer of this package, so its aggregation is not "
                "known: call the model on the whole graph"
            )
