"""What is run of an item: which models, on which training sets, with which settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import combinations
from typing import Any

from torch_geometric.data import Data

from crossgcn import BadInput, RunConfig, load_dataset, make_splits
from paper.baselines import deep_walk
from paper.cells import Cell, Item, Place

_QUICK = {"num_splits": 3, "epochs": 100}
_SEMI_EMB = "semi-emb"
"""The model that is trained in this package; all others are presets of crossgcn."""


@cache
def load(dataset: str, inputs: str = "features", seed: int = 0) -> Data:
    """Load a graph with the inputs of a model.

    Args:
        inputs: ``"features"``; ``"pairs"``, all products of two features; or ``"deep-walk"``,
            embeddings of the graph.
        seed: Of the embeddings.
    """
    data = load_dataset(dataset)
    if inputs == "pairs":
        left, right = zip(*combinations(range(data.x.size(1)), 2), strict=True)
        data.x = data.x[:, left] * data.x[:, right]
    elif inputs == "deep-walk":
        data.x = deep_walk(data.edge_index, data.x.size(0), seed)
    return data


@dataclass(frozen=True)
class Job:
    """One model under one protocol, to be trained on all its splits.

    Attributes:
        model: A preset of crossgcn, or ``semi-emb``.
        config: The protocol, and the settings of a preset.
        inputs: As for :func:`load`.
        options: Settings of a model that is no preset.
    """

    model: str
    config: RunConfig
    inputs: str = "features"
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that the results depend on."""
        own = {"model": self.model, **self.options}
        inputs = {} if self.inputs == "features" else {"inputs": self.inputs}
        return {**self.config.identity(), "num_splits": self.config.num_splits, **own, **inputs}

    @cached_property
    def name(self) -> str:
        """A readable and unique name."""
        settings = json.dumps(self.settings, sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:10]
        return f"{self.model}-{self.config.num_layers}x{self.config.hidden_channels}-{digest}"

    @property
    def is_own(self) -> bool:
        """Whether the model is trained in this package."""
        return self.model == _SEMI_EMB

    @property
    def group(self) -> str:
        """What jobs must have in common to be trained by one experiment."""
        shared = {"dataset", "splits", "num_splits", "train", "seed"}
        return f"{self.inputs} {self.config.model_dump_json(include=shared)}"


@dataclass(frozen=True)
class Plan:
    """What to run of an item, and what not.

    Attributes:
        jobs: For each cell, the settings that validation chooses from and the job of each; empty
            for an item that counts.
        shortened: What a short run leaves out, a line each; likewise ``skipped``.
        splits: Kind of the training sets, by dataset.
    """

    item: Item
    jobs: Mapping[Place, Sequence[tuple[dict[str, Any], Job]]]
    shortened: tuple[str, ...]
    skipped: tuple[str, ...]
    splits: Mapping[str, str]


def plan_item(
    item: Item,
    *,
    quick: bool = False,
    splits: str | None = None,
    datasets: Sequence[str] | None = None,
    **overrides: Any,
) -> Plan:
    """Decide what of an item is run.

    Args:
        quick: Few splits, few epochs, few columns.
        splits: The kind of training sets: ``"authors"`` or ``"random"``; by default the authors'
            if they are on this machine.
        datasets: Run only these; all by default.
        **overrides: Settings of every training: ``epochs``, ``num_splits`` and ``seed``.
    """
    if quick:
        overrides = {**_QUICK, **item.quick_settings, **overrides}
    jobs: dict[Place, list[tuple[dict[str, Any], Job]]] = {}
    skipped: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for place, cell in item.cells.items():
        dataset = cell.settings["dataset"]
        if quick and item.quick_columns is not None and place.column not in item.quick_columns:
            continue
        if datasets is not None and dataset not in datasets:
            skipped[dataset] = f"{dataset}: not among --datasets"
            continue
        try:
            kind = _kind_of_splits(dataset, splits) if item.trains else "public"
        except BadInput as error:
            skipped[dataset] = str(error)
            continue
        if cell.settings.get("inputs") == "deep-walk" and find_spec("gensim") is None:
            skipped[place.row] = f"{place.row}: its embeddings need gensim; pip install gensim"
            continue
        if item.trains:
            kinds[dataset] = kind
        jobs[place] = _jobs(item, cell, {"splits": kind}, overrides, quick)
    return Plan(item, jobs, _shortened(item, overrides, quick), tuple(skipped.values()), kinds)


@cache
def _kind_of_splits(dataset: str, wanted: str | None) -> str:
    """Return the kind of training sets of a dataset, or say what is missing."""
    data = load(dataset)
    if wanted != "random":
        try:
            make_splits(data, "authors", num_splits=1)
        except BadInput:
            if wanted == "authors":
                raise
        else:
            return "authors"
    return "random"


def _jobs(
    item: Item, cell: Cell, kind: dict[str, Any], overrides: Mapping[str, Any], quick: bool
) -> list[tuple[dict[str, Any], Job]]:
    if item.kind == "statistics":
        return []
    choices = list(cell.choices())
    if quick:  # the first and the last value of each setting
        ends = {name: (values[0], values[-1]) for name, values in cell.choose.items()}
        choices = [each for each in choices if all(each[name] in ends[name] for name in ends)]
    jobs = []
    for chosen in choices:
        settings = {**kind, **cell.settings, **chosen, **overrides}
        if item.kind == "timing":
            settings = {**cell.settings, "epochs": min(settings["epochs"], cell.settings["epochs"])}
        inputs, options, model = settings.pop("inputs", "features"), {}, settings["model"]
        if model == _SEMI_EMB:
            options = {"laplacian_weight": settings.pop("laplacian_weight")}
            settings["model"] = "mlp"
        jobs.append((chosen, Job(model, RunConfig.create(**settings), inputs, options)))
    return jobs


def _shortened(item: Item, overrides: Mapping[str, Any], quick: bool) -> tuple[str, ...]:
    usual = {"num_splits": 20, "epochs": 500, **item.settings}
    if not item.trains:
        usual.pop("num_splits")
    lines = [
        f"{overrides[name]} of {usual[name]} {words}"
        for name, words in (("num_splits", "training sets"), ("epochs", "epochs"))
        if item.kind != "statistics" and overrides.get(name, usual.get(name)) < usual.get(name, 0)
    ]
    if quick and item.quick_columns is not None:
        lines.append(f"{item.x_label} only at {', '.join(item.quick_columns)}")
    if quick:
        choices = (each for cell in item.cells.values() for each in cell.choose.items())
        lines += [
            f"{name} chosen from {values[0]} and {values[-1]} only"
            for name, values in choices
            if len(values) > 2
        ]
    return tuple(dict.fromkeys(lines))


def count(dataset: str) -> dict[str, float]:
    """Count the numbers of the paper's Table 2."""
    data = load(dataset)
    source, target = data.edge_index
    train = make_splits(data, "public", num_splits=1)[0].train
    return {
        "nodes": data.x.size(0),
        "edges": int((source < target).sum()),
        "classes": data.num_classes,
        "features": data.x.size(1),
        "label rate": round(train.numel() / data.x.size(0), 3),
    }
