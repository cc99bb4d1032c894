"""Whether everything that a search may try is a model, before anything is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import torch

from crossgcn.errors import BadInput
from crossgcn.evaluation.search_space import Choices, Entry, make_config
from crossgcn.evaluation.tuning_results import Contestant
from crossgcn.models.registry import build_model
from crossgcn.training.config import MODEL_SETTINGS

__all__ = ["check_models"]

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
        first_layer_only: As of :func:`~crossgcn.evaluation.search_space.make_config`.

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
