"""What is searched: distributions of settings, for a model and for its twin without crosses."""

from __future__ import annotations

import inspect
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.candidates import cross_in_first_layer
from crossgcn.models.catalogue import PRESETS, build_model, get_preset, has_orders
from crossgcn.training.config import RunConfig
from crossgcn.training.trainer import SHARED_SETTINGS

Space = Mapping[str, BaseDistribution]


def choices(*values: Any) -> CategoricalDistribution:
    """Return a distribution over values, which may be tuples (one value per layer)."""
    return CategoricalDistribution([encode(value) for value in values])


def encode(value: Any) -> Any:
    """Return a value as Optuna stores it: a tuple becomes JSON text."""
    return json.dumps(value) if isinstance(value, tuple) else value


def decode(value: Any) -> Any:
    """Return a value as :class:`~crossgcn.RunConfig` takes it; undoes :func:`encode`."""
    encoded = isinstance(value, str) and value.startswith("[")
    return tuple(json.loads(value)) if encoded else value


def extremes(distribution: BaseDistribution) -> tuple[Any, ...]:
    """Return all choices, or both ends of a range."""
    if isinstance(distribution, CategoricalDistribution):
        return tuple(map(decode, distribution.choices))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    return distribution.low, distribution.high


def contains(distribution: BaseDistribution, value: Any) -> bool:
    """Return whether a value is one of the choices, or a number within the range."""
    if isinstance(distribution, CategoricalDistribution):
        return value in extremes(distribution)
    low, high = extremes(distribution)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(low <= value <= high)


def describe(distribution: BaseDistribution) -> str:
    """Return a distribution in words, such as ``0.0001 to 0.005, by factors``."""
    if isinstance(distribution, FloatDistribution | IntDistribution):
        factors = ", by factors" if distribution.log else ""
        return f"{distribution.low:g} to {distribution.high:g}{factors}"
    return ", ".join(map(str, extremes(distribution)))


# Settings that all models share come first and those of crosses last. So the first, random
# trials of a model and of its twin have the same values of the shared settings.
_ALL_MODELS: Space = {
    "hidden_channels": choices(16, 32, 64, 128),
    "dropout": FloatDistribution(0.0, 0.8),
    "weight_decay": FloatDistribution(1e-5, 1e-2, log=True),
    "learning_rate": FloatDistribution(3e-3, 3e-2, log=True),
}
_CROSSES: Space = {"order": IntDistribution(1, 3)}
_RANDOM_PROPAGATION: Space = {
    "hidden_channels": choices(32, 64),
    "dropout": FloatDistribution(0.2, 0.6),
    "weight_decay": FloatDistribution(2e-4, 3e-3, log=True),
    "learning_rate": FloatDistribution(5e-3, 6e-2, log=True),
    "input_dropout": FloatDistribution(0.0, 0.7),
    "hops": IntDistribution(2, 10),
    "node_drop": FloatDistribution(0.2, 0.6),
    "consistency": FloatDistribution(0.5, 1.5),
    "temperature": FloatDistribution(0.1, 0.5),
    "warm_up": choices(50, 100, 200),
    "aggregate_first": choices(True, False),
    "epochs": choices(300),
}
_HOPS: Space = {
    "hidden_channels": choices(8, 16, 32),
    "dropout": FloatDistribution(0.0, 0.6),
    "weight_decay": choices(0.0, 1e-4, 1e-3, 1e-2),
    "learning_rate": FloatDistribution(2e-3, 2e-2, log=True),
    "hops": IntDistribution(1, 2),
    "label_features": choices(True, False),
}
_SPACES: Mapping[str, Space] = {
    "cross-hops": _HOPS,
    "mlp-hops": {**_HOPS, "hidden_channels": choices(16, 32, 64)},
    "semi-emb": {**_ALL_MODELS, "laplacian_weight": FloatDistribution(0.01, 3.0, log=True)},
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
    "cross-hops": "cross-hops",
}
"""For each model with crosses, the same model without (itself: with ``order`` 1); it gets as many
trials."""

BAGS_IN_TRIALS = 2
"""Bags of a trial; the chosen settings are trained with the model's own number."""

CROSS_SETTINGS = PRESETS["cross-gcn"].options - PRESETS["gcn"].options - {"aggregate_first"}
"""Settings that only crosses have; the space of a twin leaves them out."""

_NOT_TUNED = frozenset({*SHARED_SETTINGS, "model", "test_curve", "precision"})


def default_space(model: str) -> Space:
    """Return the search space of a preset."""
    space = _SPACES.get(model, _ALL_MODELS)
    return {**space, **_CROSSES} if "order" in get_preset(model).options else space


def takes(model: str, setting: str) -> bool:
    """Return whether a setting has a meaning for a preset."""
    of_all_models = {"num_layers", "hidden_channels", "dropout"}
    special = setting in RunConfig().model_settings() and setting not in of_all_models
    return not special or setting in get_preset(model).options


