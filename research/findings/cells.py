"""Measure the cells of tables. Each finished cell is a file and is not measured again."""

from __future__ import annotations

import hashlib
import json
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import Any

from filelock import FileLock, Timeout

from crossgcn.data.files import write_json
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import Experiment
from crossgcn.reproduction.plan import config_name
from crossgcn.training.config import RunConfig
from crossgcn.training.pool import train_many
from crossgcn.training.records import describe_environment
from crossgcn.training.trainer import Record, Trainer, shared_settings
from research.findings.records import CandidateRecord, CellRecord, FindingsRecord, Measured
from research.findings.tables import FindingsCell, FindingsTable, SearchRecord, read_search


@dataclass(frozen=True)
class PlannedCell:
    """A cell and its training configurations.

    Attributes:
        cell: The cell of the table.
        configs: Candidate configurations, usually one; validation accuracy selects among them.
        choose_splits: Number of splits used for the selection.
        trials: Number of settings tried by an earlier search, if any.
    """

    cell: FindingsCell
    configs: tuple[RunConfig, ...]
    choose_splits: int
    trials: int | None = None

    @property
    def name(self) -> str:
        """Return the file name: a hash of the work, shared by equal cells of all tables."""
        first = self.configs[0]
        work = [[config.identity(), config.num_splits] for config in self.configs]
        if len(work) > 1:
            work.append([self.choose_splits])
        digest = hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:10]
        return f"{Path(first.dataset).stem}-{config_name(first).rpartition('-')[0]}-{digest}"


def plan_table(
    table: FindingsTable, searches: Path, overrides: Mapping[str, Any]
) -> list[PlannedCell]:
    """Return the planned cells of a table, in the table's order.

    Args:
        searches: Folder with the records of searches.
        overrides: Settings applied to every run, such as ``epochs``.

    Raises:
        BadInput: If a search record is missing or a setting is unknown.
    """
    search = read_search(searches / f"{table.search}.json") if table.search else None
    return [_plan(cell, table, search, overrides) for cell in table.cells()]


def _plan(
    cell: FindingsCell,
    table: FindingsTable,
    search: SearchRecord | None,
    overrides: Mapping[str, Any],
) -> PlannedCell:
    found: Mapping[str, Any] = {}
    trials = None
    if cell.searched is not None and search is not None:
        chosen = search.choose(cell.settings["dataset"], cell.searched)
        found, trials = chosen.settings, chosen.trials
    settings = {**cell.defaults, **found, **cell.settings}
    configs = tuple(
        RunConfig.create(**{**settings, **candidate, **overrides})
        for candidate in cell.candidates()
    )
    return PlannedCell(cell, configs, table.choose_splits, trials)


class CellFolder:
    """A folder of finished cells, with claims on the cells that are being measured.

    Claims prevent two processes of this machine from measuring the same cell.

    Args:
        device: Device of the training; GPU results are kept separately.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder / device

    def read(self, planned: PlannedCell) -> tuple[Measured, Mapping[str, Any]] | None:
        """Return the measurement of a cell and its environment, or ``None``."""
        path = self._path(planned)
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise BadInput(f"{path}: is not JSON ({error}); delete it") from None
        return Measured(**content["measured"]), content["environment"]

    def write(
        self, planned: PlannedCell, measured: Measured, environment: Mapping[str, Any]
    ) -> None:
        """Write the measurement of a cell."""
        content = measured.model_dump(mode="json", exclude_defaults=True)
        write_json(self._path(planned), {"measured": content, "environment": environment})

    @contextmanager
    def claim(self, planned: PlannedCell) -> Iterator[bool]:
        """Claim a cell for this process; yields whether the claim succeeded."""
        path = self._path(planned)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield not path.exists()
        finally:
            lock.release()

    def _path(self, planned: PlannedCell) -> Path:
        return self.folder / f"{planned.name}.json"


def collect_table(
    table: FindingsTable, planned: Sequence[PlannedCell], *folders: CellFolder
) -> FindingsRecord:
    """Collect the finished cells of a table, in the order of its rows.

    Args:
        planned: Its planned cells.
        *folders: Folders to look in; the first that contains a cell wins.
    """
    cells, missing, environments = {}, [], []
    for plan in planned:
        row, column = plan.cell.row, plan.cell.column
        found = next(filter(None, (folder.read(plan) for folder in folders)), None)
        if found is None:
            missing.append((row, column))
            continue
        measured, environment = found
        environments += [] if environment in environments else [environment]
        cells[row, column] = CellRecord(
            row=row, column=column, trials=plan.trials, **dict(measured)
        )
    places = [(row.label, column.label) for row in table.rows for column in table.columns]
    return FindingsRecord(
        table=table.name,
        cells=tuple(cells[place] for place in places if place in cells),
        missing=tuple(missing),
        environments=tuple(environments),
    )


def parse_share(text: str) -> tuple[int, int]:
    """Parse a share given on the command line: ``0/4`` to ``3/4`` together cover everything.

    Raises:
        ArgumentTypeError: If the text is not a valid share.
    """
    index, _, of = text.partition("/")
    if not (index.isdecimal() and of.isdecimal() and int(index) < int(of)):
        raise ArgumentTypeError(f"{text!r} is no share: give 0/4, 1/4, 2/4 or 3/4")
    return int(index), int(of)


class CellTrainer:
    """Train cells one after another; cells on the same splits of a graph share the loaded data.

    Args:
        device: ``cpu``, ``cuda`` or ``auto``.
        workers: Number of processes that share the runs of a cell on the CPU.
    """

    def __init__(self, device: str = "cpu", workers: int = 1) -> None:
        self.device = device
        self.workers = workers
        self._experiments: dict[tuple[Any, ...], Experiment] = {}
        self._workloads: dict[tuple[tuple[Any, ...], bool], Trainer] = {}

    def measure(self, planned: PlannedCell) -> tuple[Measured, Mapping[str, Any]]:
        """Return the measurement of a cell and its environment.

        A run that diverges is a valid result; the cell's ``failure`` then says why.

        Raises:
            BadInput: If the settings are invalid.
            WorkFailed: If the machine lacks resources, such as memory.
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
        """Return the validation accuracy of each candidate; empty if there is only one."""
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
        """Return the mean validation accuracy over the first splits; test nodes are not read."""
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

    def _workload(self, config: RunConfig, *, read_test: bool) -> Trainer:
        key = shared_settings(config), read_test
        if key not in self._workloads:
            experiment = self._experiment(config)
            self._workloads[key] = experiment.trainer(device=self.device, read_test=read_test)
        return self._workloads[key]


class _Diverged(Exception):
    """Raised when a run diverges; the message says why."""
