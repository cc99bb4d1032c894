"""The time a device needs for the least a training step must do.

Each part of a step is bound by the slowest of three things: arithmetic of its
matrix product, bytes that must come from or go to memory, and bytes that edges gather
from the cache. What the parts are stands in :mod:`crossgcn.experiments.step_work`.
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
    """What a device was measured to reach.

    Attributes:
        operations_per_second: Of a large matrix product in the precision at hand.
        memory_bytes_per_second: Of a large copy, reading and writing counted.
        cache_bytes_per_second: Of copies that stay in the cache.
    """

    operations_per_second: float
    memory_bytes_per_second: float
    cache_bytes_per_second: float

    def seconds(self, work: Work) -> float:
        """The least time for one part."""
        return max(
            work.operations / self.operations_per_second,
            work.memory_bytes / self.memory_bytes_per_second,
            work.gathered_bytes / self.cache_bytes_per_second,
        )


def shape_of_step(edge_index: Tensor, num_nodes: int, train: Tensor, **channels: int) -> StepShape:
    """Count the rows and edges that the loss of some nodes depends on.

    Args:
        edge_index: Sources and targets.
        num_nodes: Nodes of the graph.
        train: The nodes of the loss.
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
    """The least time for a whole step, one part after another."""
    return sum(ceilings.seconds(part) for part in parts)
