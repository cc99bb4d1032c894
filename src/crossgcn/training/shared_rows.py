"""Rows of nodes, computed a chunk at a time and shared among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from crossgcn.errors import BadInput
from crossgcn.graph import EdgeKind, SparseMatrix
from crossgcn.graph.exact_rows import ExactRows
from crossgcn.graph.graph_source import Features, GraphSource
from crossgcn.graph.row_matrix import make_rows

__all__ = ["Gather", "SharedRows", "StreamedHop"]

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
        """See :meth:`~crossgcn.graph.exact_rows.ExactRows.block`; on the device."""
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
