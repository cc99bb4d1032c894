"""From run records to the cells of an item, including the choices by validation accuracy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import write_json
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.run_folder import read_curve
from crossgcn.reproduction.items import CellKey, CellPlace, Frozen, Place, Settings
from crossgcn.reproduction.plan import Choice, ItemPlan, PlannedCell
from crossgcn.training.config import RunConfig

Model = TypeVar("Model", bound=BaseModel)


class Curve(Frozen):
    """Accuracy (a fraction) per epoch, mean and standard deviation over runs.

    Epochs count from 1. Training accuracy is measured with dropout.
    """

    epoch: tuple[int, ...]
    train: tuple[float, ...]
    train_sd: tuple[float, ...]
    test: tuple[float, ...]
    test_sd: tuple[float, ...]


class ChoiceResult(Frozen):
    """Settings that validation chose from; their test accuracy is not read."""

    settings: Settings
    validation_accuracy: float


class CellResult(CellPlace):
    """A cell that was run; ``settings`` are those of the chosen configuration.

    Attributes:
        chosen: The settings that validation chose.
        candidates: What it chose from.
        test_accuracy: Fractions, one per split (one per seed if there is a single split).
        validation_accuracy: Likewise, at the selected epochs.
        timing: For ``timing``: the record of a measurement (:mod:`crossgcn.reproduction.run`).
        statistics: For ``statistics``: our value, by name.
    """

    chosen: Settings = Field(default_factory=dict)
    candidates: tuple[ChoiceResult, ...] = ()
    test_accuracy: tuple[float, ...] = ()
    validation_accuracy: tuple[float, ...] = ()
    best_epoch: tuple[int, ...] = ()
    curve: Curve | None = None
    timing: Settings | None = None
    statistics: Settings | None = None


class ItemResult(Frozen):
    """The results of an item.

    Attributes:
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

    def at(self, place: Place) -> CellResult | None:
        """Return the cell at a place, if it was run."""
        return next((cell for cell in self.cells if cell.place == place), None)

    def find(self, panel: str, row: str, column: str) -> CellResult | None:
        """Return the cell at a place, if it was run."""
        return self.at((row, panel, column))


def write_model(path: Path, result: BaseModel) -> None:
    """Write a result as JSON without its defaults, whole or not at all."""
    write_json(path, result.model_dump(mode="json", exclude_defaults=True))


def read_model(path: Path, model: type[Model], what: str, how: str) -> Model:
    """Read a result that :func:`write_model` wrote; ``what`` and ``how`` are words of messages.

    Raises:
        BadInput: If the file is missing or holds something else.
    """
    try:
        return model(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {how} it first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not {what} ({first}); {how} it again") from None


def read_item_result(path: Path) -> ItemResult:
    """Read the result of an item."""
    return read_model(path, ItemResult, "the result of an item", "run")


RunsOf = Callable[[RunConfig], RepeatedRuns]


def collect_item(
    plan: ItemPlan,
    runs_of: RunsOf,
    folders_of: Callable[[RunConfig], Sequence[Path]],
    timing_of: Callable[[RunConfig], Mapping[str, Any]],
) -> ItemResult:
    """Assemble the result of an item.

    A function that raises :class:`WorkFailed` leaves its cell out. ``folders_of`` returns the
    folders of finished runs, which hold the learning curves.
    """
    cells = []
    environments: list[Mapping[str, Any]] = []
    failed = []
    for planned in plan.cells:
        cell, choice = planned.cell, planned.choices[0]
        try:
            if plan.item.kind == "statistics":
                counted = dataset_statistics(cell.settings["dataset"])
                found: dict[str, Any] = {"statistics": {"value": counted[cell.column]}}
            elif plan.item.kind == "timing":
                found = {"timing": timing_of(choice.config)}
                environments.append(found["timing"]["environment"])
            else:
                choice, runs = choose(planned, runs_of)
                found = _trained(planned, runs, runs_of)
                if plan.item.kind == "curves":
                    found["curve"] = mean_curve(folders_of(choice.config))
                environments += [record["environment"] for record in runs.records]
        except WorkFailed as error:
            failed.append(f"{', '.join(filter(None, cell.place))}: {error}")
            continue
        found |= {"settings": choice.config.identity(), "chosen": dict(choice.chosen)}
        cells.append(CellResult(**cell.model_dump(exclude={"settings", "choose"}), **found))
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
    candidates = tuple(
        ChoiceResult(
            settings=dict(choice.chosen),
            validation_accuracy=fmean(runs_of(choice.config).validation_accuracy),
        )
        for choice in planned.choices
    )
    return {
        "candidates": candidates if len(candidates) > 1 else (),
        "test_accuracy": tuple(runs.test_accuracy),
        "validation_accuracy": tuple(runs.validation_accuracy),
        "best_epoch": tuple(record["best_epoch"] for record in runs.records),
    }


def mean_curve(folders: Sequence[Path]) -> Curve:
    """Average the learning curves of several runs."""
    curves = [read_curve(folder) for folder in folders]
    columns: dict[str, tuple[float, ...]] = {}
    for name, column in (("train", "train_score"), ("test", "test_accuracy")):
        epochs = list(zip(*(curve[column] for curve in curves), strict=True))
        columns[name] = tuple(round(fmean(values), 6) for values in epochs)
        columns[f"{name}_sd"] = tuple(
            round(stdev(values), 6) if len(values) > 1 else 0.0 for values in epochs
        )
    return Curve(epoch=tuple(map(int, curves[0]["epoch"])), **columns)


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
