"""A graph and a model to be trained on many GPUs, and one GPU's share of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crossgcn.evaluation.step_work import StepShape, full_batch

__all__ = ["Job", "distinct", "sampled_shape", "touched_columns"]


@dataclass(frozen=True)
class Job:
    """A graph and a model of two layers.

    Attributes:
        nodes: N.
        edges: Undirected ones.
        features: D.
        hidden_channels: E.
        classes: Classes.
        order: K.
        precision: ``fp32``, ``tf32`` or ``bf16``.
        stored: Features of a node that are stored, where they are sparse.
        train_share: Of the nodes.
        fanouts: Neighbours drawn, for the targets and for what they reach.
        batch_size: Targets of a step on each GPU.
    """

    nodes: int
    edges: int
    features: int
    hidden_channels: int
    classes: int
    order: int
    precision: str
    stored: int | None = None
    train_share: float = 0.6
    fanouts: tuple[int, int] = (10, 10)
    batch_size: int = 1024

    @property
    def entries(self) -> int:
        """Of the adjacency, self-loops included."""
        return 2 * self.edges + self.nodes

    @property
    def value_bytes(self) -> int:
        """Of a feature or an activation."""
        return 2 if self.precision == "bf16" else 4

    @property
    def row_bytes(self) -> int:
        """Of a node's features."""
        return self.value_bytes * self.features if self.stored is None else 8 * self.stored

    def share(self, gpus: int) -> StepShape:
        """A full-batch step on one of so many GPUs."""
        return full_batch(
            self.nodes // gpus,
            self.entries // gpus,
            self.features,
            self.hidden_channels,
            self.classes,
            self.order,
            train_share=self.train_share,
            stored=self.stored,
        )


def sampled_shape(job: Job) -> StepShape:
    """What one GPU's batch holds; every hop draws for all nodes found before.

    No node has more neighbours than the mean degree here: where degrees are unequal, that is
    too many rather than too few.
    """
    degree = 2 * job.edges / job.nodes
    near, far = (min(fanout, degree) for fanout in job.fanouts)
    targets = job.batch_size
    second = targets * near
    hidden = targets + distinct(second, job.nodes)
    first = hidden * far
    inputs = hidden + distinct(first, job.nodes)
    return StepShape(
        round(inputs),
        round(hidden),
        targets,
        round(first + hidden),
        round(second + targets),
        job.features,
        job.hidden_channels,
        job.classes,
        job.order,
        job.stored,
    )


def distinct(draws: float, things: float) -> float:
    """How many different things so many draws hit, each equally likely.

    Degrees that are unequal make it fewer.
    """
    return -things * math.expm1(-draws / things) if things > 0 else 0.0


def touched_columns(entries: float, features: int) -> float:
    """How many columns so many stored features touch, as frequent as words: 1 / (rank + 10).

    Args:
        entries: Stored features of all rows.
        features: D.
    """
    shares = 1.0 / (np.arange(features) + 10.0)
    return float(-np.expm1(-entries * shares / shares.sum()).sum())
