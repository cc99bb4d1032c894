"""What is run of an item, and its result: the cells, from the records of the runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.datasets.registry import available, not_here, splits_here, splits_not_here
from crossgcn.data.files import write_json
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.run_folder import read_curve
from crossgcn.models.catalogue import get_preset
from crossgcn.reproduction.items import Cell, CellPlace, Frozen, Item, Place, Settings
from crossgcn.training.config import RunConfig

_QUICK = {"num_splits": 3, "epochs": 100}


@dataclass(frozen=True)
class Choice:
    """One way to run a cell: the settings that validation may choose, and the configuration."""

    chosen: Mapping[str, Any]
    config: RunConfig


@dataclass(frozen=True)
class PlannedCell:
    """A cell and the configurations of which validation chooses one."""

    cell: Cell
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class ItemPlan:
    """What to run for an item; the other attributes are those of the result."""

    item: Item
    cells: tuple[PlannedCell, ...]
    shortened: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=dict)

    def configs(self) -> Iterator[RunConfig]:
        """Yield every configuration to train."""
        if self.item.trains:
            yield from (choice.config for planned in self.cells for choice in planned.choices)


def plan_item(
    item: Item,
    *,
    quick: bool = False,
    splits: Literal["authors", "random"] | None = None,
    datasets: Sequence[str] | None = None,
    **overrides: Any,
) -> ItemPlan:
    """Decide what of an item is run.

    Args:
        quick: Few splits, few epochs, few columns.
        splits: The kind of training sets; defaults to the authors' if they are on this machine.
        datasets: Run only these; defaults to all.
        **overrides: Settings of every run, such as ``epochs``; ``None`` means not given.
    """
    for name in datasets or ():
        if name not in CATALOGUE:
            raise unknown_name("dataset", name, CATALOGUE)
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if quick:
        overrides = {**_QUICK, **item.quick.settings, **overrides}
    planned: list[PlannedCell] = []
    skipped: dict[str, str] = {}
    training_sets: dict[str, str] = {}
    for cell in item.cells():
        if quick and item.quick.columns is not None and cell.column not in item.quick.columns:
            continue
        dataset = cell.settings["dataset"]
        if datasets is not None and dataset not in datasets:
            skipped[dataset] = f"{dataset}: not among --datasets"
            continue
        if available(dataset) is None:
            skipped[dataset] = str(not_here(dataset))
            continue
        protocol = "public"
        if item.trains:
            here = splits != "random" and splits_here(dataset)
            if splits == "authors" and not here:
                skipped[dataset] = str(splits_not_here(dataset))
                continue
            protocol = training_sets[dataset] = "authors" if here else "random"
        model = cell.settings.get("model")
        embeds = model is not None and get_preset(model).inputs == "embedding"
        if embeds and find_spec("gensim") is None:
            skipped[cell.row] = (
                f"{cell.row}: its embeddings need gensim; pip install 'crossgcn[deepwalk]'"
            )
            continue
        if quick:  # keep the first and the last value of each setting to choose from
            few = {k: tuple(dict.fromkeys((v[0], v[-1]))) for k, v in cell.choose.items()}
            cell = cell.model_copy(update={"choose": few})
        settings = {"splits": protocol, **cell.settings}
        choices = (
            Choice(chosen, _config(item, settings | chosen, overrides)) for chosen in cell.choices()
        )
        planned.append(PlannedCell(cell, tuple(choices)))
    return ItemPlan(
        item,
        tuple(planned),
        tuple(_shortened(item, overrides, quick)),
        tuple(skipped.values()),
        training_sets,
    )


def config_name(config: RunConfig) -> str:
    """Return a readable and unique folder name for the runs of a configuration."""
    settings = json.dumps(config.identity(), sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:10]
    return f"{config.model}-{config.num_layers}x{config.hidden_channels}-{digest}"


def _config(item: Item, settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> RunConfig:
    if item.kind == "timing":
        fewer = min(overrides.get("epochs", settings["epochs"]), settings["epochs"])
        overrides = {"epochs": fewer}
    return RunConfig.create(**{**settings, **overrides})


def _shortened(item: Item, overrides: Mapping[str, Any], quick: bool) -> Iterator[str]:
    full = RunConfig() if item.trains else RunConfig(**item.settings)
    for name, what in (("num_splits", "training sets"), ("epochs", "epochs")):
        usual = getattr(full, name)
        if item.kind != "statistics" and usual is not None and overrides.get(name, usual) < usual:
            yield f"{overrides[name]} of {usual} {what}"
    if quick and item.quick.columns is not None:
        yield f"{item.x_label} only at {', '.join(item.quick.columns)}"
    if quick:
        for name, values in {k: v for cell in item.cells() for k, v in cell.choose.items()}.items():
            if len(values) > 2:
                yield f"{name} chosen from {values[0]} and {values[-1]} only"


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
    """Read a result that :func:`write_model` wrote; ``what`` and ``how`` are for messages."""
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
