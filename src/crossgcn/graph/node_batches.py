"""Mini-batches of nodes, each with the piece of the graph that a model needs for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput

from crossgcn.errors import BadInput
from crossgcn.graph.batch_shares import BatchShares
from crossgcn.graph.csr_sampler import CSRSampler, SamplerName, make_sampler
from crossgcn.graph.graph_source import Features, GraphSource
from crossgcn.graph.normalise import EdgeKind
from crossgcn.graph.sampled_blocks import BlockMaker, check_propagations
from crossgcn.graph.sparse_matrix import SparseMatrix
from crossgcn.kernels.sampling import ALL, draw_key

__all__ = ["Batch", "NodeBatches"]


@dataclass(frozen=True)
class Batch:
    """Some nodes and what a model needs for them: ``model(x, blocks)`` has a row per target.

    Attributes:
        targets: The nodes, this process's share of the batch; may be empty.
        x: Features of the nodes in their receptive field.
        blocks: One piece of the adjacency per propagation.
        labels: The targets' classes.
        num_targets_everywhere: How many targets the whole batch has, in all processes together.
    """

    targets: Tensor
    x: Features
    blocks: tuple[SparseMatrix, ...]
    labels: Tensor
    num_targets_everywhere: int


class NodeBatches:
    """Goes through some nodes in batches, with drawn neighbours or with all of them.

    Which nodes make a batch depends on seed and epoch; which neighbours are drawn for a node, on
    seed, epoch, batch, hop and node. So any number of processes does the same work: each takes
    its share of every batch, and their gradients add up to one process's.

    Args:
        source: The graph.
        nodes: The nodes to go through.
        propagations: A model's ``propagations``.
        fanouts: Neighbours drawn per node, one number per propagation, in PyG's order: the first
            is for the first hop from the targets, which is the last propagation. -1 takes all.
            ``None`` samples nothing: every block is exact, as from
            :func:`~crossgcn.graph.receptive_field`.
        batch_size: Targets of a batch, in all processes together.
        seed: Decides on batches and draws.
        shuffle: Go through the nodes in another order in each epoch.
        rank: Which process this is.
        world_size: Of how many.
        num_workers: Threads that prepare batches ahead of time.
        sampler: See :func:`~crossgcn.graph.csr_sampler.make_sampler`. With PyG's, draws follow
            the seed too, but depend on the number of processes; batches are prepared in turn.
        rescaled: For each propagation, whether drawn neighbours weigh as much as all would, which
            makes sums unbiased; all do when left out. See
            :func:`~crossgcn.training.model_batches.batches_of`.
    """

    def __init__(
        self,
        source: GraphSource,
        nodes: Tensor,
        propagations: Sequence[EdgeKind],
        *,
        fanouts: Sequence[int] | None,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        num_workers: int = 0,
        sampler: SamplerName = "auto",
        rescaled: Sequence[bool] | None = None,
    ) -> None:
        self.propagations = check_propagations(propagations)
        if fanouts is not None and len(fanouts) != len(self.propagations):
            raise BadInput(
                f"fanouts {list(fanouts)} are for {len(fanouts)} hops, but the model has "
                f"{len(self.propagations)}: give one number per hop, the targets' own first"
            )
        self.source = source
        self.shares = BatchShares(nodes, batch_size, seed, shuffle, rank, world_size)
        self._num_workers = num_workers
        exact = fanouts is None
        self._sampler = make_sampler(
            source,
            [ALL] * len(self.propagations) if fanouts is None else fanouts,
            seed=seed,
            which="ours" if exact else sampler,
        )
        self._maker = BlockMaker(source)
        self._rescaled = rescaled

    def __len__(self) -> int:
        return len(self.shares)

    def epoch(self, number: int) -> Iterator[Batch]:
        """All batches of an epoch, in order.

        Args:
            number: Of the epoch; the same number gives the same batches.
        """
        shares = self.shares.epoch(number)
        if self._num_workers == 0 or not isinstance(self._sampler, CSRSampler):
            for position, (targets, everywhere) in enumerate(shares):
                yield self._make(targets, everywhere, number, position)
            return
        ahead: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(self._num_workers, "batches") as pool:
            try:
                for position, (targets, everywhere) in enumerate(shares):
                    ahead.append(pool.submit(self._make, targets, everywhere, number, position))
                    if len(ahead) > 2 * self._num_workers:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for waiting in ahead:
                    waiting.cancel()

    def _make(self, targets: Tensor, everywhere: int, epoch: int, position: int) -> Batch:
        output = self._draw(targets, self.shares.seed, epoch, position)
        redrawn = isinstance(self._sampler, CSRSampler)
        return Batch(
            targets,
            self.source.features(output.node),
            self._maker.blocks(output, self.propagations, redrawn=redrawn, rescaled=self._rescaled),
            self.source.labels[targets],
            everywhere,
        )

    def _draw(self, targets: Tensor, *numbers: int) -> SamplerOutput:
        if isinstance(self._sampler, CSRSampler):
            return self._sampler.sample(targets, *numbers)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_key(*numbers) >> 1)
            output = self._sampler.sample_from_nodes(NodeSamplerInput(None, targets))
        permutation = self._sampler.edge_permutation
        if permutation is not None:
            output.edge = permutation[output.edge]
        return cast(SamplerOutput, output)
