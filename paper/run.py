"""Run items: every model once, however many items show it, and every finished one kept."""

from __future__ import annotations

import csv
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from rich.progress import Progress

from crossgcn import (
    Experiment,
    PreparedGraph,
    RepeatedRuns,
    RunConfig,
    build_model,
    make_splits,
    train_full_batch,
)
from paper.cells import Measured, Result
from paper.plan import Job, Plan, count, load
from paper.training import train_semi_emb

Record = dict[str, Any]
"""What came out of a job.

``test_accuracy``, ``validation_accuracy`` and ``best_epoch``, one per split (per seed on a single
split); or ``mean``, the seconds of an epoch; and the ``environment``.
"""

_WARM_UP = {"cpu": 3, "cuda": 25}
"""Epochs before those that are timed; on a GPU, the trainer reports 25 at a time."""


class Runner:
    """Runs jobs and keeps their records below a folder.

    Args:
        workers: Processes that share the runs of crossgcn's models, each with ``threads``. What
            is trained or timed in this process has as many threads as all of them.
        device: ``cpu``, ``cuda`` or ``auto``.
    """

    def __init__(
        self, out: Path, *, workers: int = 1, threads: int = 1, device: str = "cpu"
    ) -> None:
        self.out = out / "records"
        self.workers, self.threads = workers, threads
        on_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda" if on_gpu else "cpu")
        self._records: dict[str, Record] = {}

    def run(self, plan: Plan, progress: Progress | None = None) -> Result:
        """Run what is not finished of an item."""
        item = plan.item
        jobs = {job.name: job for choices in plan.jobs.values() for _, job in choices}
        waiting = [job for name, job in jobs.items() if name not in self._records]
        alone = [job for job in waiting if job.is_own or item.kind == "timing"]
        presets = sorted((job for job in waiting if job not in alone), key=lambda job: job.group)
        with progress or Progress(disable=True) as shown:
            for _, group in groupby(presets, key=lambda job: job.group):
                members = list(group)
                words = f"{item.name}: {members[0].config.dataset}, {len(members)} configurations"
                task = shown.add_task(words, total=None)

                def show(done: int, total: int, task: Any = task) -> None:
                    shown.update(task, completed=done, total=total)

                self._records.update(self._train_presets(members, show))
            if item.kind == "curves":
                self._train_curves(list(jobs.values()))
            make = self._time if item.kind == "timing" else self._train_alone
            for job in shown.track(alone, description=f"{item.name}: alone") if alone else ():
                self._records[job.name] = self._remember(job, make)
        return _collect(plan, self._records)

    def _train_presets(
        self, jobs: Sequence[Job], on_epochs: Callable[[int, int], None]
    ) -> dict[str, Record]:
        """Train models of crossgcn on the same splits; finished runs are not repeated."""
        names, out = [job.name for job in jobs], self.out / jobs[0].config.dataset
        results = self._run(_experiment(jobs), out, on_epochs)
        return {
            name: {
                "test_accuracy": result.test_accuracy,
                "validation_accuracy": result.validation_score,
                "best_epoch": [record["best_epoch"] for record in result.records],
                "environment": result.records[0]["environment"],
            }
            for name, result in zip(names, results, strict=True)
        }

    def _train_curves(self, jobs: Sequence[Job]) -> None:
        """Train once more, with the test nodes in place of the validation nodes."""
        for job in jobs:
            experiment, out = _experiment([job]), self.out / job.config.dataset / "curves"
            experiment.splits = [replace(each, validation=each.test) for each in experiment.splits]
            self._run(experiment, out)
            self._records[job.name]["curve"] = mean_curve(out / job.name)

    def _run(
        self,
        experiment: Experiment,
        out: Path,
        on_epochs: Callable[[int, int], None] | None = None,
    ) -> list[RepeatedRuns]:
        out.mkdir(parents=True, exist_ok=True)
        return experiment.run(
            out=out,
            workers=self.workers,
            threads=self.threads,
            device=self.device.type,
            on_epochs=on_epochs,
        )

    def _remember(self, job: Job, make: Callable[[Job], Record]) -> Record:
        """Read the record of a job, or do the job and write it."""
        path = self.out / job.config.dataset / f"{job.name}.json"
        threads = self.workers * self.threads
        where = {"device": self.device.type, "threads": threads, "settings": job.settings}
        if path.exists():
            record: Record = json.loads(path.read_text(encoding="utf-8"))
            if all(record[name] == value for name, value in where.items()):
                return record
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            packages = ("crossgcn", "torch", "torch-geometric", "numpy")
            versions = {"python": platform.python_version()}
            versions |= {name: version(name) for name in packages}
            record = {**where, **make(job), "environment": {"versions": versions}}
        finally:
            torch.set_num_threads(before)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")
        return record

    def _train_alone(self, job: Job) -> Record:
        """Train a model that is not crossgcn's on every split."""
        config = job.config
        data = load(config.dataset, job.inputs)
        splits = make_splits(
            data, config.splits, num_splits=config.num_splits, train=config.train, seed=config.seed
        )
        weight = job.options["laplacian_weight"]
        runs = [
            train_semi_emb(data, split, config, weight, config.seed + index, self.device)
            for index, split in enumerate(splits)
        ]
        return {name: [getattr(run, name) for run in runs] for name in asdict(runs[0])}

    def _time(self, job: Job) -> Record:
        """Measure the seconds of an epoch of full-batch training.

        The validation of one node, without which crossgcn does not train, is included.
        """
        config, data = job.config, load(job.config.dataset)
        (split,) = make_splits(data, config.splits, num_splits=1)
        split = replace(split, validation=split.validation[:1], test=split.test[:1])
        torch.manual_seed(config.seed)
        model = build_model(
            config.model,
            data.x.size(1),
            data.num_classes,
            hidden_channels=config.hidden_channels,
            num_layers=config.num_layers,
            dropout=config.dropout,
        )
        warm_up, ends = _WARM_UP[self.device.type], []
        train_full_batch(
            model,
            PreparedGraph(data.x, data.edge_index),
            data.y,
            split,
            RunConfig(epochs=warm_up + config.epochs),
            seed=config.seed,
            device=self.device,
            on_metrics=lambda _: ends.append(time.perf_counter()),
        )
        timed = ends[warm_up - 1 :]
        on_gpu = self.device.type == "cuda"
        return {
            "mean": (timed[-1] - timed[0]) / (len(timed) - 1),
            "epochs": config.epochs,
            "device_name": torch.cuda.get_device_name() if on_gpu else _processor(),
            "parameters": sum(weight.numel() for weight in model.parameters()),
        }


