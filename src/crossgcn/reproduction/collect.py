"""From run records to the cells of an item; what validation chooses is chosen here."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import write_json
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.reproduction.items import CellKey, PaperValue
from crossgcn.reproduction.plan import Candidate, Plan, PlannedCell
from crossgcn.training.config import RunConfig
from crossgcn.training.records import EPOCHS


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Curve(_Part):
    """Accuracy epoch by epoch, averaged over runs; fractions.

    Attributes:
        epoch: Counted from 1.
        train: Mean accuracy on the training nodes, with dropout.
        train_sd: Its standard deviation over runs.
        test: Mean accuracy on the test nodes.
        test_sd: Its standard deviation over runs.
    """

    epoch: tuple[int, ...]
    train: tuple[float, ...]
    train_sd: tuple[float, ...]
    test: tuple[float, ...]
    test_sd: tuple[float, ...]


class CandidateResult(_Part):
    """One of the settings that validation chose from; its test accuracy is not looked at."""

    settings: Mapping[str, Any]
    validation_accuracy: float


class CellResult(_Part):
    """One cell, with what is needed to judge and draw it.

    Attributes:
        panel: Where it stands.
        row: Likewise.
        column: Likewise.
        x: Its place on a figure's axis.
        paper: What the paper prints there.
        reason: Why ours is not the same.
        compare_with: The row it is paired with.
        settings: What was run (after the choice by validation).
        chosen: The settings that validation chose.
        candidates: What it chose from.
        test_accuracy: Fractions, one per split (per seed where all splits are one).
        validation_accuracy: Likewise, at the selected epochs.
        best_epoch: The selected epochs, one per run.
        curve: Of ``curves``.
        timing: Of ``timing``: the record of :mod:`crossgcn.reproduction.epoch_time`.
        statistics: Of ``statistics``: ours, by name.
    """

    panel: str
    row: str
    column: str
    x: float | None = None
    paper: PaperValue | None = None
    reason: str | None = None
    compare_with: str | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    chosen: Mapping[str, Any] = Field(default_factory=dict)
    candidates: tuple[CandidateResult, ...] = ()
    test_accuracy: tuple[float, ...] = ()
    validation_accuracy: tuple[float, ...] = ()
    best_epoch: tuple[int, ...] = ()
    curve: Curve | None = None
    timing: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None


class ItemResult(_Part):
    """Everything that was found for an item.

    Attributes:
        item: Its name.
        cells: Those that were run, in the item's order.
        shortened: What ``--quick`` left out, a line each; empty for a full run.
        skipped: What could not be run and how to provide it, a line each.
        failed: What was tried and did not work, and why, a line each.
        splits: Which training sets were used, by dataset.
        environment: Versions, threads, commit and machine of the runs.
    """

    item: str
    cells: tuple[CellResult, ...]
    shortened: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    splits: Mapping[str, str] = Field(default_factory=dict)
    environment: Mapping[str, Any] = Field(default_factory=dict)

    def matching(self, key: CellKey) -> list[CellResult]:
        """The cells a selector means."""
        return [
            cell
            for cell in self.cells
            if key.panel in (None, cell.panel)
            and key.row in (None, cell.row)
            and key.column in (None, cell.column)
        ]

    def find(self, panel: str, row: str, column: str) -> CellResult | None:
        """The cell at a place, if it was run."""
        found = self.matching(CellKey(panel=panel, row=row, column=column))
        return found[0] if found else None


def write_item_result(path: Path, result: ItemResult) -> None:
    """Write a result as JSON, whole or not at all."""
    write_json(path, result.model_dump(mode="json", exclude_defaults=True))


def read_item_result(path: Path) -> ItemResult:
    """Read a result.

    Raises:
        BadInput: If the file is not there or not one.
    """
    try:
        return ItemResult(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); run the item first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not the result of an item ({first}); run it again") from None


RunsOf = Callable[[RunConfig], RepeatedRuns]


def collect_item(
    plan: Plan,
    runs_of: RunsOf,
    folders_of: Callable[[RunConfig], Sequence[Path]],
    timing_of: Callable[[RunConfig], Mapping[str, Any]],
) -> ItemResult:
    """Put an item together.

    Args:
        plan: What was done for it.
        runs_of: The finished runs of a configuration.
        folders_of: Their folders, where curves are read from.
        timing_of: The measurement of a configuration, for timings.

    Each of the three may raise :class:`WorkFailed`, which leaves its cell out.
    """
    kind = plan.item.kind
    cells = []
    environments: list[Mapping[str, Any]] = []
    failed = []
    for planned in plan.cells:
        try:
            if kind == "statistics":
                cells.append(_statistics_cell(planned))
            elif kind == "timing":
                timing = timing_of(planned.candidates[0].config)
                cells.append(_cell(planned, planned.candidates[0], timing=timing))
                environments.append(timing["environment"])
            else:
                candidate, runs = choose_candidate(planned, runs_of)
                curve = mean_curve(folders_of(candidate.config)) if kind == "curves" else None
                cells.append(_trained_cell(planned, candidate, runs, runs_of, curve))
                environments += [record["environment"] for record in runs.records]
        except WorkFailed as error:
            place = (planned.cell.row, planned.cell.panel, planned.cell.column)
            failed.append(f"{', '.join(filter(None, place))}: {error}")
    return ItemResult(
        item=plan.item.name,
        cells=tuple(cells),
        shortened=plan.shortened,
        skipped=plan.skipped,
        failed=tuple(failed),
        splits=plan.splits,
        environment=_join(environments),
    )


def choose_candidate(planned: PlannedCell, runs_of: RunsOf) -> tuple[Candidate, RepeatedRuns]:
    """The candidate with the best mean validation accuracy, the first of equals."""
    results = [(candidate, runs_of(candidate.config)) for candidate in planned.candidates]
    return max(results, key=lambda result: fmean(result[1].validation_accuracy))


def mean_curve(folders: Sequence[Path]) -> Curve:
    """The curves of several runs, averaged epoch by epoch."""
    runs = []
    for folder in folders:
        with (folder / EPOCHS).open(newline="") as file:
            runs.append(list(csv.DictReader(file)))
    epochs = [int(row["epoch"]) for row in runs[0]]
    columns = {
        name: [[float(run[step][name]) for run in runs] for step in range(len(epochs))]
        for name in ("train_accuracy", "test_accuracy")
    }
    return Curve(
        epoch=tuple(epochs),
        train=tuple(round(fmean(values), 6) for values in columns["train_accuracy"]),
        train_sd=tuple(round(_deviation(values), 6) for values in columns["train_accuracy"]),
        test=tuple(round(fmean(values), 6) for values in columns["test_accuracy"]),
        test_sd=tuple(round(_deviation(values), 6) for values in columns["test_accuracy"]),
    )


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def dataset_statistics(name: str) -> dict[str, float]:
    """The numbers of the paper's Table 2 for a dataset, counted."""
    data = load_dataset(name)
    source, target = data.edge_index
    train = make_splits(data, "public", num_splits=1)[0].train
    return {
        "nodes": data.x.size(0),
        "edges": int((source < target).sum()),
        "classes": data.num_classes,
        "features": data.x.size(1),
        "label rate": round(train.numel() / data.x.size(0), 3),
    }


