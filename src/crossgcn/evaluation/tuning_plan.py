"""What is searched and what is held, for a model and for its twin without crosses."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crossgcn.errors import BadInput, unknown_name
from crossgcn.evaluation.search_space import (
    CROSS_SETTINGS,
    Choices,
    Space,
    check_space,
    default_space,
    takes,
    tunable_settings,
    twin_of,
    without_crosses,
)
from crossgcn.evaluation.tuning_results import Contestant
from crossgcn.evaluation.tuning_space_file import parse_setting, read_space
from crossgcn.models.presets import has_orders
from crossgcn.training.config import RunConfig

__all__ = ["plan_contestants"]


def plan_contestants(
    settings: Mapping[str, Any],
    *,
    fix: Sequence[str] = (),
    depths: Sequence[int] | None = None,
    config_file: Path | None = None,
    defaults: Mapping[str, Any] | None = None,
    space_file: Path | None = None,
    twin: bool = True,
) -> list[Contestant]:
    """A model with its space, and its twin with the same space less the crosses' own settings.

    What the user gave is held, whether by an option, ``fix`` or ``config_file``; only a space of
    the user's own has a setting of ``config_file`` searched.

    Args:
        settings: Options of :class:`~crossgcn.RunConfig`; ``None`` means not given.
        fix: Further ones, as ``NAME=VALUE``.
        depths: Of the model; several are searched.
        config_file: A TOML file with settings.
        defaults: For settings that nobody gave and nobody searches.
        space_file: A TOML file with the space, in place of the model's own.
        twin: Whether a twin is wanted, where there is one.

    Raises:
        BadInput: For a setting that is unknown, held at two values, or both held and searched,
            or if nothing is left to search.
    """
    held = {name: value for name, value in settings.items() if value is not None}
    model = RunConfig.create(config_file=config_file, model=held.get("model")).model
    for name, value in map(parse_setting, fix):
        if name not in tunable_settings(model):
            raise unknown_name("setting in --fix", name, tunable_settings(model))
        _hold(held, name, value)
    depths = list(dict.fromkeys(depths or ()))
    if len(depths) == 1:
        _hold(held, "num_layers", depths[0])
    elif depths and "num_layers" in held:
        raise BadInput(
            f"num_layers is searched by --num-layers and held at {held['num_layers']} by --fix; "
            "leave one of the two out"
        )
    base = RunConfig.create(config_file=config_file, defaults=defaults, **held)
    if space_file is None:
        given = held.keys() | _settings_in(config_file)
        if not has_orders(model, base.transform):
            given.add("order")
        space: Space = {n: entry for n, entry in default_space(model).items() if n not in given}
    else:
        space = read_space(space_file)
        check_space(space, base, str(space_file))
        for name in space.keys() & held.keys():
            raise BadInput(
                f"{space_file}: {name} is searched there and held at {held[name]} by an option; "
                "leave one of the two out"
            )
    if len(depths) > 1:
        space = {"num_layers": Choices(tuple(depths)), **space}
    if not any(len(set(entry.ends)) > 1 for entry in space.values()):
        raise BadInput(
            "every setting is held by options or by --config, so there is nothing to search; "
            "leave some out, or name them in --space"
        )
    other = twin_of(model) if twin else None
    ours = Contestant(base, space)
    return [ours] if other is None else [ours, _make_twin(ours, other)]


def _hold(held: dict[str, Any], name: str, value: Any) -> None:
    if held.get(name, value) != value:
        raise BadInput(
            f"{name} is held at {held[name]} and at {value}, by --fix and by another option or "
            "another --fix; leave one of the two out"
        )
    held[name] = value


def _settings_in(config_file: Path | None) -> set[str]:
    """What a file that could be read names itself, without what its model's preset adds."""
    if config_file is None:
        return set()
    return set(tomllib.loads(config_file.read_text(encoding="utf-8")))


def _make_twin(ours: Contestant, model: str) -> Contestant:
    kept = {
        name: value
        for name, value in ours.base.model_dump().items()
        if name not in CROSS_SETTINGS and takes(model, name)
    }
    base = RunConfig.create(**(kept | {"model": model}))
    return Contestant(base, without_crosses(ours.space, model))
