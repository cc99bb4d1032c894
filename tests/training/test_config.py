from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from crossgcn.errors import BadInput
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.training.config import RunConfig


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_defaults_are_the_papers_protocol() -> None:
    config = RunConfig.create()
    assert (config.epochs, config.num_splits, config.train) == (500, 20, 20)
    assert (config.learning_rate, config.weight_decay, config.dropout) == (0.01, 5e-4, 0.5)
    assert (config.splits, config.num_layers, config.hidden_channels) == ("random", 2, 32)


def test_a_setting_replaces_the_presets_own() -> None:
    config = RunConfig.create(model="cross-gcn-release", order_weights="gated")
    layer = build_model(config.model, 5, 3, **config.model_settings()).layers[0]
    assert layer.transform.first_order == "release"  # type: ignore[union-attr]
    assert layer.transform.order_aggregation == "gated"  # type: ignore[union-attr]


def test_a_run_is_the_same_whatever_the_number_of_splits() -> None:
    few, many = (RunConfig.create(num_splits=number).identity() for number in (2, 20))
    assert few == many != RunConfig.create(epochs=9).identity()


def test_an_unknown_key_names_the_file_and_the_near_miss(tmp_path: Path) -> None:
    path = written(tmp_path, "epoch = 3\n")
    with pytest.raises(BadInput, match="'epoch': did you mean 'epochs'") as error:
        RunConfig.create(config_file=path)
    assert str(path) in str(error.value)
    with pytest.raises(BadInput, match="'learning-rate': did you mean 'learning_rate'"):
        RunConfig.create(**{"learning-rate": 0.1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        RunConfig.create(config_file=tmp_path / name)


def test_a_configuration_cannot_change_under_a_run() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RunConfig.create().epochs = 3  # type: ignore[misc]


def test_models_on_a_split_share_a_seed_and_nothing_else_does() -> None:
    ours, baseline = RunConfig.create(model="cross-gcn"), RunConfig.create(model="gcn")
    seeds = [ours.run_seed(split) for split in range(20)]
    assert seeds == [baseline.run_seed(split) for split in range(20)]
    assert len(set(seeds)) == 20


def test_what_is_given_is_over_the_file_the_preset_and_the_defaults(tmp_path: Path) -> None:
    suits = PRESETS["cross-hops"].training
    for config in (RunConfig(model="cross-hops"), RunConfig.create(model="cross-hops")):
        assert {name: getattr(config, name) for name in suits} == suits
    assert RunConfig.create(model="cross-hops", defaults={"epochs": 7}).epochs == 7
    assert RunConfig.create(model="cross-hops", epochs=9).epochs == 9
    file = written(tmp_path, 'model = "cross-hops" # π\nepochs = 11\norder = [2]\n')
    config = RunConfig.create(config_file=file, bags=3, dropout=None)
    assert (config.epochs, config.order, config.bags, config.dropout) == (11, (2,), 3, 0.5)
    assert RunConfig.create(config_file=file, epochs=9).epochs == 9
    assert RunConfig().epochs == 500