def without_crosses(settings: Mapping[str, Any], twin: str) -> dict[str, Any]:
    """Return the settings, or the space, that a twin shares with its model."""
    return {
        name: value
        for name, value in settings.items()
        if name not in CROSS_SETTINGS and takes(twin, name)
    }


def tunable_settings(model: str) -> list[str]:
    """Return the settings that may be searched or fixed: all but data, splits and seed."""
    return [
        name for name in RunConfig.model_fields if name not in _NOT_TUNED and takes(model, name)
    ]


def check_space(space: Space, base: RunConfig, where: str = "the search space") -> None:
    """Refuse unknown settings and values that :class:`~crossgcn.RunConfig` refuses."""
    for name, distribution in space.items():
        if name not in tunable_settings(base.model):
            raise unknown_name(f"setting in {where}", name, tunable_settings(base.model))
        for value in extremes(distribution):
            try:
                RunConfig.create(**(base.model_dump() | {name: value}))
            except BadInput as error:
                raise BadInput(f"{where}: {error}") from None


def make_config(
    base: RunConfig, values: Mapping[str, Any], *, first_layer_only: bool = False
) -> RunConfig:
    """Return the configuration of a trial: ``base`` with the chosen values.

    With ``first_layer_only``, as on tables, a single ``order`` is the order of the first layer
    and the other layers do not cross.
    """
    config = RunConfig.create(**(base.model_dump() | dict(values)))
    return cross_in_first_layer(config) if first_layer_only else config


def default_values(base: RunConfig, space: Space) -> dict[str, Any]:
    """Return the defaults of the searched settings, as far as the space contains them.

    The first trial uses them, so the search ends at least as well on the validation nodes.
    """
    preset = get_preset(base.model)
    signature: dict[str, inspect.Parameter] = {}
    for each in reversed(preset.load().__mro__[:-1]):  # a subclass may pass arguments on
        signature |= inspect.signature(each.__init__).parameters
    values = {}
    for name, distribution in space.items():
        own = signature[name].default if name in signature else None
        found = (getattr(base, name), preset.settings.get(name), own)
        value = next((each for each in found if each is not None), None)
        if contains(distribution, value):
            values[name] = value
    return values


def read_space(path: Path) -> Space:
    """Read a space from a TOML file; :func:`check_space` checks the names of its settings."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is not valid TOML: {error}") from None
    if not content:
        raise BadInput(f"{path}: names no setting; {_HOW}")
    return {name: _read_distribution(name, entry, path) for name, entry in content.items()}


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE`` with a TOML value; a word needs no quotes."""
    name, equals, value = text.partition("=")
    name, value = name.strip().replace("-", "_"), value.strip()
    if not (name and equals and value):
        raise BadInput(f"--fix takes NAME=VALUE, such as dropout=0.5; got {text!r}")
    try:
        return name, _as_tuple(tomllib.loads(f"value = {value}")["value"])
    except tomllib.TOMLDecodeError:
        return name, value


_HOW = (
    "write choices as name = [16, 32], and ranges as name = { low = 0.1, high = 0.7 }, with "
    "log = true where factors count"
)


def _read_distribution(name: str, entry: Any, path: Path) -> BaseDistribution:
    if isinstance(entry, list) and entry:
        return choices(*map(_as_tuple, entry))
    if not isinstance(entry, dict) or not {"low", "high"} <= entry.keys() <= {"low", "high", "log"}:
        raise BadInput(f"{path}: {name} = {entry!r} is neither choices nor a range; {_HOW}")
    low, high, log = entry["low"], entry["high"], entry.get("log", False)
    numbers = all(type(end) in (int, float) and math.isfinite(end) for end in (low, high))
    if not numbers or not isinstance(log, bool) or low > high or (log and low <= 0):
        raise BadInput(
            f"{path}: {name} = {entry!r} is no range: low is a number and at most high, and above "
            "0 where log is true"
        )
    field = RunConfig.model_fields.get(name)
    kinds = set() if field is None else set(get_args(field.annotation) or (field.annotation,))
    if field is None or float in kinds:  # check_space reports an unknown setting
        return FloatDistribution(low, high, log=log)
    if int not in kinds:
        raise BadInput(f"{path}: {name} is no number and has no range; list its choices")
    if not isinstance(low, int) or not isinstance(high, int):
        raise BadInput(
            f"{path}: {name} is a whole number; its range is {low} to {high}: give whole numbers"
        )
    return IntDistribution(low, high, log=log)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Search:
    """A model whose settings are searched.

    Attributes:
        base: The settings that are fixed.
        space: The settings that are searched.
        in_trials: Settings that replace those of ``base`` in trials, to save time.
        name: Defaults to the name of the model.
    """

    base: RunConfig
    space: Space
    in_trials: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.base.model)


