"""Mini-batches of a model of one layer that aggregates first: no edge is looked at twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.batch_shares import BatchShares
from crossgcn.graph.exact_rows import ExactRows
from crossgcn.graph.graph_source import GraphSource
from crossgcn.graph.node_batches import Batch
from crossgcn.graph.normalise import EdgeKind
from crossgcn.graph.row_matrix import make_rows
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["AggregatedRows"]


class AggregatedRows:
    r"""Goes through some nodes in batches whose features were summed over neighbours before.

    A layer that computes :math:`\mathcal{F}(\hat{\mathbf{A}}\mathbf{X})` needs of the graph no
    more than :math:`\hat{\mathbf{A}}\mathbf{X}`, which training does not change. It is computed
    once, for the nodes that are gone through. A batch is some of its rows and, in place of edges,
    one from each node to itself, so ``model(x, blocks)`` gives exactly what it gives on the whole
    graph. Dropout then drops entries of :math:`\hat{\mathbf{A}}\mathbf{X}`, not of
    :math:`\mathbf{X}`.

    Args:
        source: The graph, with dense features.
        nodes: The nodes to go through, each once.
        kind: How the layer weighs edges.
        batch_size: Targets of a batch, in all processes together.
        seed: Decides on batches.
        shuffle: Go through the nodes in another order in each epoch.
        rank: Which process this is.
        world_size: Of how many.
        folder: Keep the sums in a temporary file there instead of in memory.
    """

    def __init__(
        self,
        source: GraphSource,
        nodes: Tensor,
        kind: EdgeKind,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        folder: Path | None = None,
    ) -> None:
        self.source = source
        self.shares = BatchShares(nodes, batch_size, seed, shuffle, rank, world_size)
        self._sorted, _ = nodes.sort()
        self._sums = make_rows(nodes.numel(), source.num_features, torch.float32, folder)
        rows = ExactRows(source)
        done = 0
        for chunk in rows.chunks(self._sorted):
            columns, block = rows.block(chunk, kind)
            features = source.features(columns)
            if isinstance(features, SparseMatrix):
                raise BadInput(
                    "sums of sparse features over neighbours are not kept: they are many times as "
                    "long as the features; use NodeBatches with fanouts=None, which is exact too"
                )
            self._sums[done : done + chunk.numel()] = block @ features
            done += chunk.numel()

    def __len__(self) -> int:
        return len(self.shares)

    def epoch(self, number: int) -> Iterator[Batch]:
        """All batches of an epoch, in order.

        Args:
            number: Of the epoch; the same number gives the same batches.
        """
        for targets, everywhere in self.shares.epoch(number):
            rows = self._sums[torch.searchsorted(self._sorted, targets)]
            labels = self.source.labels[targets]
            yield Batch(targets, rows, (_identity(targets.numel()),), labels, everywhere)


def _identity(size: int) -> SparseMatrix:
    numbers = torch.arange(size + 1)
    return SparseMatrix(numbers, numbers[:size], torch.ones(size), (size, size))