_statistics: dict[str, dict[str, float]] = {}


def _statistics_cell(planned: PlannedCell) -> CellResult:
    name = planned.cell.settings["dataset"]
    if name not in _statistics:
        _statistics[name] = dataset_statistics(name)
    value = _statistics[name][planned.cell.column]
    return _cell(planned, planned.candidates[0], statistics={"value": value})


def _trained_cell(
    planned: PlannedCell,
    candidate: Candidate,
    runs: RepeatedRuns,
    runs_of: RunsOf,
    curve: Curve | None,
) -> CellResult:
    candidates: tuple[CandidateResult, ...] = ()
    if len(planned.candidates) > 1:
        candidates = tuple(
            CandidateResult(
                settings=dict(other.chosen),
                validation_accuracy=fmean(runs_of(other.config).validation_accuracy),
            )
            for other in planned.candidates
        )
    return _cell(
        planned,
        candidate,
        candidates=candidates,
        test_accuracy=tuple(runs.test_accuracy),
        validation_accuracy=tuple(runs.validation_accuracy),
        best_epoch=tuple(record["best_epoch"] for record in runs.records),
        curve=curve,
    )


def _cell(planned: PlannedCell, candidate: Candidate, **found: Any) -> CellResult:
    cell = planned.cell
    return CellResult(
        panel=cell.panel,
        row=cell.row,
        column=cell.column,
        x=cell.x,
        paper=cell.paper,
        reason=cell.reason,
        compare_with=cell.compare_with,
        settings=candidate.config.identity(),
        chosen=dict(candidate.chosen),
        **found,
    )


def _join(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One description of several environments: a value each agrees on, or all of them."""
    joined: dict[str, Any] = {}
    for name in {name: None for environment in environments for name in environment}:
        values = [environment.get(name) for environment in environments]
        distinct = [value for place, value in enumerate(values) if value not in values[:place]]
        if all(isinstance(value, Mapping) for value in distinct):
            joined[name] = _join([value for value in distinct if value is not None])
        else:
            joined[name] = distinct[0] if len(distinct) == 1 else distinct
    return joined
