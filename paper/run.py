"""Run items: every model once, however many items show it, and every finished one kept."""

from __future__ import annotations

import csv
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
    WorkFailed,
    build_model,
    make_splits,
    train_full_batch,
)
from paper.cells import Measured, Result
from paper.plan import Job, Plan, count, device_of, load
from paper.training import train

_WARM_UP = {"cpu": 3, "cuda": 25}
"""Epochs before those that are timed; on a GPU, the trainer reports 25 at a time."""


@dataclass(frozen=True)
class Runs:
    """What came out of a job: one value per split, or per seed on a single split."""

    test_accuracy: tuple[float, ...]
    validation_accuracy: tuple[float, ...]
    best_epoch: tuple[int, ...]
    environment: Mapping[str, Any]
    folders: tuple[Path, ...] = ()


Outcome = Runs | Mapping[str, Any] | WorkFailed


class Runner:
    """Runs jobs and keeps their records below a folder.

    Args:
        workers: Processes that share the runs of crossgcn's models; each has ``threads``.
            Everything else uses all their threads in this process.
    """

    def __init__(
        self, out: Path, *, workers: int = 1, threads: int = 1, device: str = "cpu"
    ) -> None:
        self.out = out / "records"
        self.workers, self.threads = workers, threads
        self.device = device_of(device)
        self._outcomes: dict[str, Outcome] = {}

    def run(self, plan: Plan, progress: Progress | None = None) -> Result:
        """Run what is not finished of an item."""
        jobs = {job.name: job for choices in plan.jobs.values() for _, job in choices}
        waiting = [job for name, job in jobs.items() if name not in self._outcomes]
        with progress or Progress(disable=True) as shown:
            if plan.item.kind == "timing":
                for job in shown.track(waiting, description=f"{plan.item.name}: timing"):
                    self._outcomes[job.name] = self._remember(job, "timing", self._time)
            else:
                self._train(plan.item.name, waiting, shown)
        return _collect(plan, self._outcomes)

    def _train(self, item: str, jobs: Sequence[Job], progress: Progress) -> None:
        own = [job for job in jobs if job.is_own]
        presets = sorted((job for job in jobs if not job.is_own), key=lambda job: str(job.group))
        for _, group in groupby(presets, key=lambda job: job.group):
            members = list(group)
            words = f"{item}: {members[0].config.dataset}, {len(members)} configurations"
            task = progress.add_task(words, total=None)

            def show(done: int, total: int, task: Any = task) -> None:
                progress.update(task, completed=done, total=total)

            try:
                self._outcomes.update(self._train_presets(members, show))
            except WorkFailed:  # only those that fail by themselves are left out
                for job in members:
                    try:
                        self._outcomes.update(self._train_presets([job], show))
                    except WorkFailed as error:
                        self._outcomes[job.name] = error
        for job in progress.track(own, description=f"{item}: other models") if own else ():
            found = self._remember(job, "runs", self._train_own)
            self._outcomes[job.name] = Runs(
                **{
                    name: tuple(each) if isinstance(each, list) else each
                    for name, each in found.items()
                }
            )

    def _train_presets(
        self, jobs: Sequence[Job], on_epochs: Callable[[int, int], None]
    ) -> dict[str, Outcome]:
        first = jobs[0]
        data = None
        if first.inputs != "features":
            data = load(first.config.dataset, first.inputs, first.config.seed)
        names = [job.name for job in jobs]
        experiment = Experiment([job.config for job in jobs], data, folders=names)
        out = self.out / first.config.dataset
        out.mkdir(parents=True, exist_ok=True)
        results = experiment.run(
            out=out,
            workers=self.workers,
            threads=self.threads,
            device=self.device.type,
            on_epochs=on_epochs,
        )
        return {
            job.name: Runs(
                tuple(result.test_accuracy),
                tuple(result.validation_accuracy),
                tuple(record["best_epoch"] for record in result.records),
                result.records[0]["environment"],
                tuple(sorted(path.parent for path in (out / job.name).glob("*/run.json"))),
            )
            for job, result in zip(jobs, results, strict=True)
        }

    def _remember(
        self, job: Job, what: str, make: Callable[[Job], dict[str, Any]]
    ) -> dict[str, Any]:
        """Read the record of a job, or do it and write its record."""
        path = self.out / job.config.dataset / f"{job.name}.json"
        place = {"device": self.device.type, "threads": self.workers * self.threads}
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["place"] == place:
                return dict(record[what])
        torch.set_num_threads(self.workers * self.threads)
        found = make(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"settings": job.settings, "place": place, what: found}
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")
        return found

    def _train_own(self, job: Job) -> dict[str, Any]:
        config = job.config
        data = load(config.dataset, job.inputs)
        splits = make_splits(
            data, config.splits, num_splits=config.num_splits, train=config.train, seed=config.seed
        )
        runs = [
            train(job.model, data, split, config, job.options, config.seed + index, self.device)
            for index, split in enumerate(splits)
        ]
        columns = {name: [getattr(run, name) for run in runs] for name in asdict(runs[0])}
        return columns | {"environment": self._environment()}

    def _time(self, job: Job) -> dict[str, Any]:
        """Measure the seconds of an epoch of full-batch training, validation of one node included.

        Times between the reports of the trainer, from the end of the warm-up on.
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
            seed=config.seed,
            device=self.device,
            on_epoch=lambda _: ends.append(time.perf_counter()),
            epochs=warm_up + config.epochs,
        )
        timed = ends[warm_up - 1 :]
        on_gpu = self.device.type == "cuda"
        return {
            "mean": (timed[-1] - timed[0]) / (len(timed) - 1),
            "epochs": config.epochs,
            "device": self.device.type,
            "device_name": torch.cuda.get_device_name() if on_gpu else _processor(),
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "environment": self._environment(),
        }

    def _environment(self) -> dict[str, Any]:
        packages = ("crossgcn", "torch", "torch-geometric", "numpy")
        return {
            "python": platform.python_version(),
            "versions": {name: version(name) for name in packages},
            "threads": torch.get_num_threads(),
            "device": self.device.type,
        }


def _collect(plan: Plan, outcomes: Mapping[str, Outcome]) -> Result:
    """Assemble the result of an item; cells whose runs failed are left out."""
    measured, failed, environments = {}, [], []
    for place, choices in plan.jobs.items():
        if plan.item.kind == "statistics":
            value = count(plan.item.cells[place].settings["dataset"])[place.column]
            measured[place] = Measured(statistics={"value": value})
            continue
        found = [(chosen, job, outcomes[job.name]) for chosen, job in choices]
        error = next((each for _, _, each in found if isinstance(each, WorkFailed)), None)
        if error is not None:
            failed.append(f"{', '.join(filter(None, place))}: {error}")
            continue
        if plan.item.kind == "timing":
            ((_, job, timing),) = found
            assert isinstance(timing, Mapping)
            measured[place] = Measured(job.settings, timing=timing)
            environments.append(timing["environment"])
            continue
        trained = [(chosen, job, each) for chosen, job, each in found if isinstance(each, Runs)]
        chosen, job, runs = max(trained, key=lambda each: fmean(each[2].validation_accuracy))
        candidates = tuple(
            {"settings": each, "validation_accuracy": fmean(other.validation_accuracy)}
            for each, _, other in trained
        )
        measured[place] = Measured(
            job.settings,
            chosen,
            candidates if len(candidates) > 1 else (),
            runs.test_accuracy,
            runs.validation_accuracy,
            runs.best_epoch,
            mean_curve(runs.folders) if plan.item.kind == "curves" else None,
        )
        environments.append(runs.environment)
    return Result(
        plan.item,
        measured,
        plan.shortened,
        plan.skipped,
        tuple(failed),
        plan.splits,
        _join(environments),
    )


def mean_curve(folders: Sequence[Path]) -> dict[str, list[float]]:
    """Average the accuracy in every epoch over the runs of these folders."""
    tables = []
    for folder in folders:
        with (folder / "epochs.csv").open(encoding="utf-8") as file:
            tables.append(list(csv.DictReader(file)))
    curve = {"epoch": [int(row["epoch"]) for row in tables[0]]}
    columns: dict[str, list[float]] = {}
    for name, column in (("train", "train_score"), ("test", "test_accuracy")):
        of_runs = [[float(row[column]) for row in table] for table in tables]
        epochs = list(zip(*of_runs, strict=True))
        columns[name] = [round(fmean(values), 6) for values in epochs]
        columns[f"{name}_sd"] = [
            round(stdev(values), 6) if len(values) > 1 else 0.0 for values in epochs
        ]
    return {**curve, **columns}


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
    named: Iterator[str] = (
        line.partition(":")[2].strip() for line in lines if line.startswith("model name")
    )
    return next(named, "") or platform.processor() or platform.machine()
