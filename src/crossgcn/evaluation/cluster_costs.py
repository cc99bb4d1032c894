"""What training takes on many GPUs: sampled and shared out, or full batch and partitioned.

One GPU's share of the work is the cost model's. What is added is what goes between GPUs, and
that hangs on assumptions (:class:`~crossgcn.evaluation.cluster.Links`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from crossgcn.evaluation.cluster import Links
from crossgcn.evaluation.cluster_job import Job, distinct, sampled_shape, touched_columns
from crossgcn.evaluation.cost_model import WEIGHT_COPIES, Kept, Rates, weight_bytes
from crossgcn.evaluation.step_work import PARAMETER, step_work

__all__ = [
    "FullBatchCost",
    "Job",
    "SampledCost",
    "distinct",
    "full_batch_cost",
    "sampled_cost",
]


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
