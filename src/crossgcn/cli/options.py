"""Options that several commands share, and settings read from text.

Nothing here imports torch, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from crossgcn.errors import BadInput

Settings = dict[str, Any]
"""Fields of :class:`~crossgcn.RunConfig` as given on the command line; ``None``: not given."""


def option(words: str, *names: str, **more: Any) -> Any:
    """Return an option for Typer; its help names the default in words."""
    return typer.Option(*names, help=words, show_default=False, **more)


def argument(words: str, metavar: str | None = None) -> Any:
    """Return an argument for Typer."""
    return typer.Argument(help=words, metavar=metavar, show_default=False)


def option_name(name: str) -> str:
    """Return ``--hidden-channels`` for ``hidden_channels``."""
    return f"--{name.replace('_', '-')}"


DatasetArgument = Annotated[
    str | None,
    argument("Name (crossgcn data list), graph file .npz, or table of nodes.", "DATASET|NODES"),
]
RunArgument = Annotated[Path, argument("Folder written by crossgcn train.", "RUN")]

OrderOption = Annotated[
    str | None, option("Highest order of crosses, or one per layer (default 2).", metavar="N,...")
]
OrderWeightsOption = Annotated[
    str | None, option("fixed, learned, gated, ..., or a number per order.", metavar="NAME|N,...")
]
HiddenOption = Annotated[
    int | None, option("Width of the hidden layers (default 32; cross-hops 8).", metavar="N")
]
HopsOption = Annotated[
    int | None, option("Reach of cross-hops' neighbourhoods (default 2).", metavar="N")
]
BagsOption = Annotated[
    int | None, option("Models that cross-hops averages (default 8).", metavar="N")
]
DropoutOption = Annotated[
    float | None, option("Dropout probability (default 0.5; tables 0.2).", metavar="P")
]
EpochsOption = Annotated[int | None, option("Epochs (default 500; cross-hops 200).", metavar="N")]
PatienceOption = Annotated[
    int | None,
    option("Stop after N epochs without gain (tables: 50).", metavar="N"),
]
MetricOption = Annotated[
    str | None, option("Selects epochs (default accuracy; tables roc_auc, r2).", metavar="NAME")
]
ClassWeightOption = Annotated[
    str | None, option("Weights of classes in the loss.", metavar="balanced|N,...")
]
SplitsOption = Annotated[
    str | None,
    option("random, authors, public or stratified (tables).", metavar="KIND"),
]
TrainOption = Annotated[
    str | None, option("Training nodes per class (default 20; stratified all).", metavar="N|all")
]
NumSplitsOption = Annotated[
    int | None, option("Number of splits (default 20; tables 10).", metavar="N")
]
SeedOption = Annotated[int | None, option("Seed of splits and runs (default 0).", metavar="N")]
SetOption = Annotated[
    list[str] | None,
    option("A rarer setting, as --settings lists; may be repeated.", "--set", metavar="NAME=VALUE"),
]
ConfigOption = Annotated[
    Path | None, option("TOML file with settings, or config.json of a run.", metavar="FILE")
]
OutOption = Annotated[
    Path | None, option("Folder for the results (default a new one in runs/).", metavar="DIR")
]
ResumeOption = Annotated[bool, option("Continue in --out; finished runs are kept.", "--resume")]
WorkersOption = Annotated[
    int | None, option("Maximum worker processes on a CPU (default one per core).", metavar="N")
]
ThreadsOption = Annotated[int, option("Threads of each run (default 1).", metavar="N")]
DeviceOption = Annotated[str, option("auto, cpu, cuda or cuda:N (default auto).", metavar="NAME")]
JsonOption = Annotated[bool, option("Print one JSON object on stdout.", "--json")]
QuietOption = Annotated[bool, option("No progress, no notes.", "--quiet", "-q")]
VerboseOption = Annotated[bool, option("A line for every finished run.", "--verbose")]


def _list_settings(wanted: bool) -> None:
    if not wanted:
        return
    from crossgcn.models.catalogue import PRESETS
    from crossgcn.training.config import RunConfig

    for name, preset in PRESETS.items():
        typer.echo(f"--model {name}: {preset.description}")
    for name, setting in RunConfig.model_fields.items():
        words = setting.description or ""
        if "[default" not in words and setting.default is not None:
            words += f" [default: {setting.default}]"
        if name not in ("dataset", "model"):
            typer.echo(f"--set {name}=VALUE: {words}")
    raise typer.Exit


SettingsOption = Annotated[
    bool,
    option(
        "List models and settings, and exit.", "--settings", is_eager=True, callback=_list_settings
    ),
]


def read_settings(assignments: Iterable[str] | None, **options: Any) -> Settings:
    """Return the settings given as options and by ``--set name=value``; text is parsed."""
    settings = dict(options)
    for text in assignments or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise BadInput(f"--set takes name=value, such as learning_rate=0.01; got {text!r}")
        if settings.get(name) is not None:
            raise BadInput(f"{name} is given twice: leave one out")
        settings[name] = value.strip()
    return {
        name: _parse(name, value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def _parse(name: str, text: str) -> Any:
    """Read ``gated``, ``0.5``, ``false`` or ``2,1``; the setting checks the type."""
    parts = [_parse_one(part.strip()) for part in text.split(",")]
    is_list = len(parts) > 1 or (name in _LISTS and not isinstance(parts[0], str))
    return parts if is_list else parts[0]


def _parse_one(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text, text)


_LISTS = ("order_weights", "class_weight")
"""Settings of which one number is a list, too."""


def parse_names(text: str, name: str) -> list[str]:
    """Read ``gcn,cross-gcn``; a name given twice counts once."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise BadInput(f"{name} takes names separated by commas; got {text!r}")
    return names


def parse_numbers(text: str, name: str) -> list[int]:
    """Read ``2`` or ``2,1``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(
            f"{name} takes whole numbers separated by commas, such as 2 or 2,1; got {text!r}"
        ) from None


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