def make_searches(
    settings: Mapping[str, Any],
    *,
    fix: Sequence[str] = (),
    depths: Sequence[int] | None = None,
    config_file: Path | None = None,
    defaults: Mapping[str, Any] | None = None,
    space_file: Path | None = None,
    twin: bool = True,
) -> list[Search]:
    """Return the search of a model and that of its twin, without the settings of crosses.

    Settings given by an option, ``fix`` or ``config_file`` are fixed. Only a ``space_file``
    may search a setting of ``config_file``.

    Args:
        settings: Settings of :class:`~crossgcn.RunConfig`; ``None`` means not given.
        fix: Further settings, as ``NAME=VALUE``.
        depths: Numbers of layers; several are searched.
        defaults: Values of settings that are neither given nor searched.
        space_file: Defaults to the space of the model.
        twin: Search the twin too, if the model has one.
    """
    fixed = {name: value for name, value in settings.items() if value is not None}
    usual = {name: value for name, value in (defaults or {}).items() if name == "model"}
    named = fixed.get("model")
    model = RunConfig.create(config_file=config_file, defaults=usual, model=named).model
    for name, value in map(parse_setting, fix):
        if name not in tunable_settings(model):
            raise unknown_name("setting in --fix", name, tunable_settings(model))
        _fix(fixed, name, value)
    depths = list(dict.fromkeys(depths or ()))
    if len(depths) == 1:
        _fix(fixed, "num_layers", depths[0])
    elif depths and "num_layers" in fixed:
        raise BadInput(
            f"num_layers is searched by --num-layers and held at {fixed['num_layers']} by --fix; "
            "leave one of the two out"
        )
    base = RunConfig.create(config_file=config_file, defaults=defaults, **fixed)
    given = set(fixed)
    if config_file is not None:
        given |= set(tomllib.loads(config_file.read_text(encoding="utf-8")))
    if base.label_features == "auto":
        raise BadInput(
            "label_features is auto, but a search tries both by itself; leave it out, or give true "
            "or false"
        )
    if space_file is None:
        if not has_orders(model, base.transform):
            given.add("order")
        space: Space = {n: entry for n, entry in default_space(model).items() if n not in given}
    else:
        space = read_space(space_file)
        check_space(space, base, str(space_file))
        for name in space.keys() & fixed.keys():
            raise BadInput(
                f"{space_file}: {name} is searched there and held at {fixed[name]} by an option; "
                "leave one of the two out"
            )
    if len(depths) > 1:
        space = {"num_layers": choices(*depths), **space}
    if all(distribution.single() for distribution in space.values()):
        raise BadInput(
            "every setting is held by options or by --config, so there is nothing to search; "
            "leave some out, or name them in --space"
        )
    fewer = base.bags is not None and "bags" not in given | space.keys()
    in_trials = {"bags": min(base.bags or 1, BAGS_IN_TRIALS)} if fewer else {}
    searches = [Search(base, space, in_trials)]
    other = TWINS.get(model)
    if twin and other is not None and (other != model or base.order != 1):
        plain = without_crosses(base.model_dump(), other) | {"model": other}
        name = other
        if other == model:
            plain["order"], name = 1, f"{model}-1"
        own_space = without_crosses(space, other)
        searches.append(Search(RunConfig.create(**plain), own_space, in_trials, name))
    return searches


def _fix(fixed: dict[str, Any], name: str, value: Any) -> None:
    if fixed.get(name, value) != value:
        raise BadInput(
            f"{name} is held at {fixed[name]} and at {value}, by --fix and by another option or "
            "another --fix; leave one of the two out"
        )
    fixed[name] = value


_INTERACTING = CROSS_SETTINGS | {"num_layers", "residual"}
"""Settings whose values may exclude each other."""


def check_models(search: Search, *, first_layer_only: bool) -> None:
    """Refuse values, or combinations of values, with which the model cannot be built.

    Such a trial would fail for the model and not for its twin, which would then be searched
    for longer.
    """
    for values in _models_to_try(search.space):
        try:
            config = make_config(search.base, values, first_layer_only=first_layer_only)
            with torch.device("meta"):
                build_model(config.model, 1, 1, **config.model_settings())
        except (BadInput, RuntimeError, TypeError) as error:
            words = " and ".join(f"{name} {value}" for name, value in values.items())
            raise BadInput(
                f"the search would try {search.base.model}{words and ' with '}{words}, which "
                f"cannot be made: {str(error).splitlines()[0]}"
            ) from None


def _models_to_try(space: Space) -> Iterator[dict[str, Any]]:
    """Yield all combinations of interacting settings, and the extremes of every other one."""
    settings = [name for name in RunConfig().model_settings() if name in space]
    joint = {name: _values(space[name]) for name in settings if name in _INTERACTING}
    combinations = [dict(zip(joint, each, strict=True)) for each in product(*joint.values())]
    yield from combinations
    for name in settings:
        if name not in joint:
            yield from (combinations[0] | {name: value} for value in extremes(space[name]))


def _values(distribution: BaseDistribution) -> Sequence[Any]:
    """Return all values of a range of integers or of choices."""
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1)
    return extremes(distribution)
