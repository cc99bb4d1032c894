"""Roofline: a lower bound on the time of a training step on a device.

Each part of a step is bounded by the slowest of three resources: arithmetic of its matrix
product, bytes that must come from or go to memory, and bytes that edges gather from the cache.
:func:`~research.scale.cost_points.step_work` lists the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from research.benchmarks.harness.peers import csr_adjacency
from research.scale.cost_points import StepShape, Work, step_work

__all__ = ["Ceilings", "StepShape", "Work", "roofline_seconds", "shape_of_step", "step_work"]


@dataclass(frozen=True)
class Ceilings:
    """Measured peak rates of a device.

    Attributes:
        operations_per_second: Rate of a large matrix product in the given precision.
        memory_bytes_per_second: Rate of a large copy; reads and writes both count.
        cache_bytes_per_second: Rate of copies that stay in the cache.
    """

    operations_per_second: float
    memory_bytes_per_second: float
    cache_bytes_per_second: float

    def seconds(self, work: Work) -> float:
        """Return the lower bound on the time of one part."""
        return max(
            work.operations / self.operations_per_second,
            work.memory_bytes / self.memory_bytes_per_second,
            work.gathered_bytes / self.cache_bytes_per_second,
        )


def shape_of_step(edge_index: Tensor, num_nodes: int, train: Tensor, **channels: int) -> StepShape:
    """Count the rows and edges that the loss of the given nodes depends on.

    Args:
        edge_index: Sources and targets.
        num_nodes: Nodes of the graph.
        train: Nodes that the loss is computed on.
        **channels: ``features``, ``hidden_channels``, ``classes`` and ``order``.
    """
    pattern = csr_adjacency(edge_index, num_nodes, torch.float32)
    whole = sp.csr_array(
        (pattern.values().numpy(), pattern.col_indices().numpy(), pattern.crow_indices().numpy()),
        shape=(num_nodes, num_nodes),
    )
    second = whole[train.numpy()]
    hidden = np.unique(second.indices)
    first = whole[hidden]
    inputs = np.unique(first.indices)
    return StepShape(len(inputs), len(hidden), train.numel(), first.nnz, second.nnz, **channels)


def roofline_seconds(parts: Sequence[Work], ceilings: Ceilings) -> float:
    """Return the lower bound on the time of a step whose parts run one after another."""
    return sum(ceilings.seconds(part) for part in parts)
