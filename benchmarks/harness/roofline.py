"""The least a training step must do, and the time a device needs for that.

Each part of a step is bound by the slowest of three things: arithmetic of its
matrix product, bytes that must come from or go to memory, and bytes that edges gather
from the cache. Everything that can be fused is taken as fused: dropout with the
product that reads it, crosses and ReLU with the product that writes them. What the
backward pass needs and cannot cheaply recompute is written once and read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from harness.peers import csr_adjacency

__all__ = ["Ceilings", "StepShape", "Work", "roofline_seconds", "shape_of_step", "step_work"]

INDEX_AND_WEIGHT = 8
"""Bytes of an edge: a 32-bit column and a 32-bit weight."""

PARAMETER = 4
ADAM = 7
"""Values that Adam moves for each parameter: gradient, and three read and written."""


@dataclass(frozen=True)
class StepShape:
    """Sizes of one step of a two-layer model.

    Attributes:
        inputs: Nodes whose features are read.
        hidden: Nodes whose hidden values are needed.
        targets: Training nodes.
        first_edges: Edges from inputs to hidden nodes, self-loops included.
        second_edges: Edges from hidden nodes to targets.
        features: Features of a node, all of them stored.
        hidden_channels: E.
        classes: Classes.
        order: K.
    """

    inputs: int
    hidden: int
    targets: int
    first_edges: int
    second_edges: int
    features: int
    hidden_channels: int
    classes: int
    order: int


@dataclass(frozen=True)
class Work:
    """One part of a step.

    Attributes:
        name: What it does.
        operations: Multiplications and additions of its matrix product.
        memory_bytes: What must be moved from or to memory, each value once.
        gathered_bytes: What edges read from the cache, each edge its row.
    """

    name: str
    operations: int = 0
    memory_bytes: int = 0
    gathered_bytes: int = 0


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


def step_work(shape: StepShape, value_bytes: int) -> Iterator[Work]:
    """Every part of a step.

    Args:
        shape: Its sizes.
        value_bytes: Of a feature or an activation: 4, or 2 in bf16.
    """
    size, width, classes = value_bytes, shape.hidden_channels, shape.classes
    crossed = shape.order > 1
    # Of K projections a backward pass needs all; of one, nothing but what it feeds.
    kept = shape.order + 1 if crossed else 1
    reread = shape.order if crossed else 0

    def product(name: str, rows: int, left: int, right: int, moved: int) -> Work:
        return Work(
            name,
            operations=2 * rows * left * right,
            memory_bytes=size * moved + PARAMETER * left * right,
        )

    def propagate(name: str, edges: int, channels: int, moved: int) -> Work:
        return Work(
            name,
            memory_bytes=size * moved + INDEX_AND_WEIGHT * edges,
            gathered_bytes=size * edges * channels,
        )

    first, second = shape.order * width, shape.order * classes
    inputs, hidden, targets = shape.inputs, shape.hidden, shape.targets
    read, written = inputs * shape.features, inputs * kept * width
    yield product("project features", inputs, shape.features, first, read + written)
    moved = (inputs + hidden) * width
    yield propagate("propagate hidden", shape.first_edges, width, moved)
    yield product("project hidden", hidden, width, second, hidden * (width + kept * classes))
    moved = (hidden + targets) * classes
    yield propagate("propagate scores", shape.second_edges, classes, moved)
    yield Work("loss", memory_bytes=2 * size * targets * classes)
    moved = (targets + hidden * (reread + shape.order)) * classes
    yield propagate("propagate scores back", shape.second_edges, classes, moved)
    yield product("gradient of second weights", hidden, width, second, hidden * (width + second))
    yield product("gradient of hidden", hidden, second, width, hidden * (second + 2 * width))
    moved = (hidden + inputs * (reread + shape.order)) * width
    yield propagate("propagate hidden back", shape.first_edges, width, moved)
    yield product("gradient of first weights", inputs, shape.features, first, read + inputs * first)
    parameters = first * shape.features + second * width
    yield Work("Adam", memory_bytes=ADAM * PARAMETER * parameters)


def roofline_seconds(parts: Sequence[Work], ceilings: Ceilings) -> float:
    """The least time for a whole step, one part after another."""
    return sum(ceilings.seconds(part) for part in parts)
