from __future__ import annotations

from typing import Any

import pytest

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import (
    Choices,
    Contestant,
    Range,
    Space,
    check_models,
    default_space,
    make_config,
)
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.training.config import RunConfig


def check(space: Space, *, first_layer_only: bool = False, **settings: Any) -> None:
    contestant = Contestant(RunConfig.create(**settings), space)
    check_models(contestant, first_layer_only=first_layer_only)


@pytest.mark.parametrize("first_layer_only", [False, True])
@pytest.mark.parametrize("model", PRESETS)
def test_every_preset_can_be_searched_at_several_depths(model: str, first_layer_only: bool) -> None:
    space = {**default_space(model), "num_layers": Choices((1, 2, 3))}
    check(space, model=model, first_layer_only=first_layer_only)
    for depth in (1, 2, 3):
        base = RunConfig.create(model=model)
        config = make_config(base, {"num_layers": depth}, first_layer_only=first_layer_only)
        assert len(build_model(model, 4, 2, **config.model_settings()).layers) == depth


@pytest.mark.parametrize(
    ("space", "settings", "words"),
    [
        (
            {"num_layers": Choices((2, 1))},
            {"order": (2, 1)},
            r"would try cross-gcn with num_layers 1, .* names 2 layers, but num_layers is 1",
        ),
        (
            {"num_layers": Range(1, 4, whole=True)},
            {"order": (2, 1), "model": "cross-grand"},
            "would try cross-grand with num_layers 1, which cannot be made: order=",
        ),
        (
            {"order": Choices((3, (2, 1))), "num_layers": Choices((2, 3))},
            {},
            r"with num_layers 3 and order \(2, 1\)",
        ),
        (
            {"order": Range(1, 3, whole=True)},
            {"order_weights": (1.0, 0.5)},
            "with order 1, which cannot be made: order_weights of a layer of order 1",
        ),
        ({"aggr": Choices(("gcn", "gacn"))}, {}, "with aggr gacn, .*unknown aggregation 'gacn'"),
        ({"hidden_channels": Choices((8, 2**62))}, {}, "with hidden_channels 4611686018427387904"),
    ],
)
def test_what_is_no_model_is_named(space: Space, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check(space, **settings)


def test_orders_of_all_layers_fit_the_depth_that_they_name() -> None:
    orders = Choices(((2, 1), (3, 1), 2))
    check({"num_layers": Choices((2,)), "order": orders})
    with pytest.raises(BadInput, match="num_layers is 3"):
        check({"num_layers": Choices((2, 3)), "order": orders})
