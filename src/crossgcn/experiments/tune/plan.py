"""What is searched and what is held, for a model and for its twin without crosses."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import VALIDATION_SHARE, Split, make_splits
from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.tune.space import (
    CROSS_SETTINGS,
    Choices,
    Contestant,
    Space,
    check_space,
    default_space,
    parse_setting,
    read_space,
    takes,
    tunable_settings,
    twin_of,
    without_crosses,
)
from crossgcn.models.catalogue import has_orders
from crossgcn.training.config import RunConfig


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


def deal_out_sealed(
    data: Data, *, num_splits: int, train: int | Literal["all"] | None, seed: int
) -> Tensor:
    """Stratified splits that share their test nodes, as ``roles``.

    Stratified splits deal all nodes out anew, so that a node which tests in one validates in
    another, and settings chosen by the mean over splits have seen the labels of all. Here the
    test nodes are those of the first stratified split, and only the others are dealt out
    again: of every class a quarter validates, and the rest, or ``train`` of them, train.

    Args:
        data: The graph, with ``y`` and ``num_classes``.
        num_splits: How many.
        train: Training nodes per class, or ``"all"``.
        seed: Which draw.

    Returns:
        ``[num_splits, nodes]``: 1 trains, 2 validates, 3 tests.
    """
    (first,) = make_splits(data, "stratified", num_splits=1, train=train, seed=seed)
    roles = torch.zeros(num_splits, len(data.y), dtype=torch.int8)
    roles[:, first.test] = 3
    for index, row in enumerate(roles):
        generator = np.random.default_rng([seed, index, len(data.y)])
        for label in range(data.num_classes):
            nodes = torch.nonzero((data.y == label) & (row != 3)).flatten()
            nodes = nodes[torch.from_numpy(generator.permutation(len(nodes)))]
            validation = max(1, round(_SHARE * len(nodes)))
            kept = validation + train if isinstance(train, int) else None
            row[nodes[validation:kept]] = 1
            row[nodes[:validation]] = 2
    return roles


def check_sealed(splits: Sequence[Split], name: str) -> None:
    """Refuse splits of which one tests on what another trains or validates with.

    Args:
        splits: Over which settings are to be chosen.
        name: Of the data.
    """
    tested = torch.cat([split.test for split in splits])
    for index, split in enumerate(splits):
        for role, nodes in (("trains", split.train), ("validates", split.validation)):
            seen = nodes[torch.isin(nodes, tested)]
            if len(seen):
                raise BadInput(
                    f"{name}: node {int(seen[0])} {role} in split {index} and tests in another, so "
                    "that settings chosen over all splits would have seen its label; use --splits "
                    "stratified, which keeps test nodes apart here, or --num-splits 1"
                )


_SHARE = VALIDATION_SHARE / (1 - VALIDATION_SHARE)
