"""The runs of an item: those that the data on this machine allows and the options ask for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.data.datasets.registry import available, not_here, splits_here, splits_not_here
from crossgcn.errors import unknown_name
from crossgcn.models.catalogue import get_preset
from crossgcn.reproduction.items import Cell, Item
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
        if _needs_gensim(cell):
            skipped[cell.row] = (
                f"{cell.row}: its embeddings need gensim; pip install 'crossgcn[deepwalk]'"
            )
            continue
        if quick:
            cell = _with_fewer_choices(cell)
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


def _needs_gensim(cell: Cell) -> bool:
    """Return whether the model of a cell takes embeddings that cannot be made here."""
    model = cell.settings.get("model")
    embeds = model is not None and get_preset(model).inputs == "embedding"
    return embeds and find_spec("gensim") is None


def _with_fewer_choices(cell: Cell) -> Cell:
    """Keep the first and the last value of each setting to choose from."""
    choose = {
        name: tuple(dict.fromkeys((values[0], values[-1]))) for name, values in cell.choose.items()
    }
    return cell.model_copy(update={"choose": choose})


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
