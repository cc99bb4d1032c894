"""What a search may choose from: ranges and choices for each setting, and each model's own.

A space is a mapping from settings of :class:`~crossgcn.RunConfig` to a :class:`Range` or
:class:`Choices`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossgcn.errors import BadInput, unknown_name
from crossgcn.models.presets import PRESETS, first_layer_crosses, get_preset, has_orders
from crossgcn.models.registry import MODELS
from crossgcn.training.config import RunConfig
from crossgcn.training.joint_workload import SHARED_SETTINGS

__all__ = [
    "CROSS_SETTINGS",
    "TWINS",
    "Choices",
    "Entry",
    "Range",
    "Space",
    "check_space",
    "default_space",
    "default_values",
    "make_config",
    "takes",
    "tunable_settings",
    "twin_of",
    "without_crosses",
]


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
    signature = inspect.signature(MODELS[preset.model]).parameters
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
