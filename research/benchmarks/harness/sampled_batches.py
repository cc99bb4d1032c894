"""Batches with sampled neighbours, for a script and for a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
from torch import Tensor

from crossgcn.data.stored import open_graph
from crossgcn.graph.normalise import EdgeKind
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.blocks import sampled_blocks
from crossgcn.graph.sampling.source import GraphSource, source_of
from research.benchmarks.harness.loop_sampler import LoopSampler

__all__ = ["BATCHES", "Case", "batches_of", "endless", "go_through", "loop_batches"]

KINDS: tuple[EdgeKind, ...] = ("gcn", "gcn")
BATCHES = 50


@dataclass(frozen=True)
class Case:
    """A graph and how it is sampled."""

    nodes: int = 1_000_000
    edges: int = 10_000_000
    features: int = 32
    batch_size: int = 1024
    fanouts: tuple[int, ...] = (15, 10)

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.nodes:,} nodes, {self.edges:,} edges"


def batches_of(
    case: Case, source: GraphSource, seed: int, nodes: Tensor | None = None
) -> NodeBatches:
    """Ours."""
    return NodeBatches(
        source,
        torch.arange(source.num_nodes) if nodes is None else nodes,
        KINDS,
        fanouts=case.fanouts,
        batch_size=case.batch_size,
        seed=seed,
        sampler="ours",
    )


def endless(batches: NodeBatches) -> Iterator[Batch]:
    """Epoch after epoch."""
    for number in count():
        yield from batches.epoch(number)


def loop_batches(
    case: Case, source: GraphSource, seed: int, nodes: Tensor | None = None
) -> Iterator[Batch]:
    """The same targets as ours, with edges drawn by NumPy's choice."""
    sampler = LoopSampler(source, case.fanouts, seed)
    ours = batches_of(case, source, seed, nodes)
    for number in count():
        for targets, everywhere in ours.shares(number):
            output = sampler.sample(targets)
            blocks = sampled_blocks(source, output, KINDS, redrawn=True)
            x, labels = source.features(output.node), source.labels[targets]
            yield Batch(targets, x, blocks, labels, everywhere)


def go_through(folder: Path | None, case: Case, seed: int) -> None:
    """Open a graph and make some batches; nothing without one."""
    if folder is not None:
        batches = endless(batches_of(case, source_of(open_graph(folder)), seed))
        for _ in range(BATCHES):
            next(batches)