def _experiment(jobs: Sequence[Job]) -> Experiment:
    """Return an experiment of models of crossgcn on the same splits and inputs."""
    first, data = jobs[0], None
    if first.inputs != "features":
        data = load(first.config.dataset, first.inputs, first.config.seed)
    return Experiment([job.config for job in jobs], data, folders=[job.name for job in jobs])


def _collect(plan: Plan, records: Mapping[str, Record]) -> Result:
    """Assemble the result of an item; validation chooses among the settings of a cell."""
    measured, environments = {}, []
    for place, choices in plan.jobs.items():
        if plan.item.kind == "statistics":
            value = count(plan.item.cells[place].settings["dataset"])[place.column]
            measured[place] = Measured(statistics={"value": value})
            continue
        found = [(chosen, job, records[job.name]) for chosen, job in choices]
        environments += [record["environment"] for _, _, record in found]
        if plan.item.kind == "timing":
            ((_, job, record),) = found
            measured[place] = Measured(job.settings, timing=record)
            continue
        chosen, job, record = max(found, key=lambda each: fmean(each[2]["validation_accuracy"]))
        candidates = [
            {"settings": each, "validation_accuracy": fmean(other["validation_accuracy"])}
            for each, _, other in found
        ]
        measured[place] = Measured(
            job.settings,
            chosen,
            candidates if len(candidates) > 1 else (),
            record["test_accuracy"],
            record["validation_accuracy"],
            record["best_epoch"],
            record["curve"] if plan.item.kind == "curves" else None,
        )
    environment = _join(environments)
    return Result(plan.item, measured, plan.shortened, plan.skipped, plan.splits, environment)


def mean_curve(folder: Path) -> dict[str, list[float]]:
    """Average the accuracy in every epoch over runs whose validation nodes are the test nodes."""
    tables = []
    for path in sorted(folder.glob("*/epochs.csv")):
        with path.open(encoding="utf-8") as file:
            tables.append(list(csv.DictReader(file)))
    curve: dict[str, list[float]] = {"epoch": [int(row["epoch"]) for row in tables[0]]}
    for name, column in (("train", "train_score"), ("test", "validation_score")):
        of_runs = [[float(row[column]) for row in table] for table in tables]
        epochs = list(zip(*of_runs, strict=True))
        curve[name] = [round(fmean(values), 6) for values in epochs]
        spread = [stdev(values) if len(values) > 1 else 0.0 for values in epochs]
        curve[f"{name}_sd"] = [round(value, 6) for value in spread]
    return curve


def _join(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe several environments as one: each value, or a list of the different ones."""
    joined: dict[str, Any] = {}
    for name in {name: None for environment in environments for name in environment}:
        values = [each[name] for each in environments if name in each]
        distinct = [value for place, value in enumerate(values) if value not in values[:place]]
        if all(isinstance(value, Mapping) for value in distinct):
            joined[name] = _join(distinct)
        else:
            joined[name] = distinct[0] if len(distinct) == 1 else distinct
    return joined


def _processor() -> str:
    """Return the name of the CPU, if the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), platform.machine())
