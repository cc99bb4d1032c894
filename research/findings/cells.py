"""Measure the cells of tables, each one a file: what is finished is never done again."""

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
    """A cell as it is trained.

    Attributes:
        cell: Its place.
        configs: The configurations of which validation takes one; mostly a single one.
        choose_splits: On how many splits it is chosen.
        trials: From how many settings a search chose before.
    """

    cell: FindingsCell
    configs: tuple[RunConfig, ...]
    choose_splits: int
    trials: int | None = None

    @property
    def name(self) -> str:
        """Of its file: the same for equal work, whichever table it stands in, and for no other."""
        first = self.configs[0]
        work = [[config.identity(), config.num_splits] for config in self.configs]
        if len(work) > 1:
            work.append([self.choose_splits])
        digest = hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:10]
        return f"{Path(first.dataset).stem}-{config_name(first).rpartition('-')[0]}-{digest}"


def plan_table(
    table: FindingsTable, searches: Path, overrides: Mapping[str, Any]
) -> list[PlannedCell]:
    """What to train for each cell of a table, in the order of use.

    Args:
        table: The table.
        searches: Folder with the records of searches.
        overrides: Settings of every run, such as ``epochs``.

    Raises:
        BadInput: If a search is missing or a setting is no setting.
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
    """Finished cells, and which are being measured now by any process of this machine.

    Args:
        folder: Where they are kept.
        device: Where they were trained; results of a GPU are kept apart.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder / device

    def read(self, planned: PlannedCell) -> tuple[Measured, Mapping[str, Any]] | None:
        """What was measured, and where; none if it was not."""
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
        """Keep what was measured."""
        content = measured.model_dump(mode="json", exclude_defaults=True)
        write_json(self._path(planned), {"measured": content, "environment": environment})

    @contextmanager
    def claim(self, planned: PlannedCell) -> Iterator[bool]:
        """Whether this process may measure the cell, and no other until it is done."""
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
    """Put the finished cells of a table together, in the table's order of rows.

    Args:
        table: The table.
        planned: Its cells.
        *folders: Where they may be; the first that has a cell gives it.
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
    """Which part of how many, for the command line: ``0/4`` to ``3/4`` are all of it.

    Args:
        text: As given.

    Raises:
        ArgumentTypeError: If there is no such part.
    """
    index, _, of = text.partition("/")
    if not (index.isdecimal() and of.isdecimal() and int(index) < int(of)):
        raise ArgumentTypeError(f"{text!r} is no share: give 0/4, 1/4, 2/4 or 3/4")
    return int(index), int(of)


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
        self._workloads: dict[tuple[tuple[Any, ...], bool], Trainer] = {}

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

    def _workload(self, config: RunConfig, *, read_test: bool) -> Trainer:
        key = shared_settings(config), read_test
        if key not in self._workloads:
            experiment = self._experiment(config)
            self._workloads[key] = experiment.trainer(device=self.device, read_test=read_test)
        return self._workloads[key]


class _Diverged(Exception):
    """A run came to no end, and why."""
