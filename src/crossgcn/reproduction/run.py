"""Run the items of the paper: each configuration once, every finished run kept.

Items share runs: a configuration that occurs in two items is trained once, and one pool of
processes does all the work.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import torch
from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import write_json
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import Experiment, RepeatedRuns
from crossgcn.graph import PreparedGraph
from crossgcn.graph.prepared import choose_device
from crossgcn.models.catalogue import build_model
from crossgcn.reproduction.plan import ItemPlan, ItemResult, collect_item, config_name
from crossgcn.training.config import RunConfig
from crossgcn.training.device import enough_memory
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.pool import count_epochs, train_many
from crossgcn.training.records import describe_dataset, describe_environment, finished_run
from crossgcn.training.trainer import (
    JointTrainer,
    Record,
    Run,
    seeded,
    shared_settings,
    using_threads,
)

_TIMED_EPOCHS, _TIMED_EPOCHS_ON_A_GPU = 4, 50
_UNITS_PER_SECOND = 1_000_000
_COSTLY = ("model", "num_layers", "order", "hidden_channels", "aggregate_first")
"""Settings that decide how long an epoch takes."""

_load = cache(load_dataset)


class Reproduction:
    """Items of the paper, ready to run.

    The constructor loads the data and finds the runs that are finished already. ``workers``
    processes share the work, and each run has ``threads`` threads.
    """

    def __init__(
        self,
        plans: Sequence[ItemPlan],
        out: Path,
        *,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.plans = plans
        self.out = out
        self.workers = workers
        self.threads = threads
        self.device = device
        self.configs = {config_name(config): config for plan in plans for config in plan.configs()}
        groups: dict[tuple[Any, ...], list[RunConfig]] = {}
        for config in self.configs.values():
            groups.setdefault(shared_settings(config), []).append(config)
        experiments = {key: Experiment(members) for key, members in groups.items()}
        self.trainer = JointTrainer(
            {
                key: experiment.trainer(threads=threads, device=device)
                for key, experiment in experiments.items()
            }
        )
        self._runs = {
            name: list(experiments[shared_settings(config)].runs_of(config, self._folder(config)))
            for name, config in self.configs.items()
        }
        timed = [cell for plan in plans if plan.item.kind == "timing" for cell in plan.cells]
        timed.sort(key=lambda cell: cell.cell.x or 0)  # compared models follow each other closely
        self._timed = {config_name(c): c for c in (cell.choices[0].config for cell in timed)}
        self._outcomes: dict[str, dict[int, Record | WorkFailed]] = {}
        for name, runs in self._runs.items():
            found = (
                finished_run(run.folder, self.trainer.identity(run)) if run.folder else None
                for run in runs
            )
            self._outcomes[name] = {i: each for i, each in enumerate(found) if each is not None}
        self._timings: dict[str, Record | WorkFailed] = {
            name: record
            for name, config in self._timed.items()
            if (record := self._found_timing(config)) is not None
        }
        self._costs: dict[str, int] = {}

    @property
    def num_runs(self) -> int:
        """Number of runs."""
        return sum(map(len, self._runs.values()))

    @property
    def num_waiting(self) -> int:
        """Number of runs that are not finished."""
        return len(self._waiting())

    def expected_seconds(self, on_config: Callable[[int, int], None] | None = None) -> float:
        """Estimate the remaining time from a few epochs of each kind of run.

        ``on_config`` is called with the configurations timed and their total number.
        """
        waiting, untimed = self._waiting(), self._untimed()
        names = list(dict.fromkeys(name for name, _ in waiting))
        kinds: dict[tuple[Any, ...], float] = {}
        for done, name in enumerate((*names, *untimed), 1):
            if name in untimed:
                seconds = self._measure(untimed[name], epochs=1)["mean"]
            else:
                config = self.configs[name]
                kind = (*shared_settings(config), *(getattr(config, each) for each in _COSTLY))
                seconds = kinds[kind] = kinds.get(kind) or self._time(self._runs[name])
            self._costs[name] = max(1, round(seconds * _UNITS_PER_SECOND))
            if on_config is not None:
                on_config(done, len(names) + len(untimed))
        units = sum(self.configs[name].epochs * self._costs[name] for name, _ in waiting)
        alone = sum(map(self._units_of_timing, untimed))
        shared = 1 if self.trainer.device.type == "cuda" else min(self.workers, len(waiting))
        return (units / max(1, shared) + alone) / _UNITS_PER_SECOND

    def run(
        self,
        *,
        on_work: Callable[[int, int], None] | None = None,
        on_item: Callable[[ItemPlan, ItemResult], None] | None = None,
        on_timing: Callable[[str], None] | None = None,
    ) -> list[ItemResult]:
        """Do all work that is not finished.

        A run that diverges leaves its cell out of the result, with the reason in ``failed``;
        the other runs continue.

        Args:
            on_work: Called with the work done and the work in total, in units of equal time.
            on_item: Called with each item as soon as its last run is finished.
            on_timing: Called with what is timed next, after all training.
        """
        waiting, untimed = self._waiting(), self._untimed()
        runs = [
            replace(self._runs[name][position], cost=self._costs.get(name, 1))
            for name, position in waiting
        ]
        count = count_epochs(runs, on_work, sum(map(self._units_of_timing, untimed)))
        results: dict[str, ItemResult] = {}

        def finish_items() -> None:
            for plan in self.plans:
                if plan.item.name not in results and self._is_over(plan):
                    result = collect_item(plan, self._runs_of, self._folders_of, self._timing_of)
                    results[plan.item.name] = result
                    if on_item is not None:
                        on_item(plan, result)

        def keep(place: int, outcome: Record | WorkFailed) -> None:
            name, position = waiting[place]
            self._outcomes[name][position] = outcome
            if len(self._outcomes[name]) == len(self._runs[name]):
                finish_items()

        finish_items()
        kept: dict[str, Any] = {"on_epochs": count, "on_record": keep, "on_failure": keep}
        train_many(self.trainer, runs, workers=self.workers, **kept)
        for name, config in untimed.items():
            if on_timing is not None:
                on_timing(f"{config.model}, hidden size {config.hidden_channels}")
            path = self._timing_path(config)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._timings[name] = self._measure(config, config.epochs)
                write_json(path, self._timings[name])
            except WorkFailed as error:
                self._timings[name] = error
            count(self._units_of_timing(name))
        finish_items()
        return [results[plan.item.name] for plan in self.plans]

    def _folder(self, config: RunConfig) -> Path:
        return self.out / "records" / config.dataset / config_name(config)

    def _waiting(self) -> list[tuple[str, int]]:
        return [
            (name, position)
            for name, runs in self._runs.items()
            for position in range(len(runs))
            if position not in self._outcomes[name]
        ]

    def _untimed(self) -> dict[str, RunConfig]:
        return {name: config for name, config in self._timed.items() if name not in self._timings}

    def _is_over(self, plan: ItemPlan) -> bool:
        """Return whether all runs of an item are finished or failed."""
        if plan.item.kind == "timing":
            return not self._untimed()
        names = map(config_name, plan.configs())
        return all(len(self._outcomes[name]) == len(self._runs[name]) for name in names)

    def _time(self, runs: Sequence[Run]) -> float:
        """Return the seconds of one epoch of a run, from runs of one configuration."""
        on_gpu = self.trainer.device.type == "cuda"
        epochs = _TIMED_EPOCHS_ON_A_GPU if on_gpu else _TIMED_EPOCHS
        short = runs[0].config.model_copy(update={"epochs": epochs})
        first = self.trainer.model_batches(dict(enumerate(runs)))[0]
        trial = [replace(runs[i], config=short, folder=None) for i in first]
        ends: list[tuple[float, int]] = []
        self.trainer.train(trial, lambda count: ends.append((time.perf_counter(), count)))
        if len(ends) < 2:
            return 0.0
        counted = sum(count for _, count in ends[1:])
        return (ends[-1][0] - ends[0][0]) / counted / len(trial)

    def _runs_of(self, config: RunConfig) -> RepeatedRuns:
        outcomes = self._outcomes[config_name(config)]
        return RepeatedRuns(config, tuple(_no_failure(outcomes[i]) for i in sorted(outcomes)))

    def _timing_of(self, config: RunConfig) -> Record:
        return _no_failure(self._timings[config_name(config)])

    def _folders_of(self, config: RunConfig) -> list[Path]:
        return [run.folder for run in self._runs[config_name(config)] if run.folder is not None]

    def _units_of_timing(self, name: str) -> int:
        return self._timed[name].epochs * self._costs.get(name, 1)

    def _timing_path(self, config: RunConfig) -> Path:
        return self._folder(config).with_suffix(".json")

    def _found_timing(self, config: RunConfig) -> Record | None:
        """Read a measurement, if it is of the same configuration on the same machine."""
        try:
            found = json.loads(self._timing_path(config).read_bytes())
        except (OSError, ValueError):
            return None
        with using_threads(self.workers * self.threads):
            wanted = measurement_identity(
                config, _load(config.dataset), epochs=config.epochs, device=self.device
            )
        same = isinstance(found, dict) and all(
            found.get(name) == value for name, value in json.loads(json.dumps(wanted)).items()
        )
        return found if same else None

    def _measure(self, config: RunConfig, epochs: int) -> Record:
        with using_threads(self.workers * self.threads):
            return measure_epoch_seconds(
                config, _load(config.dataset), epochs=epochs, device=self.device
            )


def _no_failure(outcome: Record | WorkFailed) -> Record:
    if isinstance(outcome, WorkFailed):
        raise outcome
    return outcome


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
