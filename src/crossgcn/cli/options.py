"""Options that several commands share, and settings read from text.

A command may take a dataclass of options, such as :class:`TrainingOptions`; :func:`with_options`
shows the fields to Typer. Nothing here imports torch, so that ``--help`` answers at once.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import typer

from crossgcn.errors import BadInput


def option(words: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return an option for Typer; ``words`` name the default."""
    return typer.Option(default, *names, help=words, show_default=False, **more)


def argument(words: str, metavar: str | None = None, default: Any = None) -> Any:
    """Return an argument for Typer."""
    return typer.Argument(default, help=words, metavar=metavar, show_default=False)


def option_name(name: str) -> str:
    """Return ``--hidden-channels`` for ``hidden_channels``."""
    return f"--{name.replace('_', '-')}"


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer, with the fields of each dataclass as parameters of their own."""
    shown: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group: Any = parameter.annotation
        if hasattr(group, "__dataclass_fields__"):
            groups[parameter.name] = group
            shown += inspect.signature(group, eval_str=True).parameters.values()
        else:
            shown.append(parameter)

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return run


DATASET = argument(
    "Name (crossgcn data list), graph file .npz, or table of nodes.", "DATASET|NODES"
)
EDGES = argument("Table of edges (CSV, TSV, Parquet, XLSX), or several.", "[NAME=]EDGES")
RUN = argument("Folder written by crossgcn train.", "RUN", default=...)
JSON = option("Print one JSON object on stdout.", "--json", default=False)


def _list_settings(wanted: bool) -> None:
    if not wanted:
        return
    from crossgcn.models.catalogue import PRESETS
    from crossgcn.training.config import SECTIONS, RunConfig

    for name, preset in PRESETS.items():
        typer.echo(f"--model {name}: {preset.description}")
    for name, setting in RunConfig.model_fields.items():
        words = setting.description or ""
        if "[default" not in words and setting.default is not None:
            words += f" [default: {setting.default}]"
        if name in SECTIONS:
            typer.echo(f"\n{SECTIONS[name]}:")
        if name not in ("dataset", "model"):
            typer.echo(f"--set {name}=VALUE: {words}")
    raise typer.Exit


@dataclass(frozen=True)
class TrainingOptions:
    """Settings of the training of one model or of several; ``None`` if not given."""

    order: str | None = option(
        "Highest order of crosses, or one per layer (default 2).", metavar="N,..."
    )
    hidden_channels: int | None = option(
        "Width of the hidden layers (default 32; cross-hops 8).", metavar="N"
    )
    hops: int | None = option(
        "Hops that cross-hops reads (default 2; 0: own columns only).", metavar="N"
    )
    columns: str | None = option(
        "Columns that cross-hops reads (default all; tables auto).", metavar="N|auto|all"
    )
    bags: int | None = option("Models that cross-hops averages (default 8).", metavar="N")
    dropout: float | None = option(
        "Dropout (default 0.5; tables 0.2; cross-hops tries several).", metavar="P"
    )
    epochs: int | None = option("Epochs (default 500; cross-hops 200).", metavar="N")
    patience: int | None = option(
        "Stop after N epochs without gain (tables 50; cross-hops 20).", metavar="N"
    )
    metric: str | None = option(
        "Metric to select by (default accuracy; tables roc_auc, r2).", metavar="NAME"
    )
    class_weight: str | None = option("Weights of classes in the loss.", metavar="balanced|N,...")
    splits: str | None = option(
        "random, authors, public, stratified (tables), time.", metavar="KIND"
    )
    train: str | None = option(
        "Training nodes per class, or share (default 20; stratified all).", metavar="N|P%|all"
    )
    num_splits: int | None = option("Number of splits (default 20; tables 10).", metavar="N")
    seed: int | None = option("Seed of splits and runs (default 0).", metavar="N")
    more: list[str] | None = option(
        "Another setting, see --settings; may be repeated.", "--set", metavar="NAME=VALUE"
    )
    list_settings: bool = option(
        "List models and settings, and exit.",
        "--settings",
        is_eager=True,
        callback=_list_settings,
        default=False,
    )

    def settings(self, **options: Any) -> dict[str, Any]:
        """Return the settings given here, with ``--set``, and as ``options`` of a command."""
        given = asdict(self) | options
        del given["list_settings"]
        return read_settings(given.pop("more"), **given)


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_LISTS = ("order_weights", "class_weight")
"""Settings that are lists, even of a single number."""


@dataclass(frozen=True)
class WorkOptions:
    """The folder of the results, and the device, processes and threads that compute."""

    out: Path | None = option("Folder for the results (default a new one in runs/).", metavar="DIR")
    resume: bool = option("Continue in --out; finished runs are kept.", "--resume", default=False)
    workers: int | None = option(
        "Maximum worker processes on a CPU (default one per core).", metavar="N", min=1, max=256
    )
    threads: int = option(
        "Threads of each run (default 1).", metavar="N", min=1, max=256, default=1
    )
    device: str = option(
        "auto, cpu, cuda or cuda:N (default auto).", metavar="NAME", default="auto"
    )

    def how(self) -> dict[str, Any]:
        """Return the workers, the threads and the device; by default all cores are used."""
        workers = self.workers or max(1, available_cores() // self.threads)
        return {"workers": workers, "threads": self.threads, "device": self.device}


def read_settings(assignments: Iterable[str] | None, **options: Any) -> dict[str, Any]:
    """Return fields of :class:`~crossgcn.RunConfig` given as options and by ``--set name=value``.

    Text is parsed. Options that are not given are ``None``.
    """
    settings = dict(options)
    for text in assignments or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise BadInput(f"--set takes name=value, such as learning_rate=0.01; got {text!r}")
        if settings.get(name) is not None:
            raise BadInput(f"{name} is given twice: leave one out")
        settings[name] = value.strip()
    for name, value in settings.items():
        parsed = parse_value(value) if isinstance(value, str) else value
        is_short_list = name in _LISTS and isinstance(parsed, int | float)
        settings[name] = [parsed] if is_short_list else parsed
    return settings


def parse_value(text: str) -> Any:
    """Read ``0.5``, ``false`` or ``2,1`` as JSON, and other text as it is."""
    for json_text in (text, f"[{text}]"):
        with suppress(ValueError):
            return json.loads(json_text)
    return text


def parse_names(text: str, name: str) -> list[str]:
    """Read ``gcn,cross-gcn``, without repeated names."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise BadInput(f"{name} takes names separated by commas; got {text!r}")
    return names
