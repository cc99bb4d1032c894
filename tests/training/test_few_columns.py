from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace, Preprocess
from crossgcn.data.splits import Split, make_splits
from crossgcn.errors import BadInput
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training import few_columns
from crossgcn.training.config import RunConfig
from crossgcn.training.loop import TrainedModel
from crossgcn.training.metrics import evaluate
from crossgcn.training.objective import compute_loss
from crossgcn.training.trainer import Run, Trainer
from crossgcn.training.trials import list_trials

NAMES = ("own", "other", *(f"noise {number}" for number in range(6)))


def planted(num_nodes: int = 600, *, number: bool = False) -> Data:
    """A ring whose target is own times a neighbour's mean, beside six columns of noise."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(num_nodes, len(NAMES), generator=draw)
    group = torch.randn(num_nodes // 10, generator=draw).repeat_interleave(10)
    x[:, 1] = group + 0.1 * x[:, 1]
    start = torch.arange(num_nodes)
    end = start // 10 * 10 + (start + 1) % 10
    y = x[:, 0] * group + 0.1 * torch.randn(num_nodes, generator=draw)
    return Data(
        x=x,
        edge_index=torch.stack([torch.cat([start, end]), torch.cat([end, start])]),
        y=y if number else (y > 0).long(),
        num_classes=1 if number else 2,
        name="planted",
    )


def search(
    data: Data,
    split: Split | None = None,
    seed: int = 0,
    names: Sequence[str] = NAMES,
    **settings: Any,
) -> tuple[TrainedModel, CrossHops, Trainer]:
    given = {"label_features": False, "bags": 2, "epochs": 30, "patience": 10, "batch_size": 128}
    config = RunConfig.create(
        model="cross-hops",
        **{**given, "dropout": 0.0, "learning_rate": 0.02, "seed": seed, **settings},
    )
    split = split or make_splits(data, "stratified", num_splits=1)[0]
    space = FeatureSpace.named(names)
    trainer = Trainer(data, [split], preprocess=Preprocess(("no", "yes"), space))
    run = Run(config, 0)
    model = trainer.build(run)
    assert isinstance(model, CrossHops)
    return trainer.fit(run, model), model, trainer


@pytest.mark.parametrize("number", [False, True])
def test_the_columns_that_make_the_target_are_kept(number: bool) -> None:
    result, model, _ = search(planted(number=number), columns=4)
    kept = result.chosen["columns"]
    assert len(kept) == 4 and "own" in kept
    assert {"other", "neighbours: other", "2 hops: other"} & set(kept)
    assert [size for size, _ in result.chosen["path"]] == [25, 16, 12, 8, 6, 4]
    read = model.transform.weight.detach().abs().sum((0, 1)) > 0
    names = model.plan.name_columns(NAMES)
    assert {name for name, is_read in zip(names, read, strict=True) if is_read} == set(kept)


def test_auto_takes_few_columns_that_score_as_well_as_all() -> None:
    data = planted()
    few, _, _ = search(data, columns="auto", metric="roc_auc")
    every, _, _ = search(data, metric="roc_auc")
    assert few.test is not None and every.test is not None
    assert len(few.chosen["columns"]) <= 16
    assert few.test["roc_auc"] > every.test["roc_auc"] - 0.01


def test_neighbours_that_say_nothing_are_dropped_at_once() -> None:
    data = planted(400)
    draw = torch.Generator().manual_seed(0)
    data.edge_index = torch.randint(400, (2, 1600), generator=draw)
    data.y = (data.x[:, 0] + data.x[:, 1] > 0).long()
    result, _, _ = search(data, columns="auto", metric="roc_auc")
    assert set(result.chosen["columns"]) <= set(NAMES)
    assert result.chosen["path"][0][0] == len(NAMES)


def test_crosses_that_do_not_pay_among_many_columns_are_tried_again_among_few() -> None:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(240, 30, generator=draw)
    y = x[:, 0] + x[:, 1] + 0.8 * x[:, 0] * x[:, 1] + 0.7 * torch.randn(240, generator=draw)
    data = Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long), y=y, num_classes=1, name="few")
    names = [f"column {number}" for number in range(30)]
    result, _, _ = search(data, names=names, columns="auto", hops=0, metric="r2")
    assert {"column 0", "column 1"} <= set(result.chosen["columns"])
    assert result.chosen["settings"]["order"] == 2
    assert result.test is not None
    assert result.test["r2"] > 0.7


def test_a_model_without_crosses_takes_its_place_in_one_with_them() -> None:
    _, model, trainer = search(planted(100))
    x = trainer.hop_rows(model, trainer.splits[0]).rows(torch.arange(20))
    kept = torch.arange(x.shape[1]) % 3 > 0
    linear = model.narrow(kept, order=1)
    model.widen(linear, kept)
    assert isinstance(x, Tensor)
    torch.testing.assert_close(model.eval()(x), linear.eval()(x[:, kept]))


def test_the_weight_of_a_column_is_the_loss_without_it() -> None:
    """Against replacing the values of each column by their mean, one after the other."""
    data = planted(200)
    _, model, trainer = search(data)
    split = trainer.splits[0]
    x = trainer.hop_rows(model, split).rows(split.train)
    labels = data.y[split.train]
    assert isinstance(x, Tensor)
    places = [torch.tensor([0, 3]), torch.tensor([9])]
    found = few_columns._losses_without(model, x, labels, places)
    model.eval()
    for place, loss in zip(places, found, strict=True):
        without = x.clone()
        without[:, place] = x[:, place].mean(dim=0)
        expected, *_ = compute_loss(model(without).detach(), labels, len(labels))
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


def test_the_whole_model_scores_as_the_one_that_reads_few_columns() -> None:
    data = planted(200)
    result, model, trainer = search(data, columns=3, metric="roc_auc", tuning=2)
    test = trainer.splits[0].test
    model.eval()
    scores = model(trainer.hop_rows(model, trainer.splits[0]).rows(test))
    expected = evaluate(data.y[test].numpy(), scores.detach().double().numpy())
    assert result.test is not None
    assert result.test["roc_auc"] == pytest.approx(expected["roc_auc"])
    assert result.test["log_loss"] == pytest.approx(expected["log_loss"], abs=1e-5)


def test_the_same_seed_gives_the_same_bytes_and_test_labels_change_only_test_scores() -> None:
    data = planted(200)
    split = make_splits(data, "stratified", num_splits=1)[0]
    other = data.clone()
    other.y[split.test] = 1 - other.y[split.test]
    results = [search(each, split, columns="auto", tuning=2)[0] for each in (data, data, other)]
    for result in results[1:]:
        assert result.chosen == results[0].chosen
        for name, weight in result.state.items():
            assert torch.equal(weight, results[0].state[name])
    assert results[2].test != results[0].test


def test_calibration_keeps_ranks_and_lowers_the_log_loss_of_the_validation_nodes() -> None:
    data = planted(300)
    config: dict[str, Any] = {"columns": "all", "metric": "roc_auc", "learning_rate": 0.1}
    plain, model, trainer = search(data, **config)
    chosen, calibrated, _ = search(data, **config, tuning=1)
    calibration, test = chosen.chosen["calibration"], chosen.test
    assert set(calibration) == {"scale", "shift", "before"} and test is not None
    assert set(calibration["before"]) == {"calibration_error", "log_loss", "brier"}
    assert calibration["before"]["log_loss"] != test["log_loss"]
    split = trainer.splits[0]
    nodes = split.validation
    tests = [
        evaluate(
            data.y[nodes].numpy(),
            each.eval()(trainer.hop_rows(each, split).rows(nodes)).detach().double().numpy(),
        )
        for each in (model, calibrated)
    ]
    assert plain.validation_score != 0
    assert tests[1]["log_loss"] < np.log(2)


def test_weights_of_classes_are_not_calibrated_away() -> None:
    data = planted(200)
    weighted, _, _ = search(data, tuning=1, class_weight=(1.0, 20.0))
    assert "calibration" not in weighted.chosen
    assert "calibration" in search(data, tuning=1)[0].chosen


def test_a_trial_is_a_training_with_its_settings() -> None:
    """The helper trains without dropout; the first trial of this table has some."""
    data = planted(300)
    tried, _, _ = search(data, tuning=1)
    assert tried.chosen["settings"] == {
        "dropout": 0.1,
        "weight_decay": 0.01,
        "order": 2,
        "hidden_channels": 8,
    }
    plain, _, _ = search(data, dropout=0.1, weight_decay=0.01)
    assert tried.history == plain.history


def test_wide_tables_start_small_and_others_without_penalty() -> None:
    config = RunConfig.create(model="cross-hops", tuning=2)
    narrow, wide = (list_trials(config, 1000, columns) for columns in (50, 500))
    assert {"dropout": 0.0, "weight_decay": 0.0} in narrow
    assert any("initial_scale" in trial for trial in wide)
    assert list_trials(RunConfig.create(model="cross-hops"), 1000, 50) == ({},)


def test_what_cannot_be_chosen_is_refused() -> None:
    data = planted(100)
    with pytest.raises(BadInput, match="columns is 0; give at least 1, auto or all"):
        search(data, columns=0)
    split = make_splits(data, "stratified", num_splits=1)[0]
    unsure = Split(split.train, split.validation[:0], split.test)
    with pytest.raises(BadInput, match="columns is 'auto', but there are no validation nodes"):
        search(data, unsure, columns="auto")
    with pytest.raises(BadInput, match="tuning is 2, but there are no validation nodes"):
        search(data, unsure, columns=3, tuning=2)
    with pytest.raises(BadInput, match="columns is 3, which is for cross-hops; leave it"):
        RunConfig.create(model="gcn", columns=3)
