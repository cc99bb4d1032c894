"""Train one cell of a table over all its splits, after choosing its settings by validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any

from crossgcn.errors import WorkFailed
from crossgcn.evaluation.findings_cells import PlannedCell
from crossgcn.evaluation.findings_records import CandidateRecord, Measured
from crossgcn.evaluation.repeats import Experiment
from crossgcn.training.config import RunConfig
from crossgcn.training.environment import describe_environment
from crossgcn.training.joint_workload import shared_settings
from crossgcn.training.many_runs import train_many
from crossgcn.training.workload import Record, Workload

__all__ = ["CellTrainer"]


class CellTrainer:
    """Trains cells one after another; those on the same splits of a graph share what is loaded.

    Args:
        device: ``cpu``, ``cuda`` or ``auto``.
        workers: Processes that share the runs of a cell on the CPU.
    """

    def __init__(self, device: str = "cpu", workers: int = 1) -> None:
        self.device = device
        self.workers = workers
        self._experiments: dict[tuple[Any, ...], Experiment] = {}
        self._workloads: dict[tuple[tuple[Any, ...], bool], Workload] = {}

    def measure(self, planned: PlannedCell) -> tuple[Measured, Mapping[str, Any]]:
        """What came out of a cell, and the environment it was trained in.

        A run that diverges is a result, told as the cell's ``failure``.

        Raises:
            BadInput: If it cannot be trained as described.
            WorkFailed: If the machine was not up to it.
        """
        candidates = self._try_out(planned)
        scores = [candidate.validation_mean or 0.0 for candidate in candidates]
        best = scores.index(max(scores)) if scores else 0
        config = planned.configs[best]
        place = self._workload(config, read_test=True).device
        about = Measured(
            settings=config.identity() | {"num_splits": config.num_splits},
            device=place.type,
            chosen=candidates[best].settings if candidates else {},
            candidates=candidates,
        )
        try:
            records = self._train(config, read_test=True)
        except _Diverged as error:
            return about.model_copy(update={"failure": str(error)}), describe_environment(place)
        measured = {
            "test_accuracy": tuple(record["test_accuracy"] for record in records),
            "validation_accuracy": tuple(record["validation_accuracy"] for record in records),
            "best_epoch": tuple(record["best_epoch"] for record in records),
            "num_training_sets": len({record["split"]["train_sha256"] for record in records}),
            "parameters": records[0]["parameters"],
            "seconds": fsum(record["seconds"] for record in records),
        }
        return about.model_copy(update=measured), records[0]["environment"]

    def _try_out(self, planned: PlannedCell) -> tuple[CandidateRecord, ...]:
        """How each candidate validates; nothing where there is no choice."""
        if len(planned.configs) == 1:
            return ()
        return tuple(
            CandidateRecord(
                settings=settings,
                validation_mean=self._validate(config, planned.choose_splits),
            )
            for config, settings in zip(planned.configs, planned.cell.candidates(), strict=True)
        )

    def _validate(self, config: RunConfig, num_splits: int) -> float | None:
        """Mean validation accuracy over the first splits; no test node is read."""
        try:
            records = self._train(config, num_splits, read_test=False)
        except _Diverged:
            return None
        return fmean(record["validation_accuracy"] for record in records)

    def _train(
        self, config: RunConfig, num_splits: int | None = None, *, read_test: bool
    ) -> Sequence[Record]:
        workload = self._workload(config, read_test=read_test)
        every = self._experiment(config).runs_of(config, None)
        runs = [run for run in every if num_splits is None or run.split < num_splits]
        failures: dict[int, WorkFailed] = {}
        records = train_many(workload, runs, workers=self.workers, on_failure=failures.__setitem__)
        if failures:
            raise _Diverged(failures[min(failures)])
        return records

    def _experiment(self, config: RunConfig) -> Experiment:
        key = shared_settings(config)
        if key not in self._experiments:
            self._experiments[key] = Experiment([config])
        return self._experiments[key]

    def _workload(self, config: RunConfig, *, read_test: bool) -> Workload:
        key = shared_settings(config), read_test
        if key not in self._workloads:
            experiment = self._experiment(config)
            self._workloads[key] = experiment.workload(device=self.device, read_test=read_test)
        return self._workloads[key]


class _Diverged(Exception):
    """A run came to no end, and why."""
