"""A small graph in float64, and slow ways to say what neighbours are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crossgcn.graph import EdgeKind, SparseMatrix, edges_of_kind
from crossgcn.layers import NodeAggregation

NODES = 9  # node 8 is isolated, node 3 has a self-loop, nodes 6 and 7 have each other alone
EDGES = torch.tensor(
    [[0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 0, 5, 3, 2, 4], [1, 0, 2, 1, 4, 5, 3, 3, 7, 6, 5, 0, 3, 4, 2]]
)
WEIGHTS = torch.linspace(0.2, 2.0, EDGES.size(1), dtype=torch.float64)


def vectors(channels: int = 4, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(NODES, channels, generator=generator, dtype=torch.float64)


def edges(kind: EdgeKind, weights: Tensor | None = WEIGHTS) -> SparseMatrix:
    return edges_of_kind(kind, EDGES, NODES, weights, dtype=torch.float64)


def dense(kind: EdgeKind, weights: Tensor | None = WEIGHTS) -> Tensor:
    return torch.from_numpy(edges(kind, weights).to_scipy().toarray())


def join(aggregation: NodeAggregation, x: Tensor, weights: Tensor | None = WEIGHTS) -> Tensor:
    """The aggregation over the whole graph, in its own kinds of edges."""
    joined: Tensor = aggregation(x, [edges(kind, weights) for kind in aggregation.propagations])
    return joined


def shake(module: nn.Module, seed: int = 1) -> None:
    """Move every parameter away from a start that may be a special case."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.5 * noise.to(parameter.dtype))
