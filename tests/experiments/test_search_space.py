from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from optuna.distributions import FloatDistribution, IntDistribution

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import (
    CROSS_SETTINGS,
    TWINS,
    Space,
    check_space,
    choices,
    contains,
    default_space,
    default_values,
    describe,
    extremes,
    make_config,
    parse_setting,
    read_space,
    tunable_settings,
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
        config = make_config(base, {name: extremes(entry)[corner] for name, entry in space.items()})
        with torch.device("meta"):
            build_model(model, 5, 3, **config.model_settings())


@pytest.mark.parametrize("model", PRESETS)
def test_a_models_defaults_are_in_its_own_space(model: str) -> None:
    base, space = RunConfig.create(model=model), default_space(model)
    values = default_values(base, space)
    assert values.keys() == space.keys()
    assert all(contains(space[name], value) for name, value in values.items())
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


@pytest.mark.parametrize(("model", "twin"), TWINS.items())
def test_a_twin_searches_what_its_model_does_but_the_crosses(model: str, twin: str) -> None:
    ours, plain = default_space(model), without_crosses(default_space(model), twin)
    assert ours.keys() - plain.keys() == {"order"}
    assert not plain.keys() & CROSS_SETTINGS
    assert all(plain[name] == ours[name] for name in plain)
    assert list(ours)[: len(plain)] == list(plain)
    check_space(plain, RunConfig(model=twin))


def test_twins_do_not_cross_and_models_without_crosses_have_none() -> None:
    for model, twin in TWINS.items():
        assert "order" in PRESETS[model].options
        assert twin == model == "cross-hops" or "order" not in PRESETS[twin].options
    assert not {"gcn", "mlp", "gin"} & TWINS.keys()
    assert {"order", "order_weights", "first_order", "transform", "scaling"} == CROSS_SETTINGS


def test_data_splits_and_seeds_are_not_to_be_tuned() -> None:
    settings = tunable_settings("gcn")
    assert not {"dataset", "splits", "num_splits", "train", "seed", "model"} & set(settings)
    assert {"epochs", "num_layers", "dropout", "bias"} <= set(settings)
    assert "order" not in settings and "order" in tunable_settings("cross-gcn")


@pytest.mark.parametrize(
    ("space", "fragments"),
    [
        (
            {"dropuot": FloatDistribution(0, 0.5)},
            ("unknown setting in mine 'dropuot'", "mean 'dropout'"),
        ),
        ({"seed": choices(1, 2)}, ("unknown setting in mine 'seed'", "known are num_layers")),
        (
            {"laplacian_weight": choices(1.0)},
            ("unknown setting in mine 'laplacian_weight'",),
        ),
        (
            {"dropout": FloatDistribution(0, 1.5)},
            ("mine: dropout should be less than 1",),
        ),
        ({"hidden_channels": choices(16, 0)}, ("mine: hidden_channels should be", "got 0")),
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
    assert describe(FloatDistribution(1e-4, 5e-3, log=True)) == "0.0001 to 0.005, by factors"
    assert describe(choices(16, (2, 1))) == "16, (2, 1)"


def test_a_space_knows_its_values() -> None:
    whole = IntDistribution(0, 2)
    assert [contains(whole, value) for value in (2, 3, True, "1")] == [True, False, False, False]
    assert contains(choices("a", (2, 1)), (2, 1)) and not contains(choices("a"), "b")


def written(folder: Path, text: str) -> Path:
    path = folder / "space.toml"
    path.write_text(text)
    return path


def test_choices_and_ranges_are_read_as_written(tmp_path: Path) -> None:
    text = """
    hidden_channels = [16, 32]
    dropout = { low = 0, high = 0.8 }
    weight_decay = { low = 1e-5, high = 1e-2, log = true }
    epochs = { low = 100, high = 400 }
    order = [[2, 1], 2]
    order_weights = ["gated", "learned"]
    """
    assert read_space(written(tmp_path, text)) == {
        "hidden_channels": choices(16, 32),
        "dropout": FloatDistribution(0, 0.8),
        "weight_decay": FloatDistribution(1e-5, 1e-2, log=True),
        "epochs": IntDistribution(100, 400),
        "order": choices((2, 1), 2),
        "order_weights": choices("gated", "learned"),
    }


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("dropout = ", "is not valid TOML"),
        ("", "names no setting; write choices as"),
        ("dropout = 0.5", "dropout = 0.5 is neither choices nor a range"),
        ("dropout = []", "dropout = [] is neither choices nor a range"),
        ("dropout = { low = 0.1 }", "is neither choices nor a range"),
        ("dropout = { low = 0.1, high = 0.2, step = 0.1 }", "is neither choices nor a range"),
        ("dropout = { low = 0.5, high = 0.2 }", "is no range: low is a number and at most high"),
        ("dropout = { low = 'a', high = 0.2 }", "is no range"),
        ("dropout = { low = true, high = 2 }", "is no range"),
        ("dropout = { low = nan, high = 0.2 }", "is no range"),
        ("dropout = { low = 0, high = 0.2, log = true }", "above 0 where log is true"),
        ("dropout = { low = 0.1, high = 0.2, log = 1 }", "is no range"),
        ("epochs = { low = 1.5, high = 3 }", "epochs is a whole number; its range is 1.5 to 3"),
        ("first_order = { low = 1, high = 3 }", "first_order is no number and has no range"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, fragment: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        read_space(path)
    assert str(caught.value).startswith(f"{path}: ") and fragment in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no\.toml: cannot be read"):
        read_space(tmp_path / "no.toml")


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("dropout=0.5", ("dropout", 0.5)),
        ("hidden-channels = 16", ("hidden_channels", 16)),
        ("order=[2, 1]", ("order", (2, 1))),
        ("bias=true", ("bias", True)),
        ("order_weights=gated", ("order_weights", "gated")),
        ("aggr='a=b'", ("aggr", "a=b")),
    ],
)
def test_a_setting_is_read_as_toml_and_a_word_as_itself(
    text: str, setting: tuple[str, Any]
) -> None:
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["dropout", "=1", "dropout=", " = "])
def test_half_a_setting_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--fix takes NAME=VALUE, such as"):
        parse_setting(text)
