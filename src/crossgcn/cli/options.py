"""Options that several commands share.

The options of a training run are made from the fields of :class:`~crossgcn.RunConfig`: name,
type, help and default. Nothing here imports torch, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import PRESETS
from crossgcn.training.config import RunConfig

MODEL, DETAILS, TRAINING, RUN = "Model", "Model, in detail", "Training", "Run"
RECIPE = "cross-grand and grand (default: the model's)"
BATCHES = "Training in batches"

TABLE_DEFAULTS: Mapping[str, Any] = {"dropout": 0.2, "bias": True}
"""Settings for a user's own tables, where they differ from the paper's protocol."""

Settings = dict[str, Any]
"""Fields of :class:`~crossgcn.RunConfig` as given on the command line; ``None``: not given."""

DatasetArgument = Annotated[
    str | None,
    typer.Argument(
        help=f"{', '.join(DATASET_NAMES)}; a graph file FILE.npz; GraphSAGE's NAME-G.json with its "
        "other files in the same folder; a graph FOLDER made by crossgcn data import; or a table "
        "of nodes, NODES.csv (or TSV, Parquet). \\[default: citeseer]",
        metavar="DATASET|NODES",
    ),
]
RunArgument = Annotated[
    Path, typer.Argument(help="Folder written by crossgcn train.", metavar="RUN")
]
UnusedSeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Ignored; accepted for consistency.", rich_help_panel=RUN),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings; options on the command line take precedence.",
        rich_help_panel=RUN,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the results. \\[default: a new one in runs/]", rich_help_panel=RUN
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Continue in --out; keep finished runs.", rich_help_panel=RUN),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Processes that share the runs on a CPU. \\[default: one per core]",
        rich_help_panel=RUN,
    ),
]
ThreadsOption = Annotated[int, typer.Option(help="Threads of each run.", rich_help_panel=RUN)]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="auto (a GPU if there is one), cpu, cuda or cuda:N. A GPU trains all runs of a model "
        "at once.",
        rich_help_panel=RUN,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object on stdout, everything else on stderr.",
        rich_help_panel=RUN,
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """Where the work is done and where its results go."""

    out: OutOption = None
    resume: ResumeOption = False
    workers: WorkersOption = None
    threads: ThreadsOption = 1
    device: DeviceOption = "auto"
    as_json: JsonOption = False


_PANELS = {
    "order": MODEL,
    "dropout": MODEL,
    "model": MODEL,
    "num_layers": MODEL,
    "hidden_channels": MODEL,
    "seed": RUN,
    **dict.fromkeys(("batch_size", "fanout", "evaluate_every", "checkpoint_every"), BATCHES),
    **dict.fromkeys(("input_dropout", "hops", "node_drop", "draws"), RECIPE),
    **dict.fromkeys(("consistency", "temperature", "warm_up"), RECIPE),
}
_FLAGS = {"aggregate_first": "--aggregate-first/--transform-first", "bias": "--bias/--no-bias"}

MODEL_OPTIONS = frozenset().union(*(preset.options for preset in PRESETS.values()))
"""Settings that only some models have."""

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

    def parameters(self) -> list[Parameter]:
        """Return one parameter per option, as Typer reads them from a signature."""
        return [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=self._annotation(name))
            for name in self.names
        ]

    def _annotation(self, name: str) -> Any:
        setting = RunConfig.model_fields[name]
        words = setting.description or ""
        if self.defaults is not None and name in self.defaults:
            words = words.partition(" [default:")[0] + f" [default: {self.defaults[name]}]"
        elif "[default:" not in words and setting.default is not None:
            words += f" [default: {self._default(name)}]"
        kind: Any = setting.annotation
        metavar = None
        if name in _TEXTS:
            kind, metavar = str, _TEXTS[name][0]
        panel = _PANELS.get(name, DETAILS if name in MODEL_OPTIONS else TRAINING)
        option = typer.Option(
            _FLAGS.get(name, option_name(name)),
            help=words.replace("[", "\\["),
            metavar=metavar,
            rich_help_panel=panel,
        )
        return Annotated[kind | None, option]

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

    def read(self, values: Settings) -> Settings:
        """Take this command's settings out of the values of all its options."""
        given = {name: values.pop(name) for name in self.names}
        return {
            name: value if value is None or name not in _TEXTS else _TEXTS[name][1](value)
            for name, value in given.items()
        }


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a command's groups of options into single options for Typer.

    A group is a dataclass such as :class:`RunOptions`, or a dict annotated with
    :class:`SettingOptions`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        found = [note for note in get_args(hints[name]) if isinstance(note, SettingOptions)]
        if found:
            groups[name] = found[0]
            parameters += found[0].parameters()
        elif is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _field_parameters(hints[name])
        else:
            by_name = parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)
            parameters.append(by_name)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            if isinstance(group, SettingOptions):
                values[name] = group.read(values)
            else:
                values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    del run.__wrapped__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _field_parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(group)
    ]


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def option_name(name: str) -> str:
    """Return ``--hidden-channels`` for ``hidden_channels``."""
    return f"--{name.replace('_', '-')}"


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


def _one_or_several(option: str) -> Callable[[str], int | tuple[int, ...]]:
    def read(text: str) -> int | tuple[int, ...]:
        numbers = parse_numbers(text, option)
        return numbers[0] if len(numbers) == 1 else tuple(numbers)

    return read


def _read_transform(text: str) -> str | tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if "," in text else text


def _read_order_weights(text: str) -> str | tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        if "," not in text:
            return text
        raise BadInput(
            f"--order-weights takes a name or numbers separated by commas; got {text!r}"
        ) from None


def _read_train(text: str) -> int | str:
    if text == "all":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise BadInput(f"--train takes a number of nodes per class or 'all'; got {text!r}")
    return int(text)


_TEXTS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "model": ("PRESET", str),
    "aggr": ("NAME", str),
    "order": ("N,N,...", _one_or_several("--order")),
    "fanout": ("N,N,...", _one_or_several("--fanout")),
    "order_weights": ("NAME|N,N,...", _read_order_weights),
    "transform": ("NAME,NAME,...", _read_transform),
    "train": ("N|all", _read_train),
}
"""Settings whose option is text: what the help calls its value, and how it is read."""
