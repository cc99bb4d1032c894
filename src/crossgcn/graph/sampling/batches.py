"""Mini-batches of nodes, each with the part of the graph that a model needs for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.errors import BadInput, unknown_name
from crossgcn.graph.matrix import SparseMatrix, make_rows
from crossgcn.graph.normalise import EDGE_RULES, EdgeKind
from crossgcn.graph.sampling.sampler import CSRSampler
from crossgcn.graph.sampling.source import Features, GraphSource, sampled_blocks
from crossgcn.kernels.sampling import ALL, draw_key, loops, shuffle_on_device

_ENTRIES_AHEAD = 1 << 18
"""Entries of rows that are read at once, unless a single batch has more."""


@dataclass(frozen=True)
class Batch:
    """A mini-batch: ``model(x, blocks)`` has a row per target.

    Attributes:
        targets: The nodes of this process's share, which may be empty; on the device of the
            source's features.
        x: Features of the nodes in their receptive field.
        blocks: One block of the adjacency per hop.
        labels: The targets' classes.
        num_targets_everywhere: Number of targets of the batch in all processes together.
    """

    targets: Tensor
    x: Features
    blocks: tuple[SparseMatrix, ...]
    labels: Tensor
    num_targets_everywhere: int


class BatchShares:
    """The nodes of each batch of a graph, and one process's share of them.

    Args:
        nodes: The targets of an epoch, each once.
        batch_size: Targets of a batch, in all processes together.
        shuffle: Shuffle in each epoch.
        rank: Number of this process.
        world_size: Number of processes.
    """

    def __init__(
        self,
        source: GraphSource,
        nodes: Tensor,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if batch_size < 1:
            raise BadInput(f"batch_size must be at least 1; got {batch_size}")
        if not 0 <= rank < world_size:
            raise BadInput(f"rank is from 0 to world_size - 1 = {world_size - 1}; got {rank}")
        nodes = nodes.to(source.device)
        if torch.unique(nodes).numel() < nodes.numel():
            raise BadInput("a node occurs twice: give each node once")
        self.source, self.nodes, self.batch_size, self.seed = source, nodes, batch_size, seed
        self._shuffle, self._rank, self._world_size = shuffle, rank, world_size

    def __len__(self) -> int:
        return -(-self.nodes.numel() // self.batch_size)

    def shares(self, epoch: int) -> Iterator[tuple[Tensor, int]]:
        """Yield this process's share of each batch, and the size of the whole batch."""
        nodes = self.nodes
        if self._shuffle and nodes.is_cuda:
            nodes = shuffle_on_device(nodes, draw_key(self.seed, epoch))
        elif self._shuffle:
            nodes = torch.from_numpy(loops().shuffle(nodes.numpy(), draw_key(self.seed, epoch)))
        for batch in torch.split(nodes, self.batch_size) if nodes.numel() else ():
            share = batch
            if self._world_size > 1:
                share = batch.tensor_split(self._world_size)[self._rank]
            yield share, batch.numel()


