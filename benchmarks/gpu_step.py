"""One training step on a GPU, on a graph of Reddit400K's shape, in three precisions.

The models have two layers and dropout 0.5, and train on all 18,000 training nodes. Both sides use
the same precision. Our model has order 2; our GCN is the same code with order 1. The best GCN is
the fastest peer of order 1, which makes half the products of our model of order 2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from benchmarks.harness import Measurement, Options, Side, interleave, ratio_of
from benchmarks.ours import build_ours, check_peer, training_step, weights_of
from benchmarks.peers import (
    GPU_PEERS,
    PEERS,
    PRECISIONS,
    PeerTraining,
    Precision,
    order_of,
    product_precision,
)
from crossgcn import PreparedGraph, WorkFailed, load_dataset, make_splits

HIDDEN = (32, 128, 512, 1024)


def measure(options: Options) -> Measurement:
    """Time the step in every precision and for every hidden size."""
    found = Measurement()
    data = load_dataset("reddit400k-shaped", options.seed)
    train = make_splits(data, num_splits=1, train="all")[0].train
    for precision in PRECISIONS:
        for hidden in (HIDDEN[0], HIDDEN[-1]) if options.quick else HIDDEN:
            try:
                measure_case(data, train, precision, hidden, options, found)
            except WorkFailed as error:
                found.notes.append(str(error))
            if options.device == "cuda":
                torch.cuda.empty_cache()
    if not found.timings:
        raise WorkFailed("; ".join(found.notes))
    return found


def measure_case(
    data: Data,
    train: Tensor,
    precision: Precision,
    hidden: int,
    options: Options,
    found: Measurement,
) -> None:
    """Check and time one precision and hidden size."""
    case = f"{precision}, E {hidden}"
    graph = PreparedGraph(data.x, data.edge_index)
    options.show(f"{case}, checking")
    both: dict[str, Any] = {"device": options.device, "precision": precision}
    names = [
        name
        for name in (GPU_PEERS if options.device == "cuda" else PEERS)
        if _runs(name, data, train, both, found)
    ]
    for name in names:
        found.checks += check_peer(
            case, name, data, train, hidden_channels=hidden, graph=graph, **both
        )
    models = {order: build_ours(data, order, hidden_channels=hidden) for order in (2, 1)}
    with product_precision(precision):
        sides = [
            Side(side, training_step(models[order], graph, data.y, train, **both))
            for side, order in (("ours", 2), ("our GCN", 1))
        ]
        for name in names:
            weights = weights_of(models[order_of(name)])
            sides.append(Side(name, PeerTraining(name, weights, data, train, **both).step))
        timings = interleave(case, sides, options.pace(case))
    found.timings += timings.values()
    found.results += [ratio_of(timings, name, "ours") for name in names]
    gcns = [name for name in names if order_of(name) == 1]
    if gcns:
        best = min(gcns, key=lambda name: timings[name].median)
        found.results += [
            ratio_of(timings, best, "ours", what="best GCN"),
            ratio_of(timings, best, "our GCN", what="best GCN, over our GCN"),
        ]
    found.results.append(ratio_of(timings, "ours", "our GCN", what="over our GCN"))


def _runs(name: str, data: Data, train: Tensor, both: dict[str, Any], found: Measurement) -> bool:
    """Return whether a peer supports the precision; bf16 in torch.sparse depends on the device."""
    if both["precision"] != "bf16":
        return True
    weights = weights_of(build_ours(data, order_of(name), hidden_channels=8))
    try:
        PeerTraining(name, weights, data, train, **both).step()
    except RuntimeError as error:
        note = f"{name} does not run in bf16 here: {str(error).splitlines()[0]}"
        found.notes += [note] if note not in found.notes else []
        return False
    return True
