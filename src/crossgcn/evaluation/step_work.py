"""The least a training step must do, part by part: operations, bytes and gathered bytes.

Everything that can be fused is taken as fused: dropout with the product that reads it,
crosses and ReLU with the product that writes them. What the backward pass needs and cannot
cheaply recompute is written once and read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["StepShape", "Work", "full_batch", "step_work"]

INDEX_AND_WEIGHT = 8
"""Bytes of an edge, or of a stored feature: a 32-bit column and a 32-bit value."""

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
        features: D.
        hidden_channels: E.
        classes: Classes.
        order: K.
        stored: Features of a node that are stored, where they are sparse; all where ``None``.
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
    stored: int | None = None

    @property
    def parameters(self) -> int:
        """Weights of both layers; the few biases are not counted."""
        return self.order * self.hidden_channels * (self.features + self.classes)


@dataclass(frozen=True)
class Work:
    """One part of a step.

    Attributes:
        name: What it does.
        operations: Multiplications and additions of its matrix product.
        memory_bytes: What must be moved from or to memory, each value once.
        gathered_bytes: What edges or stored features read, each its row.
    """

    name: str
    operations: int = 0
    memory_bytes: int = 0
    gathered_bytes: int = 0


def full_batch(
    nodes: int,
    entries: int,
    features: int,
    hidden_channels: int,
    classes: int,
    order: int,
    *,
    train_share: float = 1.0,
    stored: int | None = None,
) -> StepShape:
    """The shape of a step over a whole graph, all of which the loss depends on.

    Args:
        nodes: N.
        entries: Of the adjacency: two for each undirected edge, one for each self-loop.
        features: D.
        hidden_channels: E.
        classes: Classes.
        order: K.
        train_share: Of the nodes; as many of the entries reach them.
        stored: As in :class:`StepShape`.
    """
    return StepShape(
        nodes,
        nodes,
        round(train_share * nodes),
        entries,
        round(train_share * entries),
        features,
        hidden_channels,
        classes,
        order,
        stored,
    )


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

    def of_features(name: str, moved: int) -> Work:
        if shape.stored is None:
            read = inputs * shape.features
            return product(name, inputs, shape.features, first, read + moved)
        # A stored feature gathers its weights, or in the backward pass its node's gradient.
        stored = inputs * shape.stored
        return Work(
            name,
            memory_bytes=size * moved
            + INDEX_AND_WEIGHT * stored
            + PARAMETER * shape.features * first,
            gathered_bytes=size * stored * first,
        )

    yield of_features("project features", inputs * kept * width)
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
    yield of_features("gradient of first weights", inputs * first)
    yield Work("Adam", memory_bytes=ADAM * PARAMETER * shape.parameters)
