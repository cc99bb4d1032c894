from __future__ import annotations

import json
from typing import Any

import pytest

from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.reports.summaries import (
    describe_doubts,
    summarise_comparison,
    summarise_training,
)
from crossgcn.training.config import RunConfig

ENVIRONMENT = {"versions": {"torch": "2.13.0"}, "threads": 3, "commit": "abc"}
PROMISED = {"dataset", "splits", "epochs", "seconds", "versions", "threads", "commit"}
PER_MODEL = {"model", "test_accuracy", "mean", "sd"}


def runs_of(accuracies: list[float], **settings: Any) -> RepeatedRuns:
    config = RunConfig.create(num_splits=len(accuracies), epochs=30, **settings)
    records = tuple(
        {
            "split": {"index": split, "train_sha256": f"set {split}"},
            "task": "multiclass",
            "metric": "accuracy",
            "test": {"accuracy": accuracy},
            "validation_score": accuracy + 0.1,
            "best_epoch": 10 + split,
            "order_weights": [[1.0, 0.5 * split]],
            "seconds": 2.0,
            "parameters": 99,
            "environment": ENVIRONMENT,
        }
        for split, accuracy in enumerate(accuracies)
    )
    return RepeatedRuns(config, records)


def test_a_training_carries_all_that_is_promised() -> None:
    summary = summarise_training(runs_of([0.6, 0.7], model="cross-gcn-release", num_layers=1))
    assert summary.keys() >= PROMISED | PER_MODEL
    assert summary["test_accuracy"] == [0.6, 0.7]
    assert (summary["mean"], summary["sd"]) == pytest.approx((0.65, 0.005**0.5))
    assert (summary["threads"], summary["commit"], summary["epochs"]) == (3, "abc", 30)
    assert (summary["seconds"], summary["best_epoch"]) == (4.0, [10, 11])
    assert json.loads(json.dumps(summary)) == summary


def test_the_order_weights_asked_for_and_those_trained_are_both_there() -> None:
    summary = summarise_training(runs_of([0.6, 0.7], order=2, order_weights="learned"))
    assert summary["order_weights"] == "learned"
    assert summary["trained_order_weights"] == [[[1.0, 0.0]], [[1.0, 0.5]]]


def test_a_comparison_pairs_each_model_with_the_baseline_of_its_depth() -> None:
    summary = summarise_comparison(
        [
            runs_of([0.6, 0.8], model="gcn", num_layers=1),
            runs_of([0.61, 0.83], model="cross-gcn", num_layers=1),
            runs_of([0.7, 0.9], model="gcn", num_layers=2),
            runs_of([0.68, 0.86], model="cross-gcn", num_layers=2),
        ],
        "gcn",
    )
    assert summary.keys() >= PROMISED | {"baseline", "models"}
    assert summary["seconds"] == sum(model["seconds"] for model in summary["models"])
    shallow_base, shallow, deep_base, deep = summary["models"]
    for model in summary["models"]:
        assert model.keys() >= PER_MODEL | {"paired_difference", "paired_se", "seconds"}
    assert shallow_base["paired_difference"] is deep_base["paired_se"] is None
    assert (shallow["paired_difference"], shallow["paired_se"]) == pytest.approx((0.02, 0.01))
    assert (deep["paired_difference"], deep["paired_se"]) == pytest.approx((-0.03, 0.01))
    low, high = deep["paired_interval"]
    assert (low + high) / 2 == pytest.approx(-0.03) and low < high


def test_any_of_the_models_may_be_the_baseline() -> None:
    both = [runs_of([0.5, 0.5], model="gcn"), runs_of([0.6, 0.8], model="mlp")]
    summary = summarise_comparison(both, "mlp")
    assert [model["paired_difference"] for model in summary["models"]] == [
        pytest.approx(-0.2),
        None,
    ]


def test_models_are_paired_by_the_metric_that_selects() -> None:
    """Also models of numbers, which have no accuracy."""
    runs = []
    for model, values in (("gcn", [0.5, 0.7]), ("mlp", [0.6, 0.9])):
        of_classes = runs_of(values, model=model, metric="r2")
        records = tuple(
            record | {"task": "regression", "metric": "r2", "test": {"r2": value}}
            for record, value in zip(of_classes.records, values, strict=True)
        )
        runs.append(RepeatedRuns(of_classes.config, records))
    _, mlp = summarise_comparison(runs, "gcn")["models"]
    assert mlp["paired_difference"] == pytest.approx(0.15) and "test_accuracy" not in mlp


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        (
            [0.02, 0.021, 0.019],
            "mlp (2 layers) beats gcn: +2.00 points of accuracy, 95 %",
        ),
        (
            [-0.02, -0.021, -0.019],
            "mlp (2 layers) falls behind gcn: -2.00 points of accuracy",
        ),
        ([0.05, -0.03, 0.04], "mlp (2 layers) cannot be told apart from gcn: +2.00 points"),
        ([0.0, 0.0, 0.0], "mlp (2 layers) cannot be told apart from gcn: +0.00 points"),
    ],
)
def test_the_answer_is_whether_the_interval_holds_zero(gains: list[float], sentence: str) -> None:
    base = [0.5, 0.625, 0.75]
    better = [value + gain for value, gain in zip(base, gains, strict=True)]
    both = [runs_of(base, model="gcn"), runs_of(better, model="mlp")]
    (answer,) = summarise_comparison(both, "gcn")["answer"]
    assert answer.startswith(sentence)


def test_a_single_split_has_no_spread() -> None:
    both = [runs_of([0.5], model="gcn"), runs_of([0.75], model="mlp")]
    summary = summarise_comparison(both, "gcn")
    assert summary["models"][1]["paired_difference"] == 0.25
    assert summary["models"][1]["paired_se"] is summary["models"][1]["sd"] is None
    assert summary["answer"] == []


def test_doubts_name_what_is_no_better_than_guessing_and_a_random_start() -> None:
    sound: dict[str, Any] = {
        "test": {"roc_auc": 0.8, "log_loss": 0.5},
        "constant_test": {"roc_auc": 0.5, "log_loss": 0.6},
        "best_epoch": 3,
        "epochs_from_start": 40,
    }
    assert describe_doubts([sound, sound]) == []
    cold = sound | {"epochs_from_start": 3}
    assert describe_doubts([sound, cold]) == []
    (early,) = describe_doubts([cold, cold, sound])
    assert early.startswith("In 2 of 3 splits the best epoch is among the first 10, close to the")
    poor = sound | {"test": {"roc_auc": 0.49, "log_loss": 0.7}}
    assert " ".join(describe_doubts([poor])) == (
        "The model is no better than guessing (ROC-AUC 0.490, guessing 0.500): do not draw "
        "conclusions from it. The probabilities of the model are no better than guessing "
        "(log loss 0.700, guessing 0.600)."
    )
