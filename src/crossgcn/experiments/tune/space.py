"""What a search may choose from: ranges and choices for each setting, and each model's own.

A space is a mapping from settings of :class:`~crossgcn.RunConfig` to a :class:`Range` or
:class:`Choices`.
"""

from __future__ import annotations

import inspect
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import fsum
from pathlib import Path
from typing import Any, get_args

import torch

from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.statistics import PairedDifference, paired_difference
from crossgcn.experiments.tune.trials import Trial
from crossgcn.models.catalogue import (
    PRESETS,
    build_model,
    first_layer_crosses,
    get_preset,
    has_orders,
)
from crossgcn.training.config import MODEL_SETTINGS, RunConfig
from crossgcn.training.trainer import SHARED_SETTINGS


@dataclass(frozen=True)
class Range:
    """Numbers between two, both included.

    Attributes:
        low: The lowest.
        high: The highest.
        log: Whether factors count and not differences.
        whole: Whether there are whole numbers only.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values that everything else lies between."""
        return (self.low, self.high)

    def __contains__(self, value: object) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high  # type: ignore[operator]

    def describe(self) -> str:
        """In words."""
        return f"{self.low:g} to {self.high:g}{', by factors' if self.log else ''}"

    def to_json(self) -> dict[str, Any]:
        """As a file holds it."""
        return {"low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True)
class Choices:
    """Values in no order; a single one is held."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def describe(self) -> str:
        """In words."""
        return ", ".join(map(str, self.values))

    def to_json(self) -> list[Any]:
        """As a file holds it."""
        return list(self.values)


Entry = Range | Choices
Space = Mapping[str, Entry]

# What all models share comes first and what crosses add comes last: so the first trials of a
# model and of its twin, which are drawn before there is anything to learn from, have it in common.
_ALL_MODELS: Space = {
    "hidden_channels": Choices((16, 32, 64, 128)),
    "dropout": Range(0.0, 0.8),
    "weight_decay": Range(1e-5, 1e-2, log=True),
    "learning_rate": Range(3e-3, 3e-2, log=True),
}
_CROSSES: Space = {"order": Range(1, 3, whole=True)}
_RANDOM_PROPAGATION: Space = {
    "hidden_channels": Choices((32, 64)),
    "dropout": Range(0.2, 0.6),
    "weight_decay": Range(2e-4, 3e-3, log=True),
    "learning_rate": Range(5e-3, 6e-2, log=True),
    "input_dropout": Range(0.0, 0.7),
    "hops": Range(2, 10, whole=True),
    "node_drop": Range(0.2, 0.6),
    "consistency": Range(0.5, 1.5),
    "temperature": Range(0.1, 0.5),
    "warm_up": Choices((50, 100, 200)),
    "aggregate_first": Choices((True, False)),
    "epochs": Choices((300,)),
}
_SPACES: Mapping[str, Space] = {
    "semi-emb": {**_ALL_MODELS, "laplacian_weight": Range(0.01, 3.0, log=True)},
    "grand": _RANDOM_PROPAGATION,
    "cross-grand": _RANDOM_PROPAGATION,
}

TWINS: Mapping[str, str] = {
    "cross-gcn": "gcn",
    "cross-gcn-release": "gcn",
    "cross-gcn-release-fix": "gcn",
    "cross-gcn-paper": "gcn",
    "cross-gcn-paper-fix": "gcn",
    "cross-grand": "grand",
}
"""The same model without crosses, to be searched for as long."""

CROSS_SETTINGS = frozenset({"order", "order_weights", "first_order", "transform", "scaling"})
"""What only crosses have; a twin's space is without it."""

_NOT_TUNED = frozenset({*SHARED_SETTINGS, "model", "test_curve", "precision"})


def twin_of(model: str) -> str | None:
    """The preset without crosses, where there is one."""
    twin = TWINS.get(model)
    return twin if twin in PRESETS else None


def default_space(model: str) -> Space:
    """What is searched for a preset unless the user says otherwise."""
    space = dict(_SPACES.get(model, _ALL_MODELS))
    if "order" in get_preset(model).options:
        space |= _CROSSES
    return space


def without_crosses(space: Space, twin: str) -> Space:
    """The same space for a twin: what the crosses add, or the twin has no use for, is left out."""
    return {
        name: entry
        for name, entry in space.items()
        if name not in CROSS_SETTINGS and takes(twin, name)
    }


def takes(model: str, name: str) -> bool:
    """Whether a setting means something to a preset."""
    special = RunConfig().model_settings().keys() - {"num_layers", "hidden_channels", "dropout"}
    return name not in special or name in get_preset(model).options


def tunable_settings(model: str) -> list[str]:
    """What may be searched or held: everything but the data, the splits and the seed."""
    return [
        name for name in RunConfig.model_fields if name not in _NOT_TUNED and takes(model, name)
    ]


def check_space(space: Space, base: RunConfig, where: str = "the search space") -> None:
    """Refuse unknown settings and values that no run takes.

    Args:
        space: To be searched.
        base: The other settings.
        where: What to call the space in messages.
    """
    for name, entry in space.items():
        if name not in tunable_settings(base.model):
            raise unknown_name(f"setting in {where}", name, tunable_settings(base.model))
        for value in entry.ends:
            try:
                RunConfig.create(**(base.model_dump() | {name: value}))
            except BadInput as error:
                raise BadInput(f"{where}: {error}") from None


def make_config(
    base: RunConfig, values: Mapping[str, Any], *, first_layer_only: bool = False
) -> RunConfig:
    """The configuration of one trial.

    Args:
        base: What the trial leaves as it is.
        values: What it chose.
        first_layer_only: Whether a single ``order`` is that of the first layer and the
            others do not cross, as on tables.
    """
    config = RunConfig.create(**(base.model_dump() | dict(values)))
    crosses = has_orders(config.model, config.transform)
    if not first_layer_only or not crosses or isinstance(config.order, tuple):
        return config
    orders = first_layer_crosses(config.order or 2, config.num_layers)
    return config.model_copy(update={"order": orders})


def default_values(base: RunConfig, space: Space) -> dict[str, Any]:
    """What a space's settings are when nobody searches, as far as the space has it.

    A search that starts there does not end below it, by validation accuracy.
    """
    preset = get_preset(base.model)
    signature = inspect.signature(preset.load()).parameters
    values = {}
    for name, entry in space.items():
        value = getattr(base, name)
        if value is None:
            value = preset.settings.get(name)
        if value is None and name in signature:
            value = signature[name].default
        if value in entry:
            values[name] = value
    return values


def read_space(path: Path) -> Space:
    """Read a space from a TOML file; whether its settings exist is not looked at here.

    Raises:
        BadInput: If it cannot be read, naming the setting at fault.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is not valid TOML: {error}") from None
    if not content:
        raise BadInput(f"{path}: names no setting; {_HOW}")
    return {name: _read_entry(name, entry, path) for name, entry in content.items()}


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``, the value as TOML has it; a word needs no quotes."""
    name, equals, value = text.partition("=")
    name, value = name.strip().replace("-", "_"), value.strip()
    if not (name and equals and value):
        raise BadInput(f"--fix takes NAME=VALUE, such as dropout=0.5; got {text!r}")
    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
    return name, _frozen(read)


_HOW = (
    "write choices as name = [16, 32], and ranges as name = { low = 0.1, high = 0.7 }, with "
    "log = true where factors count"
)


def _read_entry(name: str, entry: Any, path: Path) -> Entry:
    if isinstance(entry, list) and entry:
        return Choices(tuple(map(_frozen, entry)))
    if not isinstance(entry, dict) or not {"low", "high"} <= entry.keys() <= {"low", "high", "log"}:
        raise BadInput(f"{path}: {name} = {entry!r} is neither choices nor a range; {_HOW}")
    low, high, log = entry["low"], entry["high"], entry.get("log", False)
    numbers = all(type(end) in (int, float) and math.isfinite(end) for end in (low, high))
    if not numbers or not isinstance(log, bool) or low > high or (log and low <= 0):
        raise BadInput(
            f"{path}: {name} = {entry!r} is no range: low is a number and at most high, and above "
            "0 where log is true"
        )
    return Range(low, high, log, whole=_is_whole(name, path, low, high))


def _is_whole(name: str, path: Path, low: float, high: float) -> bool:
    """Whether a setting counts something; one that has no number cannot have a range."""
    field = RunConfig.model_fields.get(name)
    if field is None:
        return False
    kinds = set(get_args(field.annotation) or (field.annotation,))
    if float in kinds:
        return False
    if int not in kinds:
        raise BadInput(f"{path}: {name} is no number and has no range; list its choices")
    if not isinstance(low, int) or not isinstance(high, int):
        raise BadInput(f"{path}: {name} is a whole number; its range is {low} to {high}")
    return True


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Contestant:
    """A model whose settings are searched.

    Attributes:
        base: The settings that are not.
        space: Those that are.
    """

    base: RunConfig
    space: Space


@dataclass(frozen=True)
class TunedModel:
    """What came of one model's search.

    Attributes:
        contestant: What was searched.
        trials: All trials, failed ones included.
        chosen: The one of the best mean validation accuracy; of equals the first.
        config: Its settings, for :class:`~crossgcn.Experiment` or a file.
        runs: The chosen settings over all splits, test nodes read.
        folder: A saved model, of the run with the best validation accuracy.
        test_reads: For how many choices test nodes were read in this folder; above 1 where a
            finished search was continued and chose again.
    """

    contestant: Contestant
    trials: tuple[Trial, ...]
    chosen: Trial
    config: RunConfig
    runs: RepeatedRuns
    folder: Path
    test_reads: int

    @property
    def seconds(self) -> float:
        """Time spent in all runs, added up."""
        return fsum(trial.seconds for trial in self.trials) + self.runs.seconds


@dataclass(frozen=True)
class TuningResult:
    """A tuned model and, where one was asked for, its twin, tuned by as many trials."""

    ours: TunedModel
    twin: TunedModel | None

    @property
    def difference(self) -> PairedDifference | None:
        """Ours against the twin on test nodes, split by split."""
        if self.twin is None:
            return None
        return paired_difference(
            self.ours.runs.test_accuracy,
            self.twin.runs.test_accuracy,
            test_to_train=self.ours.runs.test_to_train,
        )


_GO_TOGETHER = (
    *("num_layers", "residual", "order", "order_weights"),
    *("first_order", "transform", "scaling"),
)
"""Settings of which one decides what another may be."""


def check_models(contestant: Contestant, *, first_layer_only: bool) -> None:
    """Refuse values that make no model, by themselves or one with the other.

    A trial of such would fail for the model and not for its twin, whose search would be longer.

    Args:
        contestant: Its settings and its space.
        first_layer_only: As of :func:`~crossgcn.experiments.tune.space.make_config`.

    Raises:
        BadInput: With the values, and why they cannot be.
    """
    for values in _models_to_try(contestant.space):
        try:
            config = make_config(contestant.base, values, first_layer_only=first_layer_only)
            with torch.device("meta"):
                build_model(config.model, 1, 1, **config.model_settings())
        except (BadInput, RuntimeError, TypeError) as error:
            words = " and ".join(f"{name} {value}" for name, value in values.items())
            raise BadInput(
                f"the search would try {contestant.base.model}{words and ' with '}{words}, which "
                f"cannot be made: {str(error).splitlines()[0]}"
            ) from None


def _models_to_try(space: Mapping[str, Entry]) -> Iterator[dict[str, Any]]:
    joint = [name for name in _GO_TOGETHER if name in space]
    combinations = [
        dict(zip(joint, values, strict=True))
        for values in product(*(_values(space[name]) for name in joint))
    ]
    yield from combinations
    for name in space.keys() & set(MODEL_SETTINGS) - set(joint):
        for value in space[name].ends:
            yield combinations[0] | {name: value}


def _values(entry: Entry) -> tuple[Any, ...]:
    if isinstance(entry, Choices) or not entry.whole:
        return entry.ends
    return tuple(range(int(entry.low), int(entry.high) + 1))
