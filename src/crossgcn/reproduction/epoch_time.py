"""Measure the time of a training epoch, for the paper's Table 6."""

from __future__ import annotations

import math
import platform
import time
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph
from crossgcn.graph.prepared import choose_device
from crossgcn.models.catalogue import build_model
from crossgcn.training.config import RunConfig
from crossgcn.training.device import enough_memory
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.records import describe_dataset, describe_environment
from crossgcn.training.trainer import seeded


def measurement_identity(
    config: RunConfig, data: Data, *, epochs: int = 50, device: str = "auto"
) -> dict[str, Any]:
    """Return what makes a measurement this one; a record with equal entries is its result."""
    place = choose_device(device)
    on_gpu = place.type == "cuda"
    return {
        "config": config.model_dump(mode="json", exclude={"epochs", "num_splits", "repeats"}),
        "dataset": describe_dataset(data),
        "epochs": epochs,
        "device": place.type,
        "device_name": torch.cuda.get_device_name(place) if on_gpu else _processor(),
        "threads": torch.get_num_threads(),
    }


def measure_epoch_seconds(
    config: RunConfig, data: Data, *, epochs: int = 50, warmup: int = 3, device: str = "auto"
) -> dict[str, Any]:
    """Time full-batch training epochs of one model on one graph.

    An epoch is a forward pass for the training nodes of the configuration's first split, the
    objective, its backward pass and a step of Adam, without validation. As in training, only the
    rows that the training nodes depend on are computed.

    Args:
        config: Its ``epochs`` is not used.
        warmup: Epochs before the others, which are not timed.

    Returns:
        A record for JSON: ``seconds`` of each epoch with ``mean``, ``sd`` (``None`` for one
        epoch) and ``median``; ``config``, ``dataset``, ``train_nodes``, ``input_nodes`` (rows of
        features that are read), ``parameters``, ``losses`` of the first and last timed epoch
        (``None`` where not finite), ``device``, ``device_name``, ``peak_memory_bytes`` (``None``
        on a CPU) and ``environment``.
    """
    if epochs < 1 or warmup < 0:
        raise BadInput(
            f"epochs is {epochs} and warmup {warmup}; give at least 1 epoch and no fewer than 0 "
            "to warm up"
        )
    place = choose_device(device)
    on_gpu = place.type == "cuda"
    split = make_splits(data, config.splits, num_splits=1, train=config.train, seed=config.seed)[0]
    sizes = (
        f"{config.model} with {config.num_layers} layers of {config.hidden_channels} hidden "
        f"channels on {data.name} ({data.x.size(0):,} nodes, {data.edge_index.size(1):,} "
        f"directed edges, {data.x.size(1):,} features)"
    )

    def wait() -> None:
        if on_gpu:
            torch.cuda.synchronize(place)

    seconds, losses = [], []
    with enough_memory(sizes, place), seeded(config.seed):
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(place)
        model = build_model(
            config.model, data.x.size(1), data.num_classes, **config.model_settings()
        )
        graph = PreparedGraph(data.x, data.edge_index, getattr(data, "edge_weight", None))
        step = FullBatchStep(
            [model], graph, data.y, [split.train], config, seeds=[config.seed], device=place
        )
        for _ in range(warmup + epochs):
            wait()
            started = time.perf_counter()
            loss = step()
            wait()
            seconds.append(time.perf_counter() - started)
            losses.append(float(loss[0]))
    timed = seconds[warmup:]
    return measurement_identity(config, data, epochs=epochs, device=device) | {
        "train_nodes": split.train.numel(),
        "input_nodes": step.objective.input_rows,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "warmup": warmup,
        "seconds": timed,
        "mean": fmean(timed),
        "sd": stdev(timed) if epochs > 1 else None,
        "median": median(timed),
        "losses": [x if math.isfinite(x) else None for x in (losses[warmup], losses[-1])],
        "peak_memory_bytes": torch.cuda.max_memory_allocated(place) if on_gpu else None,
        "environment": describe_environment(place),
    }


def _processor() -> str:
    """Return the name of the CPU, if the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
