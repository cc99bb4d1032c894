"""A billion edges on many GPUs, as the cost model sees it, in tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from crossgcn.evaluation.cluster import FAST, SLOW
from crossgcn.evaluation.cluster_costs import (
    FullBatchCost,
    SampledCost,
    full_batch_cost,
    sampled_cost,
)
from crossgcn.evaluation.cluster_job import Job, sampled_shape, touched_columns
from crossgcn.evaluation.cost_fit import Fitted
from crossgcn.reports.markdown import markdown_table

__all__ = ["BILLION", "GPUS", "WIDE", "Range", "billion_markdown", "ranges", "wide_markdown"]

BILLION: Final = Job(
    nodes=100_000_000,
    edges=1_000_000_000,
    features=128,
    hidden_channels=256,
    classes=47,
    order=2,
    precision="bf16",
)
"""In the precision that halves what is kept and what travels."""

WIDE: Final = replace(BILLION, features=1_000_000, stored=50)
GPUS: Final = (1, 8, 64, 512)

Range = tuple[float, float]
Costs = tuple[FullBatchCost, FullBatchCost]
Sampled = tuple[SampledCost, SampledCost]


def ranges(
    job: Job, gpus: int, fitted: Fitted, *, shared_weights: bool = True
) -> tuple[Costs, Sampled]:
    """What full batch and sampled training cost: with fast links, and with slow ones.

    The cost model's own error is in it: its times are divided, and multiplied, by the factor by
    which it missed at worst a record that it was not fitted to.

    Args:
        job: Graph and model.
        gpus: How many.
        fitted: The cost model.
        shared_weights: See :func:`~crossgcn.evaluation.cluster_costs.sampled_cost`.
    """
    both = ((FAST, 1 / fitted.spread), (SLOW, fitted.spread))
    full = [
        full_batch_cost(job, gpus, fitted.rates, fitted.kept, links, slower=slower)
        for links, slower in both
    ]
    sampled = [
        sampled_cost(
            job,
            gpus,
            fitted.rates,
            fitted.kept,
            links,
            slower=slower,
            shared_weights=shared_weights,
        )
        for links, slower in both
    ]
    return (full[0], full[1]), (sampled[0], sampled[1])


def billion_markdown(fitted: Fitted) -> str:
    """Full batch and sampled, in bf16 and fp32."""
    blocks = []
    for precision in ("bf16", "fp32"):
        if precision not in fitted.rates.operations:
            continue
        job = replace(BILLION, precision=precision)
        both = {gpus: ranges(job, gpus, fitted) for gpus in GPUS}
        blocks += [
            f"Full batch, partitioned, {precision}:",
            _full_table({gpus: costs for gpus, (costs, _) in both.items()}),
            f"Sampled, {precision}, {job.batch_size:,} targets a GPU and step, fanout "
            f"{','.join(map(str, job.fanouts))}:",
            _sampled_table({gpus: costs for gpus, (_, costs) in both.items()}, job),
        ]
    return "\n\n".join(blocks)


def wide_markdown(fitted: Fitted) -> str:
    """The same graph with a million sparse features."""
    job = WIDE
    if job.precision not in fitted.rates.operations:
        job = replace(job, precision=next(iter(fitted.rates.operations)))
    shape = sampled_shape(job)
    weights = 4 * shape.parameters
    touched = touched_columns(shape.inputs * (job.stored or 0), job.features)
    words = (
        f"The weights are {weights / 1e9:.1f} GB, with gradient and Adam's means "
        f"{4 * weights / 1e9:.1f} GB. A batch of {job.batch_size:,} targets reads "
        f"{shape.inputs:,} nodes, which touch about {touched:,.0f} of the {job.features:,} columns."
    )
    both = {gpus: ranges(job, gpus, fitted) for gpus in GPUS}
    spread = {gpus: ranges(job, gpus, fitted, shared_weights=False)[1] for gpus in GPUS}
    return "\n\n".join(
        [
            words,
            "Full batch, partitioned, all weights on every GPU:",
            _full_table({gpus: costs for gpus, (costs, _) in both.items()}),
            "Sampled, all weights on every GPU (as our loop does it):",
            _sampled_table({gpus: costs for gpus, (_, costs) in both.items()}, job),
            "Sampled, the first layer's weights spread over the GPUs by column:",
            _sampled_table(spread, job),
        ]
    )


def _full_table(costs: dict[int, Costs]) -> str:
    rows = []
    for gpus, (fast, slow) in costs.items():
        fits = _fits(fast.gpu_bytes, slow.gpu_bytes)
        seconds = [(fast.compute, slow.compute), (fast.exchange, slow.exchange)]
        seconds += [(fast.all_reduce, slow.all_reduce), (fast.seconds, slow.seconds)]
        names = ("compute", "rows of others", "gradients")
        slowest = [
            max(zip(names, (each.compute, each.exchange, each.all_reduce), strict=True), key=_last)
            for each in (fast, slow)
        ]
        rows.append(
            [
                f"{gpus}",
                f"{_range(fast.gpu_bytes / 1e9, slow.gpu_bytes / 1e9)}{fits}",
                *(_range(1e3 * low, 1e3 * high) for low, high in seconds),
                " / ".join(dict.fromkeys(name for name, _ in slowest)),
            ]
        )
    header = ("GPUs", "GB per GPU", "compute, ms", "rows of others, ms", "gradients, ms")
    return markdown_table((*header, "step, ms", "bottleneck"), rows)


def _sampled_table(costs: dict[int, Sampled], job: Job) -> str:
    rows = []
    names = ("compute", "drawing", "features", "gradients")
    for gpus, (fast, slow) in costs.items():
        parts = [(each.compute, each.drawing, each.fetch, each.all_reduce) for each in (fast, slow)]
        slowest = [max(zip(names, each, strict=True), key=_last)[0] for each in parts]
        milliseconds = [(1e3 * low, 1e3 * high) for low, high in zip(*parts, strict=True)]
        rows.append(
            [
                f"{gpus}",
                f"{_range(fast.gpu_bytes / 1e9, slow.gpu_bytes / 1e9)}"
                f"{_fits(fast.gpu_bytes, slow.gpu_bytes)}",
                *(_range(low, high) for low, high in milliseconds),
                f"{job.batch_size * gpus:,}",
                f"{fast.steps:,}",
                _range(fast.epoch, slow.epoch),
                " / ".join(dict.fromkeys(slowest)),
            ]
        )
    header = ("GPUs", "GB per GPU", *(f"{name}, ms" for name in names))
    return markdown_table((*header, "batch", "steps", "epoch, s", "bottleneck"), rows)


def _last(pair: tuple[str, float]) -> float:
    return pair[1]


def _fits(low: float, high: float) -> str:
    if low > FAST.gpu_bytes:
        return ", does not fit"
    return ", may not fit" if high > SLOW.gpu_bytes else ""


def _range(low: float, high: float) -> str:
    """Two numbers as precise as such a prediction can be."""
    shown: Sequence[str] = list(dict.fromkeys((_rounded(low), _rounded(high))))
    return " – ".join(shown)


def _rounded(value: float) -> str:
    if value == 0:
        return "0"
    if value >= 95:
        return f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"
