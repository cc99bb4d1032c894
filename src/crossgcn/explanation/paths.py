"""From one class score back through the layers to the nodes whose features it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.reading import Reading

__all__ = ["Paths", "Step", "trace_paths"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """What one layer receives.

    Attributes:
        targets: The nodes at which the layer is evaluated.
        slopes: What each of its inputs counts there, summed over neighbours and not yet
            gated, ``[targets, inputs]``; of the first layer, what each unit counts.
        nodes: The nodes it looks at.
    """

    targets: Ints
    slopes: Floats
    nodes: Ints


@dataclass(frozen=True)
class Paths:
    """How a class score hangs on the first layer, the active units given.

    Attributes:
        nodes: Where the first layer's products of features are formed.
        hops: How far each is from the node explained.
        coefficients: What a unit's products there count, ``[nodes, units]``.
        bias: What the layers' biases add.
        left_out: What crosses of hidden units add, which have no names.
        steps: Layer by layer, the last first.
    """

    nodes: Ints
    hops: Ints
    coefficients: Floats
    bias: float
    left_out: float
    steps: tuple[Step, ...]


def trace_paths(reading: Reading, node: int, target: int) -> Paths:
    """Follow one score back.

    Args:
        reading: The model on its graph.
        node: Whose score.
        target: Which class.
    """
    nodes = np.array([node])
    slopes = np.zeros((1, reading.logits.shape[1]))
    slopes[0, target] = 1.0
    bias = left_out = 0.0
    distance = {node: 0}
    steps = []
    for position in reversed(range(len(reading.layers))):
        layer, adjacency = reading.layers[position], reading.adjacencies[position]
        bias += float((slopes @ layer.bias).sum())
        if position:
            left_out += float((slopes * reading.crosses[position][nodes]).sum())
            slopes = slopes @ layer.first_order
        targets, at_targets = nodes, slopes
        if adjacency is not None and (position or not layer.aggregate_first):
            nodes, slopes = _spread(adjacency, nodes, slopes)
            hops = len(reading.layers) - position
            distance = dict.fromkeys(nodes.tolist(), hops) | distance
        steps.append(Step(targets, at_targets, nodes))
        if position:
            slopes = slopes * reading.gates[position - 1][nodes]
    hops_of = np.array([distance[each] for each in nodes.tolist()], np.int64)
    return Paths(nodes, hops_of, slopes, bias, left_out, tuple(steps))


def _spread(adjacency: Any, nodes: Ints, slopes: Floats) -> tuple[Ints, Floats]:
    """From what sums over neighbours count to what the neighbours do."""
    rows = adjacency[nodes]
    reached, rows.indices = np.unique(rows.indices, return_inverse=True)
    rows.resize((len(nodes), len(reached)))
    return reached.astype(np.int64), np.asarray(rows.T @ slopes)
