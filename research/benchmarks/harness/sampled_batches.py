"""Batches with sampled neighbours; importable by a separate process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
from torch import Tensor

from crossgcn.data.stored.open import open_graph
from crossgcn.graph.normalise import EdgeKind
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.source import GraphSource, sampled_blocks, source_of
from research.benchmarks.harness.loop_sampler import LoopSampler

__all__ = ["BATCHES", "Case", "batches_of", "endless", "go_through", "loop_batches"]

KINDS: tuple[EdgeKind, ...] = ("gcn", "gcn")
BATCHES = 50


@dataclass(frozen=True)
class Case:
    """A graph and its sampling settings."""

    nodes: int = 1_000_000
    edges: int = 10_000_000
    features: int = 32
    batch_size: int = 1024
    fanouts: tuple[int, ...] = (15, 10)

    @property
    def name(self) -> str:
        """Return the name of the case in tables."""
        return f"{self.nodes:,} nodes, {self.edges:,} edges"


def batches_of(
    case: Case, source: GraphSource, seed: int, nodes: Tensor | None = None
) -> NodeBatches:
    """Return the batches of our sampler."""
    return NodeBatches(
        source,
        torch.arange(source.num_nodes) if nodes is None else nodes,
        KINDS,
        fanouts=case.fanouts,
        batch_size=case.batch_size,
        seed=seed,
    )


def endless(batches: NodeBatches) -> Iterator[Batch]:
    """Yield batches epoch after epoch, without end."""
    for number in count():
        yield from batches.epoch(number)


def loop_batches(
    case: Case, source: GraphSource, seed: int, nodes: Tensor | None = None
) -> Iterator[Batch]:
    """Yield batches with the same targets as ours and edges drawn by NumPy's ``choice``."""
    sampler = LoopSampler(source, case.fanouts, seed)
    ours = batches_of(case, source, seed, nodes)
    for number in count():
        for targets, everywhere in ours.shares(number):
            output = sampler.sample(targets)
            blocks = sampled_blocks(source, output, KINDS)
            x, labels = source.features(output.node), source.labels[targets]
            yield Batch(targets, x, blocks, labels, everywhere)


def go_through(folder: Path | None, case: Case, seed: int) -> None:
    """Open a graph and make some batches; do nothing without a graph."""
    if folder is not None:
        batches = endless(batches_of(case, source_of(open_graph(folder)), seed))
        for _ in range(BATCHES):
            next(batches)
