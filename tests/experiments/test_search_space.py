from __future__ import annotations

from typing import Any

import pytest
import torch

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import (
    CROSS_SETTINGS,
    TWINS,
    Choices,
    Range,
    Space,
    check_space,
    default_space,
    default_values,
    make_config,
    tunable_settings,
    twin_of,
    without_crosses,
)
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.training.config import RunConfig

TRAINING = ("epochs", "learning_rate", "weight_decay")


@pytest.mark.parametrize("model", PRESETS)
def test_every_corner_of_a_models_own_space_is_a_model(model: str) -> None:
    base, space = RunConfig(model=model), default_space(model)
    check_space(space, base)
    for corner in (0, -1):
        config = make_config(base, {name: entry.ends[corner] for name, entry in space.items()})
        with torch.device("meta"):
            build_model(model, 5, 3, **config.model_settings())


@pytest.mark.parametrize("model", PRESETS)
def test_a_models_defaults_are_in_its_own_space(model: str) -> None:
    base, space = RunConfig.create(model=model), default_space(model)
    values = default_values(base, space)
    assert values.keys() == space.keys()
    assert all(value in space[name] for name, value in values.items())
    for name in ("hidden_channels", "dropout", "weight_decay", "learning_rate"):
        assert values[name] == getattr(base, name)
    assert values.get("order") == (2 if "order" in space else None)


@pytest.mark.parametrize("model", PRESETS)
def test_a_search_starts_with_the_preset_itself(model: str) -> None:
    base = RunConfig.create(model=model)
    first = make_config(base, default_values(base, default_space(model)))
    assert {name: getattr(first, name) for name in TRAINING} == {
        name: getattr(base, name) for name in TRAINING
    }
    made = []
    for config in (base, first):
        torch.manual_seed(0)
        made.append(build_model(model, 5, 3, **config.model_settings()))
    plain = [
        {k: v for k, v in vars(module).items() if isinstance(v, int | float | str)}
        for module in made
    ]
    assert str(made[0]) == str(made[1]) and plain[0] == plain[1]
    for ours, theirs in zip(made[0].parameters(), made[1].parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_recipe_and_its_twin_start_where_the_preset_is() -> None:
    for model in ("cross-grand", "grand"):
        values = default_values(RunConfig.create(model=model), default_space(model))
        assert (values["learning_rate"], values["epochs"], values["hidden_channels"]) == (
            *(0.05, 300, 64),
        )
        assert (values["input_dropout"], values["warm_up"], values["aggregate_first"]) == (
            *(0.2, 100, True),
        )


@pytest.mark.parametrize("model", [name for name in PRESETS if twin_of(name) is not None])
def test_a_twin_searches_what_its_model_does_but_the_crosses(model: str) -> None:
    twin = twin_of(model)
    assert twin is not None
    ours, plain = default_space(model), without_crosses(default_space(model), twin)
    assert ours.keys() - plain.keys() == {"order"}
    assert not plain.keys() & CROSS_SETTINGS
    assert all(plain[name] == ours[name] for name in plain)
    assert list(ours)[: len(plain)] == list(plain)
    check_space(plain, RunConfig(model=twin))


def test_twins_do_not_cross_and_models_without_crosses_have_none() -> None:
    for model, twin in TWINS.items():
        assert "order" in PRESETS[model].options
        assert "order" not in PRESETS[twin].options
    assert [twin_of(name) for name in ("gcn", "mlp", "gin")] == [None] * 3


def test_data_splits_and_seeds_are_not_to_be_tuned() -> None:
    settings = tunable_settings("gcn")
    assert not {"dataset", "splits", "num_splits", "train", "seed", "model"} & set(settings)
    assert {"epochs", "num_layers", "dropout", "bias"} <= set(settings)
    assert "order" not in settings and "order" in tunable_settings("cross-gcn")


@pytest.mark.parametrize(
    ("space", "fragments"),
    [
        ({"dropuot": Range(0, 0.5)}, ("unknown setting in mine 'dropuot'", "mean 'dropout'")),
        ({"seed": Choices((1, 2))}, ("unknown setting in mine 'seed'", "known are num_layers")),
        ({"laplacian_weight": Range(0, 1)}, ("unknown setting in mine 'laplacian_weight'",)),
        ({"dropout": Range(0.0, 1.5)}, ("mine: dropout should be less than 1; got 1.5",)),
        ({"hidden_channels": Choices((16, 0))}, ("mine: hidden_channels should be", "got 0")),
    ],
)
def test_a_space_is_looked_at_before_anything_is_tried(
    space: Space, fragments: tuple[str, ...]
) -> None:
    with pytest.raises(BadInput) as caught:
        check_space(space, RunConfig(), "mine")
    assert all(fragment in str(caught.value) for fragment in fragments), caught.value


@pytest.mark.parametrize(
    ("model", "values", "order"),
    [
        ("cross-gcn", {"order": 3, "num_layers": 3}, (3, 1, 1)),
        ("cross-gcn", {"num_layers": 2}, (2, 1)),
        ("cross-gcn", {"order": (2, 2)}, (2, 2)),
        ("cross-gcn", {"transform": "mlp"}, None),
        ("gcn", {}, None),
    ],
)
def test_on_tables_crosses_are_of_columns(
    model: str, values: dict[str, Any], order: tuple[int, ...] | None
) -> None:
    config = make_config(RunConfig(model=model), values, first_layer_only=True)
    assert config.order == order


def test_spaces_are_described_in_words() -> None:
    assert Range(1e-4, 5e-3, log=True).describe() == "0.0001 to 0.005, by factors"
    assert Choices((16, 32)).describe() == "16, 32"
    assert True not in Range(0, 2) and "1" not in Range(0, 2) and 2 in Range(0, 2)
