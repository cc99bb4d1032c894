"""From run records to the cells of an item; what validation chooses is chosen here."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from crossgcn.data.datasets import load_dataset
from crossgcn.data.splits import make_splits
from crossgcn.errors import WorkFailed
from crossgcn.evaluation.item_results import CandidateResult, CellResult, Curve, ItemResult
from crossgcn.evaluation.plan import Candidate, Plan, PlannedCell
from crossgcn.evaluation.repeats import RepeatedRuns
from crossgcn.training.config import RunConfig
from crossgcn.training.records import EPOCHS

__all__ = ["choose_candidate", "collect_item", "dataset_statistics"]

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
