"""Synthetic graphs of any size, for the benchmark of growth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data.features import csr_tensor

__all__ = ["GraphSize", "draw_graph"]


@dataclass(frozen=True)
class GraphSize:
    """Sizes of a graph.

    Attributes:
        nodes: Number of nodes; all of them are training nodes.
        degree: Approximate number of neighbours of a node.
        features: Number of features, D.
        stored: Nonzero features per node; 0 means a dense matrix.
        classes: Number of classes.
    """

    nodes: int
    degree: int = 4
    features: int = 512
    stored: int = 16
    classes: int = 8


def draw_graph(size: GraphSize, seed: int) -> Data:
    """Draw edges, features and classes uniformly at random."""
    random = np.random.default_rng(seed)
    ends = random.integers(size.nodes, size=(2, size.nodes * size.degree // 2))
    if size.stored:
        # One column from each interval, so that columns are distinct and sorted.
        stretch = size.features // size.stored
        columns = random.integers(stretch, size=(size.nodes, size.stored))
        columns += stretch * np.arange(size.stored)
        values = random.random(columns.size, dtype=np.float32)
        offsets = size.stored * np.arange(size.nodes + 1)
        x = csr_tensor(offsets, columns.ravel(), values, (size.nodes, size.features))
    else:
        x = torch.from_numpy(random.random((size.nodes, size.features), dtype=np.float32))
    return Data(
        x=x,
        edge_index=to_undirected(torch.from_numpy(ends), num_nodes=size.nodes),
        y=torch.from_numpy(random.integers(size.classes, size=size.nodes)),
        num_classes=size.classes,
        name="drawn",
    )
