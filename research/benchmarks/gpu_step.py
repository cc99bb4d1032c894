"""One training step on a GPU, on a graph of Reddit400K's shape, compared with the roofline.

The models have two layers and dropout 0.5, and train on all 18,000 training nodes. Both sides use
the same precision, one of three. Our model has order 2; our GCN is the same code with order 1. The
best GCN is the fastest peer of order 1, which makes half the products of our model of order 2.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data import load_dataset, make_splits
from crossgcn.errors import WorkFailed
from crossgcn.training.config import Precision
from crossgcn.training.device import PRECISIONS
from research.benchmarks.harness.agreement import check_peer
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.gpu_ceilings import kernel_seconds, measure_ceilings
from research.benchmarks.harness.ours import build_ours, prepare, training_step
from research.benchmarks.harness.peer_training import PeerTraining, matmul_precision
from research.benchmarks.harness.peers import Peer
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.roofline import (
    Ceilings,
    roofline_seconds,
    shape_of_step,
    step_work,
)
from research.benchmarks.harness.rounds import Side, Timing, interleave, quartiles, ratio_of
from research.pages.benchmarks import BenchmarkResult

HIDDEN = (32, 128, 512, 1024)
BEST, EQUAL_WORK = "best GCN", "best GCN, over our GCN"
"""The fastest peer of order 1, against our model of order 2 and of order 1."""


def measure(options: Options) -> Measurement:
    """Time the step in every precision and for every hidden size."""
    found = Measurement()
    data = load_dataset("reddit400k-shaped", options.seed)
    found.extra = {"ceilings": {}, "roofline": [], "kernels": {}}
    for precision in PRECISIONS[:2] if options.quick else PRECISIONS:
        options.show(f"{precision}, ceilings", 0, 1)
        ceilings = measure_ceilings(precision)
        found.extra["ceilings"][precision] = asdict(ceilings)
        for hidden in (HIDDEN[0], HIDDEN[-1]) if options.quick else HIDDEN:
            try:
                measure_case(data, precision, hidden, ceilings, options, found)
            except WorkFailed as error:
                found.notes.append(str(error))
            torch.cuda.empty_cache()
    if not found.timings:
        raise WorkFailed("; ".join(found.notes))
    return found


def measure_case(
    data: Data,
    precision: Precision,
    hidden: int,
    ceilings: Ceilings,
    options: Options,
    found: Measurement,
) -> None:
    """Check and time one precision and hidden size.

    Args:
        precision: Precision of both sides.
        hidden: Width of the hidden layer.
        ceilings: Measured peak rates of the device.
        found: Measurement to which the results are added.
    """
    case, device = f"{precision}, E {hidden}", options.device
    train = make_splits(data, num_splits=1, train="all")[0].train
    graph = prepare(data)
    options.show(f"{case}, checking", 0, 1)
    settings: dict[str, Any] = {"device": device, "precision": precision}
    peers = (*Peer.NAMES, *Peer.COMPILED, *(Peer.GPU_ONLY if device == "cuda" else ()))
    names = [name for name in peers if _runs(name, data, train, settings, found)]
    for name in names:
        found.checks += check_peer(
            case, name, data, train, hidden_channels=hidden, graph=graph, **settings
        )
    models = {order: build_ours(data, order, hidden_channels=hidden) for order in (2, 1)}
    with matmul_precision(precision):
        steps = {
            order: training_step(model, graph, data, train, **settings)
            for order, model in models.items()
        }
        trained = {
            name: PeerTraining(name, models[Peer(name).order], data, train, **settings)
            for name in names
        }
        sides = [
            Side("ours", steps[2]),
            Side("our GCN", steps[1]),
            *(Side(name, peer.step) for name, peer in trained.items()),
        ]
        timings = interleave(case, sides, options.pace(case))
        if device == "cuda":
            found.extra["kernels"][case] = kernel_seconds(steps[2])
    found.timings += timings.values()
    found.results += [ratio_of(timings, name, "ours") for name in names]
    gcns = [name for name in names if Peer(name).order == 1]
    if gcns:
        best = min(gcns, key=lambda name: timings[name].median)
        found.results += [
            ratio_of(timings, best, "ours", what=BEST),
            ratio_of(timings, best, "our GCN", what=EQUAL_WORK),
        ]
        found.notes.append(
            f"{case}, median of a step: ours {1000 * timings['ours'].median:.3g} ms; our GCN "
            f"{1000 * timings['our GCN'].median:.3g} ms; the best GCN, {best}, "
            f"{1000 * timings[best].median:.3g} ms"
        )

    shape = shape_of_step(
        data.edge_index,
        data.num_nodes,
        train,
        features=data.x.size(1),
        hidden_channels=hidden,
        classes=data.num_classes,
        order=2,
    )
    value_bytes = 2 if precision == "bf16" else 4
    least = {}
    for order in (2, 1):
        parts = list(step_work(replace(shape, order=order), value_bytes))
        least[order] = roofline_seconds(parts, ceilings)
        found.extra["roofline"].append(
            {
                "case": case,
                "order": order,
                "seconds": least[order],
                "parts": [asdict(part) | {"seconds": ceilings.seconds(part)} for part in parts],
            }
        )
    found.results.append(_share(timings["ours"], least[2]))
    overhead = ratio_of(timings, "ours", "our GCN", what="over our GCN")
    found.results.append(replace(overhead, aim=least[2] / least[1]))


def _runs(
    name: str, data: Data, train: Tensor, settings: dict[str, Any], found: Measurement
) -> bool:
    """Return whether a peer supports the precision; bf16 in torch.sparse depends on the device."""
    if settings["precision"] != "bf16":
        return True
    small = build_ours(data, Peer(name).order, hidden_channels=8)
    try:
        PeerTraining(name, small, data, train, **settings).step()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        found.notes.append(f"{name} does not run in bf16 here: {reason}")
        return False
    return True


def _share(timing: Timing, least: float) -> BenchmarkResult:
    low, high = quartiles(timing.seconds)
    return BenchmarkResult(
        timing.case,
        "share of the roofline",
        100 * least / timing.median,
        "%",
        low=100 * least / high,
        high=100 * least / low,
    )


if __name__ == "__main__":
    main("gpu_step", measure)
