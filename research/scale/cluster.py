"""Assumptions about a cluster of GPUs, and the communication times that follow from them.

None of the assumptions was measured. The two sets of assumptions span a range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from research.scale.cost_model import WEIGHT_COPIES, Kept, Rates, weight_bytes
from research.scale.cost_points import PARAMETER, StepShape, full_batch, step_work


@dataclass(frozen=True)
class Links:
    """Assumed properties of a cluster; none was measured.

    Attributes:
        gpus_per_machine: GPUs connected by NVLink.
        gpu_bytes: Memory of a GPU.
        inside: Bytes per second that a GPU receives from GPUs of its machine.
        between: Bytes per second that a GPU receives from other machines.
        hop_seconds: Latency of a message; an all-reduce over R GPUs has 2 log R messages.
        drawn_edges: Neighbours per second that a GPU samples from a graph spread over all GPUs.
        cut: Edges between parts, relative to a random partition; 1 is a random partition.
        imbalance: Time of the slowest GPU, relative to the mean.
        overlap: Whether communication overlaps with computation.
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
        """Return the seconds to receive bytes that are spread evenly over the other GPUs.

        Both kinds of links work at the same time.

        Args:
            size: Bytes to receive.
        """
        if gpus == 1:
            return 0.0
        inside = (min(gpus, self.gpus_per_machine) - 1) / (gpus - 1)
        return max(inside * size / self.inside, (1 - inside) * size / self.between)

    def all_reduce(self, size: float, gpus: int) -> float:
        """Return the seconds of an all-reduce over all GPUs.

        Each GPU sends and receives 2 (R - 1) / R of the bytes. Between machines, all links of a
        machine are used.

        Args:
            size: Bytes to sum.
            gpus: Number of GPUs, R.
        """
        if gpus == 1:
            return 0.0
        rate = self.inside
        if gpus > self.gpus_per_machine:
            rate = min(rate, self.gpus_per_machine * self.between)
        return 2 * size * (1 - 1 / gpus) / rate + 2 * math.log2(gpus) * self.hop_seconds


FAST = Links(8, 141e9, 360e9, 40e9, 5e-6, 1e9, cut=0.2, imbalance=1.05, overlap=True)
"""NVLink 4 (450 GB/s each way) and 400 Gb/s per GPU, both at 80 %, and a good partition."""

SLOW = Links(8, 141e9, 180e9, 10e9, 20e-6, 1e8, cut=1.0, imbalance=1.3, overlap=False)
"""The same NVLink and 200 Gb/s per GPU, both at 40 %, and a random partition."""


@dataclass(frozen=True)
class Job:
    """A graph and a two-layer model.

    Attributes:
        nodes: Number of nodes, N.
        edges: Number of undirected edges.
        features: Number of features, D.
        hidden_channels: E.
        classes: Number of classes.
        order: K.
        precision: ``fp32``, ``tf32`` or ``bf16``.
        stored: Nonzero features per node, if features are sparse.
        train_share: Fraction of the nodes that are training nodes.
        fanouts: Neighbours drawn per node, in the first and in the second hop.
        batch_size: Target nodes of a step on each GPU.
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
        """Return the number of entries of the adjacency, including self-loops."""
        return 2 * self.edges + self.nodes

    @property
    def value_bytes(self) -> int:
        """Return the bytes of a feature or an activation."""
        return 2 if self.precision == "bf16" else 4

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a node's features."""
        return self.value_bytes * self.features if self.stored is None else 8 * self.stored

    def share(self, gpus: int) -> StepShape:
        """Return the shape of a full-batch step on one of ``gpus`` GPUs."""
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
    """Return the shape of one GPU's batch; each hop samples for all nodes found so far.

    Every node is assumed to have the mean degree. With unequal degrees, this overestimates.
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
    """Return the expected number of distinct items among uniform draws.

    With unequal degrees, the number is smaller.
    """
    return -things * math.expm1(-draws / things) if things > 0 else 0.0


def touched_columns(entries: float, features: int) -> float:
    """Return the expected number of columns touched, for word frequencies 1 / (rank + 10).

    Args:
        entries: Stored features of all rows.
        features: Number of features, D.
    """
    shares = 1.0 / (np.arange(features) + 10.0)
    return float(-np.expm1(-entries * shares / shares.sum()).sum())


@dataclass(frozen=True)
class FullBatchCost:
    """Cost of a full-batch step with the graph partitioned over the GPUs.

    Attributes:
        compute: Seconds of computation on the slowest GPU.
        exchange: Seconds to exchange rows with other parts.
        all_reduce: Seconds to sum the gradients.
        seconds: Seconds of a step.
        gpu_bytes: Memory of each GPU.
    """

    compute: float
    exchange: float
    all_reduce: float
    seconds: float
    gpu_bytes: float


@dataclass(frozen=True)
class SampledCost:
    """Cost of an epoch of mini-batch training; each GPU has its own batches.

    Attributes:
        compute: Seconds of computation per step.
        drawing: Seconds of neighbour sampling per step.
        fetch: Seconds per step to fetch features from other GPUs.
        all_reduce: Seconds per step to sum the gradients.
        seconds: Seconds of a step.
        steps: Steps of an epoch.
        gpu_bytes: Memory of each GPU, including its part of graph and features.
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
        """Return the seconds of an epoch."""
        return self.steps * self.seconds


def full_batch_cost(
    job: Job, gpus: int, rates: Rates, kept: Kept, links: Links, *, slower: float = 1.0
) -> FullBatchCost:
    """Return the cost of a full-batch step with the graph partitioned over the GPUs.

    Our layers cross before they aggregate. The exchanged rows are therefore as wide as a layer's
    output: E in the first layer and the number of classes in the second, forward and backward.

    Args:
        rates: Rates of one GPU.
        kept: Memory coefficients of one GPU.
        slower: Factor by which the cost model may underestimate time.
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
    """Return the cost of a mini-batch epoch, with graph and features spread over all GPUs.

    Args:
        rates: Rates of one GPU.
        kept: Memory coefficients of one GPU.
        slower: Factor by which the cost model may underestimate time.
        shared_weights: If true, every GPU holds all weights and gradients are summed over all GPUs.
            Otherwise the columns of the first layer's weights are spread over the GPUs, and each
            batch fetches its columns.
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
