from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import IntDistribution

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import (
    Search,
    Space,
    check_models,
    choices,
    default_space,
    make_config,
    make_searches,
)
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.training.config import RunConfig


def test_a_model_and_its_twin_are_treated_alike() -> None:
    given = {"dataset": "cora", "epochs": 7, "seed": 3, "aggregate_first": True, "dropout": None}
    ours, twin = make_searches(given)
    assert (ours.base.model, twin.base.model) == ("cross-gcn", "gcn")
    assert ours.base.aggregate_first and twin.base.aggregate_first is None
    for name in ("dataset", "epochs", "seed", "num_splits", "train", "num_layers"):
        assert getattr(ours.base, name) == getattr(twin.base, name)
    assert ours.space.keys() - twin.space.keys() == {"order"}


def test_what_is_given_is_held_and_not_searched(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('model = "cross-gcn-release"\nweight_decay = 0.001\n')
    ours, twin = make_searches(
        {"dropout": 0.3}, fix=["hidden-channels=8"], depths=[3], config_file=config
    )
    assert set(ours.space) == {"learning_rate", "order"}
    assert set(twin.space) == {"learning_rate"}
    for side in (ours.base, twin.base):
        held = (side.dropout, side.weight_decay, side.hidden_channels, side.num_layers)
        assert held == (0.3, 0.001, 8, 3)


def test_defaults_of_tables_are_searched_all_the_same() -> None:
    ours, twin = make_searches({}, defaults={"dropout": 0.2, "bias": True})
    assert "dropout" in ours.space
    assert ours.base.dropout == twin.base.dropout == 0.2
    assert twin.base.bias


def test_the_twin_of_cross_hops_has_order_1_and_trials_have_fewer_bags() -> None:
    ours, twin = make_searches({}, defaults={"model": "cross-hops", "dropout": 0.2})
    assert (ours.name, twin.name) == ("cross-hops", "cross-hops-1")
    assert (twin.base.model, twin.base.order) == ("cross-hops", 1)
    assert ours.space.keys() - twin.space.keys() == {"order"}
    assert ours.base.bags == twin.base.bags == 8
    assert ours.in_trials == twin.in_trials == {"bags": 2}
    (alone,) = make_searches({"model": "cross-hops", "order": 1, "bags": 3})
    assert alone.in_trials == {} and alone.base.bags == 3


def test_several_depths_are_searched() -> None:
    ours, twin = make_searches({}, depths=[1, 2, 1])
    assert ours.space["num_layers"] == twin.space["num_layers"] == choices(1, 2)


def test_a_space_of_ones_own_replaces_the_models_and_wins_over_a_file(tmp_path: Path) -> None:
    space, config = tmp_path / "space.toml", tmp_path / "mine.toml"
    space.write_text("dropout = { low = 0.1, high = 0.2 }\norder_weights = ['gated', 'fixed']\n")
    config.write_text("dropout = 0.7\nepochs = 9\n")
    ours, twin = make_searches({}, space_file=space, config_file=config)
    assert set(ours.space) == {"dropout", "order_weights"}
    assert set(twin.space) == {"dropout"}
    assert ours.base.epochs == 9


def test_a_twin_is_left_out_where_there_is_none_or_none_is_wanted() -> None:
    assert len(make_searches({"model": "gin"})) == 1
    assert len(make_searches({}, twin=False)) == 1


@pytest.mark.parametrize("model", PRESETS)
def test_what_a_preset_brings_along_is_searched_all_the_same(model: str, tmp_path: Path) -> None:
    assert make_searches({"model": model})[0].space == default_space(model)
    config = tmp_path / "mine.toml"
    config.write_text(f'model = "{model}"\ndropout = 0.25\n')
    ours = make_searches({}, config_file=config)[0]
    assert ours.space.keys() == default_space(model).keys() - {"dropout"}
    assert ours.base.dropout == 0.25


def test_epochs_of_the_recipe_are_the_users_if_given() -> None:
    ours, _ = make_searches({"model": "cross-grand", "epochs": 50})
    assert ours.base.epochs == 50
    assert ours.space.keys() == default_space("cross-grand").keys() - {"epochs"}


def test_without_crosses_there_is_no_order_to_search() -> None:
    ours, _ = make_searches({"transform": "mlp"})
    assert ours.space.keys() == default_space("cross-gcn").keys() - {"order"}
    assert "order" in make_searches({"transform": ("dcn", "linear")})[0].space


def test_the_same_value_may_be_held_twice() -> None:
    ours, _ = make_searches({"dropout": 0.5}, fix=["dropout=0.5", "num_layers=3"], depths=[3])
    assert ours.base.dropout == 0.5 and ours.base.num_layers == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fix": ["dropuot=0.5"]}, "unknown setting in --fix 'dropuot': did you mean 'dropout'"),
        ({"fix": ["seed=1"]}, "unknown setting in --fix 'seed'"),
        ({"fix": ["dropout=2"]}, "dropout should be less than 1; got 2"),
        ({"fix": ["order=2,1"]}, "order should be a valid integer"),
        (
            {"fix": [f"{name}=1" for name in ("hidden_channels", "learning_rate", "order")]}
            | {"settings": {"dropout": 0.5, "weight_decay": 0.1}},
            "every setting is held .* so there is nothing to search",
        ),
        (
            {"settings": {"dropout": 0.5}, "fix": ["dropout=0.4"]},
            r"dropout is held at 0\.5 and at 0\.4, by --fix and by another option",
        ),
        ({"fix": ["dropout=0.5", "dropout=0.4"]}, r"dropout is held at 0\.5 and at 0\.4"),
        ({"fix": ["num_layers=3"], "depths": [2]}, "num_layers is held at 3 and at 2"),
        ({"fix": ["num_layers=3"], "depths": [2, 3]}, "num_layers is searched by --num-layers and"),
        (
            {"settings": {"model": "cross-hops", "label_features": "auto"}},
            "label_features is auto, but a search tries both by itself",
        ),
        ({"depths": [0]}, "num_layers should be greater than or equal to 1; got 0"),
    ],
)
def test_plans_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    given = {"settings": {}} | options
    with pytest.raises(BadInput, match=words):
        make_searches(**given)


