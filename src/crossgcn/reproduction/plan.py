"""From an item to the runs it takes here: which data there is, and what is left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES
from crossgcn.data.datasets.registry import available, not_here, splits_here, splits_not_here
from crossgcn.errors import unknown_name
from crossgcn.models.catalogue import get_preset
from crossgcn.reproduction.items import Cell, Item
from crossgcn.training.config import RunConfig

_QUICK_SPLITS, _QUICK_EPOCHS = 3, 100


@dataclass(frozen=True)
class Candidate:
    """One way to run a cell: the settings chosen for it, and all of them."""

    chosen: Mapping[str, Any]
    config: RunConfig


@dataclass(frozen=True)
class PlannedCell:
    """A cell and the configurations of which validation takes one."""

    cell: Cell
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Plan:
    """What to do for an item.

    Attributes:
        item: The item.
        cells: Those that can be run.
        shortened: What is left out on purpose, a line each.
        skipped: What cannot be run and how to provide it, a line each.
        splits: Which training sets are used, by dataset.
    """

    item: Item
    cells: tuple[PlannedCell, ...]
    shortened: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    splits: Mapping[str, str] = field(default_factory=dict)

    def configs(self) -> Iterator[RunConfig]:
        """Every configuration that must be trained."""
        if self.item.kind in ("table", "figure", "curves"):
            for planned in self.cells:
                for candidate in planned.candidates:
                    yield candidate.config


def plan_item(
    item: Item,
    *,
    quick: bool = False,
    splits: Literal["authors", "random"] | None = None,
    datasets: Sequence[str] | None = None,
    **overrides: Any,
) -> Plan:
    """Decide what of an item is run.

    Args:
        item: The item.
        quick: Few splits, few epochs, few columns.
        splits: The authors' training sets or random ones; the authors' where
            they are on this machine when left out.
        datasets: Only these; all when left out.
        **overrides: Settings of every run, such as ``epochs``; ``None`` is not given.
    """
    for name in datasets or ():
        if name not in CATALOGUE:
            raise unknown_name("dataset", name, DATASET_NAMES)
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if quick:
        usual = {"num_splits": _QUICK_SPLITS, "epochs": _QUICK_EPOCHS}
        overrides = usual | dict(item.quick.settings) | overrides
    protocols = _Protocols(splits)
    planned, skipped = [], {}
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
        protocol = protocols.of(dataset) if _trains(item) else "public"
        if protocol is None:
            skipped[dataset] = str(splits_not_here(dataset))
            continue
        missing = _missing_extra(cell)
        if missing is not None:
            skipped[cell.row] = missing
            continue
        if quick:
            cell = _with_fewer_choices(cell)
        candidates = tuple(
            Candidate(
                chosen, _config(item, {"splits": protocol, **cell.settings, **chosen}, overrides)
            )
            for chosen in cell.candidates()
        )
        planned.append(PlannedCell(cell, candidates))
    return Plan(
        item,
        tuple(planned),
        tuple(_shortened(item, overrides, quick)),
        tuple(skipped.values()),
        protocols.known,
    )


def config_name(config: RunConfig) -> str:
    """The name of the folder of a configuration's runs: readable, and no other's."""
    settings = json.dumps(config.identity(), sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:10]
    return f"{config.model}-{config.num_layers}x{config.hidden_channels}-{digest}"


class _Protocols:
    """Which training sets each dataset gets."""

    def __init__(self, wanted: Literal["authors", "random"] | None) -> None:
        self.wanted = wanted
        self.known: dict[str, str] = {}

    def of(self, dataset: str) -> str | None:
        """The protocol of a dataset; none when the authors' splits were asked for in vain."""
        here = self.wanted != "random" and splits_here(dataset)
        if self.wanted == "authors" and not here:
            return None
        return self.known.setdefault(dataset, "authors" if here else "random")


def _config(item: Item, settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> RunConfig:
    if item.kind == "timing":
        fewer = min(overrides.get("epochs", settings["epochs"]), settings["epochs"])
        overrides = {"epochs": fewer}
    return RunConfig.create(**{**settings, **overrides})


def _missing_extra(cell: Cell) -> str | None:
    """How to install what a cell's model needs, if it is not here."""
    model = cell.settings.get("model")
    if model is None or get_preset(model).inputs != "embedding" or find_spec("gensim") is not None:
        return None
    return f"{cell.row}: its embeddings need gensim; pip install 'crossgcn[deepwalk]'"


def _with_fewer_choices(cell: Cell) -> Cell:
    choose = {
        name: tuple(dict.fromkeys(values[:: len(values) - 1 or 1]))
        for name, values in cell.choose.items()
    }
    return cell.model_copy(update={"choose": choose})


def _shortened(item: Item, overrides: Mapping[str, Any], quick: bool) -> Iterator[str]:
    full = RunConfig() if _trains(item) else RunConfig(**item.settings)
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


def _trains(item: Item) -> bool:
    return item.kind in ("table", "figure", "curves")
