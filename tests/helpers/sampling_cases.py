"""Graphs to sample from, and what to compare with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.graph import SparseMatrix
from crossgcn.graph.sampling.source import MemoryGraph

KINDS = ("gcn", "self-loops", "neighbours", "symmetric", "improved")


def draw_edges(
    num_nodes: int = 60, num_edges: int = 500, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges and weights: parallel edges, self-loops, a hub, two isolated nodes."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes - 2, (2, num_edges), generator=generator)
    hub = torch.stack([torch.arange(num_nodes - 2), torch.full((num_nodes - 2,), 3)])
    edges = torch.cat([ends, hub, torch.tensor([[5, 7], [5, 7]])], dim=1)
    weight = 0.5 + torch.rand(edges.size(1), generator=generator)
    return torch.randn(num_nodes, 6, generator=generator), edges, weight


def memory_graph(*, weighted: bool = True) -> MemoryGraph:
    x, edges, weight = draw_edges()
    return MemoryGraph(x, edges, weight if weighted else None, torch.arange(60) % 3)


def spread(block: SparseMatrix, rows: Tensor, columns: Tensor, size: int) -> NDArray[np.float64]:
    """A block as the rows of a dense matrix of the whole graph, in float64."""
    dense = np.zeros((rows.numel(), size))
    entries = block.to_scipy().tocoo()
    assert np.array_equal(np.unique(columns.numpy()).size, columns.numel())
    np.add.at(dense, (entries.row, columns.numpy()[entries.col]), entries.data.astype(np.float64))
    return dense
