"""The edges of some nodes, exactly as the whole graph has them, a chunk of nodes at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.csr_sampler import CSRSampler
from crossgcn.graph.graph_source import GraphSource
from crossgcn.graph.normalise import EdgeKind
from crossgcn.graph.sampled_blocks import BlockMaker
from crossgcn.graph.sparse_matrix import SparseMatrix
from crossgcn.kernels.sampling import ALL

__all__ = ["ExactRows"]

_ENTRIES_PER_CHUNK = 1 << 22


class ExactRows:
    """Rows of a graph's adjacency, made when they are asked for.

    Args:
        source: The graph.
        rows_per_chunk: The most nodes in a chunk. A chunk of heavy nodes has fewer, so that its
            edges are bounded too.
    """

    def __init__(self, source: GraphSource, rows_per_chunk: int = 1 << 16) -> None:
        if rows_per_chunk < 1:
            raise BadInput(f"rows_per_chunk must be at least 1; got {rows_per_chunk}")
        self.source = source
        self._rows_per_chunk = rows_per_chunk
        self._maker = BlockMaker(source)
        self._sampler = CSRSampler.from_source(source, [ALL])

    def block(self, nodes: Tensor, kind: EdgeKind) -> tuple[Tensor, SparseMatrix]:
        """The rows of some nodes, and the nodes that are its columns.

        Args:
            nodes: One per row, each once.
            kind: How edges are weighed.
        """
        output = self._sampler.sample(nodes)
        (block,) = self._maker.blocks(output, (kind,), redrawn=True)
        return output.node, block

    def rows(self, nodes: Tensor, kind: EdgeKind) -> SparseMatrix:
        """The same with a column for every node of the graph, so that none need be numbered."""
        return self._maker.rows(nodes, kind)

    def chunks(self, nodes: Tensor | None = None) -> Iterator[Tensor]:
        """The nodes in pieces of bounded work; all nodes where none are named."""
        if nodes is None:
            nodes = torch.arange(self.source.num_nodes)
        offsets = self.source.offsets
        until = (offsets[nodes + 1] - offsets[nodes]).cumsum(0).numpy()
        first = 0
        while first < nodes.numel():
            before = until[first - 1] if first else 0
            fits = int(np.searchsorted(until, before + _ENTRIES_PER_CHUNK, side="right"))
            last = min(max(fits, first + 1), first + self._rows_per_chunk)
            yield nodes[first:last]
            first = last

    def reach(self, nodes: Tensor) -> Tensor:
        """The nodes and all their neighbours, ascending."""
        reached = torch.zeros(self.source.num_nodes, dtype=torch.bool)
        for chunk in self.chunks(nodes):
            reached[self._sampler.sample(chunk).node] = True
        return reached.nonzero().flatten()