class NodeBatches(BatchShares):
    """Mini-batches with sampled neighbours or with all of them.

    Batches depend on seed and epoch; the neighbours of a node on seed, epoch, batch, hop and node.
    Any number of processes therefore does the same work: their gradients add up to those of one
    process.

    Args:
        propagations: A model's ``propagations``.
        fanouts: Neighbours per node, one number per hop, in PyG's order: the first is for the
            first hop from the targets, which is the model's last. -1 takes all. ``None`` does not
            sample: blocks are exact, as from :func:`~crossgcn.graph.receptive_field`.
        num_workers: Threads that prepare batches ahead.
        rescaled: For each hop, whether drawn neighbours are scaled up to stand for all, which
            makes sums unbiased; ``True`` by default. See
            :func:`~crossgcn.training.batches.step.batches_of`.
        **shares: As for :class:`BatchShares`.
    """

    def __init__(
        self,
        source: GraphSource,
        nodes: Tensor,
        propagations: Sequence[EdgeKind],
        *,
        fanouts: Sequence[int] | None,
        num_workers: int = 0,
        rescaled: Sequence[bool] | None = None,
        **shares: Any,
    ) -> None:
        super().__init__(source, nodes, **shares)
        for kind in propagations:
            if kind not in EDGE_RULES:
                raise unknown_name("kind of edges", str(kind), EDGE_RULES)
        self.propagations, hops = tuple(propagations), len(propagations)
        if fanouts is not None and len(fanouts) != hops:
            raise BadInput(
                f"fanouts {list(fanouts)} are for {len(fanouts)} hops, but the model has "
                f"{hops}: give one number per hop, the targets' own first"
            )
        self._num_workers, self._rescaled = num_workers, rescaled
        self._sampler = CSRSampler.from_source(source, fanouts or [ALL] * hops)
        self._labels = source.labels.to(source.device)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of an epoch; the same number gives the same batches."""
        if not self.propagations and self._num_workers == 0:
            yield from self._read_ahead(self.shares(number))
            return
        shares = enumerate(self.shares(number))
        if self._num_workers == 0:
            for position, share in shares:
                yield self._make(*share, number, position)
            return
        ahead: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(self._num_workers, "batches") as pool:
            try:
                for position, share in shares:
                    ahead.append(pool.submit(self._make, *share, number, position))
                    if len(ahead) > 2 * self._num_workers:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for waiting in ahead:
                    waiting.cancel()

    def rows(self, targets: Tensor, everywhere: int) -> Batch:
        """Return a batch of a model without propagations."""
        labels = self._labels.index_select(0, targets)
        return Batch(targets, self.source.features(targets), (), labels, everywhere)

    def _read_ahead(self, shares: Iterator[tuple[Tensor, int]]) -> Iterator[Batch]:
        """Yield batches of rows; those of several are read at once, which takes less time."""
        at_once = _ENTRIES_AHEAD // (self.batch_size * max(self.source.num_features, 1))
        if at_once <= 1 or isinstance(self.source.features(self.nodes[:0]), SparseMatrix):
            for share in shares:
                yield self.rows(*share)
            return
        while several := list(islice(shares, at_once)):
            read = self.rows(torch.cat([targets for targets, _ in several]), 0)
            assert isinstance(read.x, Tensor)
            sizes = [targets.numel() for targets, _ in several]
            parts = (torch.split(each, sizes) for each in (read.x, read.labels))
            for (targets, everywhere), x, labels in zip(several, *parts, strict=True):
                yield Batch(targets, x, (), labels, everywhere)

    def _make(self, targets: Tensor, everywhere: int, epoch: int, position: int) -> Batch:
        if not self.propagations:
            return self.rows(targets, everywhere)
        output = self._sampler.sample(targets, self.seed, epoch, position)
        blocks = sampled_blocks(self.source, output, self.propagations, self._rescaled)
        x, labels = self.source.features(output.node), self.source.labels[targets]
        return Batch(targets, x, blocks, labels, everywhere)


_ENTRIES_PER_CHUNK = 1 << 22


class ExactRows:
    """Exact rows of a graph's adjacency, made on demand.

    Args:
        rows_per_chunk: Upper bound of the nodes in a chunk. Chunks of nodes with many edges have
            fewer.
    """

    def __init__(self, source: GraphSource, rows_per_chunk: int = 1 << 16) -> None:
        if rows_per_chunk < 1:
            raise BadInput(f"rows_per_chunk must be at least 1; got {rows_per_chunk}")
        self.source, self._rows_per_chunk = source, rows_per_chunk
        self._sampler = CSRSampler.from_source(source, [ALL])

    def block(self, nodes: Tensor, kind: EdgeKind) -> tuple[Tensor, SparseMatrix]:
        """Return the nodes of the columns, and the block of some distinct nodes' rows."""
        output = self._sampler.sample(nodes)
        (block,) = sampled_blocks(self.source, output, (kind,))
        return output.node, block

    def chunks(self, nodes: Tensor | None = None) -> Iterator[Tensor]:
        """Yield nodes, by default all, in chunks of bounded work."""
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
        """Return the nodes and all their neighbours, ascending."""
        reached = torch.zeros(self.source.num_nodes, dtype=torch.bool)
        for chunk in self.chunks(nodes):
            reached[self._sampler.sample(chunk).node] = True
        return reached.nonzero().flatten()


class AggregatedRows(BatchShares):
    r"""Mini-batches of features that are summed over neighbours once, before training.

    A layer that computes :math:`\mathcal{F}(\hat{\mathbf{A}}\mathbf{X})` needs nothing of the
    graph but :math:`\hat{\mathbf{A}}\mathbf{X}`, which training does not change. A batch is some
    of its rows, and its block is the identity, so ``model(x, blocks)`` is exact. Dropout then
    applies to :math:`\hat{\mathbf{A}}\mathbf{X}` instead of :math:`\mathbf{X}`.

    Args:
        source: The graph, with dense features.
        kind: The layer's edges.
        folder: Keep the sums in a temporary file of this folder instead of in memory.
        **shares: As for :class:`BatchShares`.
    """

    def __init__(
        self,
        source: GraphSource,
        nodes: Tensor,
        kind: EdgeKind,
        *,
        folder: Path | None = None,
        **shares: Any,
    ) -> None:
        super().__init__(source, nodes, **shares)
        self._sorted, _ = nodes.sort()
        self._sums = make_rows(nodes.numel(), source.num_features, torch.float32, folder)
        rows = ExactRows(source)
        done = 0
        for chunk in rows.chunks(self._sorted):
            columns, block = rows.block(chunk, kind)
            features = source.features(columns)
            if isinstance(features, SparseMatrix):
                raise BadInput(
                    "sums of sparse features over neighbours need many times the memory of the "
                    "features; use NodeBatches with fanouts=None, which is exact too"
                )
            self._sums[done : done + chunk.numel()] = block @ features
            done += chunk.numel()

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the batches of an epoch; the same number gives the same batches."""
        for targets, everywhere in self.shares(number):
            rows = self._sums[torch.searchsorted(self._sorted, targets)]
            size = targets.numel()
            numbers = torch.arange(size + 1)
            identity = SparseMatrix(numbers, numbers[:size], torch.ones(size), (size, size))
            yield Batch(targets, rows, (identity,), self.source.labels[targets], everywhere)
