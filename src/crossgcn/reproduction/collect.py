"""From run records to the cells of an item, including the choices by validation accuracy."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import Field, ValidationError

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import write_json
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.reproduction.items import CellKey, CellPlace, Frozen
from crossgcn.reproduction.plan import Choice, ItemPlan, PlannedCell
from crossgcn.training.config import RunConfig
from crossgcn.training.records import EPOCHS


class Curve(Frozen):
    """Accuracy (a fraction) per epoch, mean and standard deviation over runs.

    Attributes:
        epoch: Counted from 1.
        train: On the training nodes, with dropout.
    """

    epoch: tuple[int, ...]
    train: tuple[float, ...]
    train_sd: tuple[float, ...]
    test: tuple[float, ...]
    test_sd: tuple[float, ...]


class ChoiceResult(Frozen):
    """Settings that validation chose from; their test accuracy is not read."""

    settings: Mapping[str, Any]
    validation_accuracy: float


class CellResult(CellPlace):
    """A cell that was run; ``settings`` are those of the chosen configuration.

    Attributes:
        chosen: The settings that validation chose.
        candidates: What it chose from.
        test_accuracy: Fractions, one per split (one per seed if there is a single split).
        validation_accuracy: Likewise, at the selected epochs.
        best_epoch: The selected epoch of each run.
        curve: For ``curves``.
        timing: For ``timing``: the record of :mod:`crossgcn.reproduction.epoch_time`.
        statistics: For ``statistics``: our value, by name.
    """

    chosen: Mapping[str, Any] = Field(default_factory=dict)
    candidates: tuple[ChoiceResult, ...] = ()
    test_accuracy: tuple[float, ...] = ()
    validation_accuracy: tuple[float, ...] = ()
    best_epoch: tuple[int, ...] = ()
    curve: Curve | None = None
    timing: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None


class ItemResult(Frozen):
    """The results of an item.

    Attributes:
        item: Name of the item.
        cells: The cells that were run, in the item's order.
        shortened: What ``--quick`` left out, a line each; empty for a full run.
        skipped: What could not be run and how to provide it, a line each.
        failed: What failed and why, a line each.
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
        """Return the cells that a selector matches."""
        return [cell for cell in self.cells if key.matches(cell)]

    def find(self, panel: str, row: str, column: str) -> CellResult | None:
        """Return the cell at a place, if it was run."""
        found = self.matching(CellKey(panel=panel, row=row, column=column))
        return found[0] if found else None


def write_item_result(path: Path, result: ItemResult) -> None:
    """Write a result as JSON, whole or not at all."""
    write_json(path, result.model_dump(mode="json", exclude_defaults=True))


def read_item_result(path: Path) -> ItemResult:
    """Read a result.

    Raises:
        BadInput: If the file is missing or holds something else.
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
    plan: ItemPlan,
    runs_of: RunsOf,
    folders_of: Callable[[RunConfig], Sequence[Path]],
    timing_of: Callable[[RunConfig], Mapping[str, Any]],
) -> ItemResult:
    """Assemble the result of an item.

    A function that raises :class:`WorkFailed` leaves its cell out.

    Args:
        plan: What was run.
        runs_of: Returns the finished runs of a configuration.
        folders_of: Returns their folders, which hold the learning curves.
        timing_of: Returns the measurement of a configuration, for timings.
    """
    cells = []
    environments: list[Mapping[str, Any]] = []
    failed = []
    for planned in plan.cells:
        try:
            choice = planned.choices[0]
            if plan.item.kind == "statistics":
                counted = dataset_statistics(planned.cell.settings["dataset"])
                found: dict[str, Any] = {"statistics": {"value": counted[planned.cell.column]}}
            elif plan.item.kind == "timing":
                timing = timing_of(choice.config)
                found = {"timing": timing}
                environments.append(timing["environment"])
            else:
                choice, runs = choose(planned, runs_of)
                found = _trained(planned, runs, runs_of)
                if plan.item.kind == "curves":
                    found["curve"] = mean_curve(folders_of(choice.config))
                environments += [record["environment"] for record in runs.records]
        except WorkFailed as error:
            place = (planned.cell.row, planned.cell.panel, planned.cell.column)
            failed.append(f"{', '.join(filter(None, place))}: {error}")
            continue
        place_of_cell = {name: getattr(planned.cell, name) for name in CellPlace.model_fields}
        place_of_cell["settings"] = choice.config.identity()
        cells.append(CellResult(**place_of_cell, chosen=dict(choice.chosen), **found))
    return ItemResult(
        item=plan.item.name,
        cells=tuple(cells),
        shortened=plan.shortened,
        skipped=plan.skipped,
        failed=tuple(failed),
        splits=plan.splits,
        environment=_join(environments),
    )


def choose(planned: PlannedCell, runs_of: RunsOf) -> tuple[Choice, RepeatedRuns]:
    """Return the first choice with the best mean validation accuracy, and its runs."""
    results = [(choice, runs_of(choice.config)) for choice in planned.choices]
    return max(results, key=lambda result: fmean(result[1].validation_accuracy))


def _trained(planned: PlannedCell, runs: RepeatedRuns, runs_of: RunsOf) -> dict[str, Any]:
    candidates = [
        ChoiceResult(
            settings=dict(choice.chosen),
            validation_accuracy=fmean(runs_of(choice.config).validation_accuracy),
        )
        for choice in planned.choices
    ]
    return {
        "candidates": tuple(candidates) if len(candidates) > 1 else (),
        "test_accuracy": tuple(runs.test_accuracy),
        "validation_accuracy": tuple(runs.validation_accuracy),
        "best_epoch": tuple(record["best_epoch"] for record in runs.records),
    }


def mean_curve(folders: Sequence[Path]) -> Curve:
    """Average the learning curves of several runs."""
    runs = []
    for folder in folders:
        with (folder / EPOCHS).open(newline="") as file:
            runs.append(list(csv.DictReader(file)))
    columns: dict[str, tuple[float, ...]] = {}
    for name in ("train", "test"):
        steps = [
            [float(row[f"{name}_accuracy"]) for row in rows] for rows in zip(*runs, strict=True)
        ]
        columns[name] = tuple(round(fmean(values), 6) for values in steps)
        columns[f"{name}_sd"] = tuple(
            round(stdev(values), 6) if len(values) > 1 else 0.0 for values in steps
        )
    return Curve(epoch=tuple(int(row["epoch"]) for row in runs[0]), **columns)


@cache
def dataset_statistics(name: str) -> Mapping[str, float]:
    """Count the numbers of the paper's Table 2 for a dataset."""
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


def _join(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe several environments as one: each value, or a list of the different ones."""
    joined: dict[str, Any] = {}
    for name in {name: None for environment in environments for name in environment}:
        values = [environment.get(name) for environment in environments]
        distinct = [value for place, value in enumerate(values) if value not in values[:place]]
        if all(isinstance(value, Mapping) for value in distinct):
            joined[name] = _join([value for value in distinct if value is not None])
        else:
            joined[name] = distinct[0] if len(distinct) == 1 else distinct
    return joined
