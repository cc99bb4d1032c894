"""What to search and what to fix, for a model and for its twin without crosses."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch
from optuna.distributions import BaseDistribution, IntDistribution

from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.tune.space import (
    BAGS_IN_TRIALS,
    CROSS_SETTINGS,
    TWINS,
    Space,
    check_space,
    choices,
    default_space,
    extremes,
    make_config,
    parse_setting,
    read_space,
    tunable_settings,
    without_crosses,
)
from crossgcn.models.catalogue import build_model, has_orders
from crossgcn.training.config import RunConfig


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
