"""What is assumed of a cluster of GPUs, and how long bytes travel in it.

Nothing of this was measured. The two sets of assumptions are a range, and are easily changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from research.scale.cost_model import WEIGHT_COPIES, Kept, Rates, weight_bytes
from research.scale.cost_points import PARAMETER, StepShape, full_batch, step_work


@dataclass(frozen=True)
class Links:
    """What is assumed of a cluster; nothing of it was measured.

    Attributes:
        gpus_per_machine: That NVLink joins.
        gpu_bytes: Memory of a GPU.
        inside: Bytes per second that a GPU gets from others of its machine.
        between: Bytes per second that a GPU gets from other machines.
        hop_seconds: Latency of one message; an all-reduce is as many as twice the logarithm.
        drawn_edges: Neighbours per second that a GPU draws from a graph on all GPUs.
        cut: Share of edges between parts of the graph; 1 is a partition at random.
        imbalance: How much longer the slowest GPU works than the mean.
        overlap: Whether rows travel while others are multiplied.
    """

    gpus_per_machine: int
    gpu_bytes: float
    inside: float
    between: float
    hop_seconds: float
    drawn_edges: float
    cut: float
    imbalance: float
    overlap: bool

    def travel(self, size: float, gpus: int) -> float:
        """Seconds until a GPU has bytes that are spread evenly over the others.

        Both links work at once.

        Args:
            size: Bytes, none of them its own.
            gpus: How many there are.
        """
        if gpus == 1:
            return 0.0
        inside = (min(gpus, self.gpus_per_machine) - 1) / (gpus - 1)
        return max(inside * size / self.inside, (1 - inside) * size / self.between)

    def all_reduce(self, size: float, gpus: int) -> float:
        """Seconds to sum something over all GPUs.

        Of it, 2 (R - 1) / R go through every GPU; all links of a machine to others help.

        Args:
            size: Bytes.
            gpus: R.
        """
        if gpus == 1:
            return 0.0
        rate = self.inside
        if gpus > self.gpus_per_machine:
            rate = min(rate, self.gpus_per_machine * self.between)
        return 2 * size * (1 - 1 / gpus) / rate + 2 * math.log2(gpus) * self.hop_seconds


FAST = Links(8, 141e9, 360e9, 40e9, 5e-6, 1e9, cut=0.2, imbalance=1.05, overlap=True)
"""NVLink 4 (450 GB/s each way) and 400 Gb/s per GPU at 80 %, and a good partition."""

SLOW = Links(8, 141e9, 180e9, 10e9, 20e-6, 1e8, cut=1.0, imbalance=1.3, overlap=False)
"""The same NVLink at 40 %, 200 Gb/s at 40 %, and a partition at random."""


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


@dataclass(frozen=True)
class FullBatchCost:
    """A step over the whole graph, each GPU with a part of it.

    Attributes:
        compute: Seconds that the slowest GPU works.
        exchange: Seconds that rows of other parts take.
        all_reduce: Seconds that gradients take.
        seconds: Of a step.
        gpu_bytes: Memory of each GPU.
    """

    compute: float
    exchange: float
    all_reduce: float
    seconds: float
    gpu_bytes: float


@dataclass(frozen=True)
class SampledCost:
    """An epoch in batches, each GPU with its own.

    Attributes:
        compute: Seconds of a step that the model takes.
        drawing: Seconds of a step that drawing neighbours takes.
        fetch: Seconds of a step that features of other GPUs take.
        all_reduce: Seconds of a step that gradients take.
        seconds: Of a step.
        steps: Of an epoch.
        gpu_bytes: Memory of each GPU, with its part of graph and features.
    """

    compute: float
    drawing: float
    fetch: float
    all_reduce: float
    seconds: float
    steps: int
    gpu_bytes: float

    @property
    def epoch(self) -> float:
        """Seconds of an epoch."""
        return self.steps * self.seconds


def full_batch_cost(
    job: Job, gpus: int, rates: Rates, kept: Kept, links: Links, *, slower: float = 1.0
) -> FullBatchCost:
    """A step over all nodes, of which each GPU has its part and asks others for the rest.

    Our layers cross first and aggregate then, so rows as wide as the output of a layer travel,
    E and then the classes, forward and back.

    Args:
        job: Graph and model.
        gpus: How many.
        rates: Of one GPU.
        kept: Of one GPU.
        links: Between them.
        slower: By how much the cost model may be too fast.
    """
    shape = job.share(gpus)
    parts = list(step_work(shape, job.value_bytes))
    compute = slower * rates.seconds(parts, job.precision) * (links.imbalance if gpus > 1 else 1.0)
    elsewhere = job.nodes - job.nodes / gpus
    crossing = links.cut * (1 - 1 / gpus) * 2 * job.edges / gpus
    halo = distinct(crossing, elsewhere)
    rows = halo * job.value_bytes
    exchange = links.travel(2 * rows * (job.hidden_channels + job.classes), gpus)
    reduce = links.all_reduce(PARAMETER * shape.parameters, gpus)
    busy = max(compute, exchange) if links.overlap else compute + exchange
    held = kept.bytes(shape, job.value_bytes) + rows * job.hidden_channels
    return FullBatchCost(compute, exchange, reduce, busy + reduce, held)


def sampled_cost(
    job: Job,
    gpus: int,
    rates: Rates,
    kept: Kept,
    links: Links,
    *,
    slower: float = 1.0,
    shared_weights: bool = True,
) -> SampledCost:
    """An epoch in batches with drawn neighbours; graph and features are spread over all GPUs.

    Args:
        job: Graph and model.
        gpus: How many.
        rates: Of one GPU.
        kept: Of one GPU.
        links: Between them.
        slower: By how much the cost model may be too fast.
        shared_weights: Every GPU has all weights, and gradients are summed over all; else the
            first layer's are spread over the GPUs by column, and a batch's columns travel.
    """
    shape = sampled_shape(job)
    remote = 1 - 1 / gpus
    if shared_weights:
        reduce = links.all_reduce(PARAMETER * shape.parameters, gpus)
        weights: float = weight_bytes(shape)
        updated = shape.features
    else:
        columns = touched_columns(shape.inputs * (job.stored or job.features), job.features)
        column = PARAMETER * job.order * job.hidden_channels
        reduce = links.travel(2 * remote * columns * column, gpus)
        weights = WEIGHT_COPIES * column * job.features / gpus + 2 * column * columns
        updated = round(min(job.features, gpus * columns) / gpus)
        shape = replace(shape, features=round(columns))
    parts = list(step_work(shape, job.value_bytes))[:-1]
    parts += list(step_work(replace(shape, features=updated), job.value_bytes))[-1:]
    compute = slower * rates.seconds(parts, job.precision)
    drawing = (shape.first_edges + shape.second_edges) / links.drawn_edges
    fetch = links.travel(remote * shape.inputs * job.row_bytes, gpus)
    work = compute + drawing
    busy = max(work, fetch) if links.overlap else work + fetch
    held = kept.bytes(shape, job.value_bytes) - weight_bytes(shape) + weights
    held += (job.nodes * job.row_bytes + 8 * job.nodes + 4 * 2 * job.edges) / gpus
    steps = math.ceil(job.train_share * job.nodes / (job.batch_size * gpus))
    return SampledCost(compute, drawing, fetch, reduce, busy + reduce, steps, held)
