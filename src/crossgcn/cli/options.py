"""Options that several commands share.

The options of a training run are made from the fields of :class:`~crossgcn.RunConfig`: name,
type, help and default. Nothing here imports torch, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from crossgcn.cli.command import RUN, argument, option, option_name
from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import MODEL_OPTIONS, PRESETS
from crossgcn.training.config import RunConfig
from crossgcn.workflows.table_settings import TABLE_DEFAULTS

MODEL, DETAILS, TRAINING = "Model", "Model, in detail", "Training"
BATCHES = "Training in batches"

Settings = dict[str, Any]
"""Fields of :class:`~crossgcn.RunConfig` as given on the command line; ``None``: not given."""


DatasetArgument = Annotated[
    str | None,
    argument(
        f"{', '.join(DATASET_NAMES)}; a graph file FILE.npz; GraphSAGE's NAME-G.json with its "
        "other files in the same folder; a graph FOLDER made by crossgcn data import; or a table "
        "of nodes, NODES.csv (or TSV, Parquet). [default: citeseer]",
        "DATASET|NODES",
    ),
]
ConfigOption = Annotated[
    Path | None,
    option(
        "TOML file with settings, or the config.json of an earlier run; options on the command "
        "line take precedence.",
        panel=RUN,
    ),
]


@dataclass(frozen=True)
class WorkOptions:
    """Where the work is done."""

    resume: Annotated[
        bool, option("Continue in --out; keep finished runs.", "--resume", panel=RUN)
    ] = False
    workers: Annotated[
        int | None,
        option(
            "Most processes that share the runs on a CPU; little work stays in one. [default: one "
            "per core]",
            panel=RUN,
        ),
    ] = None
    threads: Annotated[int, option("Threads of each run.", panel=RUN)] = 1
    device: Annotated[
        str,
        option(
            "auto (a GPU if there is one), cpu, cuda or cuda:N. A GPU trains all runs of a model "
            "at once.",
            panel=RUN,
        ),
    ] = "auto"


@dataclass(frozen=True)
class RunOptions(WorkOptions):
    """Where the work is done and where its results go."""

    out: Annotated[
        Path | None, option("Folder for the results. [default: a new one in runs/]", panel=RUN)
    ] = None


_PANELS = {
    "order": MODEL,
    "dropout": MODEL,
    "model": MODEL,
    "num_layers": MODEL,
    "hidden_channels": MODEL,
    "seed": RUN,
    **dict.fromkeys(("batch_size", "fanout", "evaluate_every", "checkpoint_every"), BATCHES),
}
_FLAGS = {"aggregate_first": "--aggregate-first/--transform-first", "bias": "--bias/--no-bias"}

SETTINGS = tuple(name for name in RunConfig.model_fields if name not in ("dataset", "test_curve"))
"""Settings that are options: ``dataset`` is an argument, ``test_curve`` serves our figures."""


@dataclass(frozen=True, eq=False)
class SettingOptions:
    """The options of a command that are settings of a run.

    Attributes:
        names: Fields of :class:`~crossgcn.RunConfig`.
        defaults: Defaults that this command has instead; no other default is shown with these.
    """

    names: Sequence[str] = SETTINGS
    defaults: Mapping[str, Any] | None = None

    def annotations(self) -> dict[str, Any]:
        """Return the type and help of each option."""
        return {name: self._annotation(name) for name in self.names}

    def _annotation(self, name: str) -> Any:
        setting = RunConfig.model_fields[name]
        words = setting.description or ""
        if self.defaults is not None and name in self.defaults:
            words = words.partition(" [default:")[0] + f" [default: {self.defaults[name]}]"
        elif "[default:" not in words and setting.default is not None:
            words += f" [default: {self._default(name)}]"
        kind: Any = str if name in _METAVARS else setting.annotation
        panel = _PANELS.get(name, DETAILS if name in MODEL_OPTIONS else TRAINING)
        names = _FLAGS.get(name, option_name(name))
        metavar = _METAVARS.get(name)
        return Annotated[kind | None, option(words, names, panel=panel, metavar=metavar)]

    def _default(self, name: str) -> str:
        """Name the default: everybody's, that of tables, and those of single models."""
        usual = RunConfig.model_fields[name].default
        words = [str(usual)]
        if self.defaults is not None:
            return words[0]
        if name == "splits":
            words.append("stratified for tables")
        elif name in TABLE_DEFAULTS:
            words.append(f"{TABLE_DEFAULTS[name]} for tables")
        of_models: dict[Any, list[str]] = {}
        for model, preset in PRESETS.items():
            if name in preset.training:
                of_models.setdefault(preset.training[name], []).append(model)
        words += [f"{value} in {' and '.join(models)}" for value, models in of_models.items()]
        return "; ".join(words)

    def read(self, **values: Any) -> Settings:
        """Parse the settings that are given as text."""
        return {
            name: _parse(name, value) if isinstance(value, str) else value
            for name, value in values.items()
        }


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_names(text: str, option: str) -> list[str]:
    """Read ``gcn,cross-gcn``; a name given twice counts once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadInput(
            f"{option} takes names separated by commas, such as gcn,cross-gcn; got {text!r}"
        )
    return names


def parse_numbers(text: str, option: str) -> list[int]:
    """Read ``2`` or ``2,1``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(
            f"{option} takes whole numbers separated by commas, such as 2 or 2,1; got {text!r}"
        ) from None


def _parse(name: str, text: str) -> Any:
    """Read ``3``, ``2,1``, ``mean`` or ``1,0.5``, as the setting takes it."""
    parts = [part.strip() for part in text.split(",")]
    if name in ("order", "fanout"):
        numbers = parse_numbers(text, option_name(name))
        return numbers[0] if len(numbers) == 1 else tuple(numbers)
    if name == "train" and text != "all":
        if not text.isdecimal() or int(text) < 1:
            raise BadInput(f"--train takes a number of nodes per class or 'all'; got {text!r}")
        return int(text)
    if name == "label_features":
        return {"true": True, "false": False}.get(text, text)
    if name in ("order_weights", "class_weight"):
        try:
            return tuple(map(float, parts))
        except ValueError:
            if len(parts) > 1:
                raise BadInput(
                    f"{option_name(name)} takes a name or numbers separated by commas; got {text!r}"
                ) from None
    return text


_METAVARS = {
    "model": "PRESET",
    "order": "N,N,...",
    "fanout": "N,N,...",
    "order_weights": "NAME|N,N,...",
    "train": "N|all",
    "class_weight": "balanced|N,N,...",
    "label_features": "true|false|auto",
    "threshold": "auto",
}
"""Settings whose option is text, and what the help calls its value."""