def test_what_is_both_held_and_searched_is_refused(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text("dropout = [0.1, 0.2]\n")
    with pytest.raises(BadInput, match=r"dropout is searched there and held at 0\.5 by an option"):
        make_searches({"dropout": 0.5}, space_file=space)
    space.write_text("dropuot = [0.1, 0.2]\n")
    with pytest.raises(BadInput, match=r"unknown setting in .*space\.toml 'dropuot'"):
        make_searches({}, space_file=space)


def check(space: Space, *, first_layer_only: bool = False, **settings: Any) -> None:
    search = Search(RunConfig.create(**settings), space)
    check_models(search, first_layer_only=first_layer_only)


@pytest.mark.parametrize("first_layer_only", [False, True])
@pytest.mark.parametrize("model", [name for name in PRESETS if not name.endswith("hops")])
def test_every_preset_can_be_searched_at_several_depths(model: str, first_layer_only: bool) -> None:
    space = {**default_space(model), "num_layers": choices(1, 2, 3)}
    check(space, model=model, first_layer_only=first_layer_only)
    for depth in (1, 2, 3):
        base = RunConfig.create(model=model)
        config = make_config(base, {"num_layers": depth}, first_layer_only=first_layer_only)
        assert len(build_model(model, 4, 2, **config.model_settings()).layers) == depth


@pytest.mark.parametrize(
    ("space", "settings", "words"),
    [
        (
            {"num_layers": choices(2, 1)},
            {"order": (2, 1)},
            r"would try cross-gcn with num_layers 1, .* names 2 layers, but num_layers is 1",
        ),
        (
            {"num_layers": IntDistribution(1, 4)},
            {"order": (2, 1), "model": "cross-grand"},
            "would try cross-grand with num_layers 1, which cannot be made: order=",
        ),
        (
            {"order": choices(3, (2, 1)), "num_layers": choices(2, 3)},
            {},
            r"with num_layers 3 and order \(2, 1\)",
        ),
        (
            {"order": IntDistribution(1, 3)},
            {"order_weights": (1.0, 0.5)},
            "with order 1, which cannot be made: order_weights of a layer of order 1",
        ),
        ({"aggr": choices("gcn", "gacn")}, {}, "with aggr gacn, .*unknown aggregation 'gacn'"),
        ({"hidden_channels": choices(8, 2**62)}, {}, "with hidden_channels 4611686018427387904"),
    ],
)
def test_what_is_no_model_is_named(space: Space, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check(space, **settings)


def test_orders_of_all_layers_fit_the_depth_that_they_name() -> None:
    orders = choices((2, 1), (3, 1), 2)
    check({"num_layers": choices(2), "order": orders})
    with pytest.raises(BadInput, match="num_layers is 3"):
        check({"num_layers": choices(2, 3), "order": orders})
