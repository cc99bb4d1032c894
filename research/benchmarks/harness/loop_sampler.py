"""Naive neighbour sampling: a Python loop over nodes with NumPy's ``choice``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from crossgcn.graph.sampling.source import GraphSource

__all__ = ["LoopSampler"]


class LoopSampler:
    """Sample neighbours in each hop for all nodes found so far, as our sampler does.

    Args:
        source: A graph without self-loops.
        fanouts: Neighbours per node in each hop; the first entry is for the target nodes.
        seed: Seed of NumPy's generator.
    """

    def __init__(self, source: GraphSource, fanouts: Sequence[int], seed: int) -> None:
        self._source, self._fanouts = source, fanouts
        self._random = np.random.default_rng(seed)

    def sample(self, nodes: Tensor) -> SamplerOutput:
        """Sample the neighbourhoods of the given nodes."""
        offsets, neighbours = self._source.offsets.numpy(), self._source.neighbours.numpy()
        numbers = {int(node): place for place, node in enumerate(nodes)}
        sources: list[int] = []
        targets: list[int] = []
        entries: list[int] = []
        num_nodes, num_edges = [len(numbers)], []
        for fanout in self._fanouts:
            found, before = len(numbers), len(entries)
            for place, node in enumerate(list(numbers)):
                first, last = int(offsets[node]), int(offsets[node + 1])
                chosen = np.arange(first, last)
                if chosen.size > fanout:
                    chosen = self._random.choice(chosen, fanout, replace=False)
                entries += chosen.tolist()
                targets += [place] * chosen.size
                sources += [
                    numbers.setdefault(n, len(numbers)) for n in neighbours[chosen].tolist()
                ]
            num_nodes.append(len(numbers) - found)
            num_edges.append(len(entries) - before)
        return SamplerOutput(
            node=torch.tensor(list(numbers), dtype=torch.long),
            row=torch.tensor(sources, dtype=torch.long),
            col=torch.tensor(targets, dtype=torch.long),
            edge=torch.tensor(entries, dtype=torch.long),
            num_sampled_nodes=num_nodes,
            num_sampled_edges=num_edges,
        )
