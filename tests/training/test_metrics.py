"""Metrics by task, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from crossgcn.errors import BadInput
from crossgcn.training.metrics import (
    check_defined,
    check_metric,
    compute,
    evaluate,
    positive_class,
)


def test_two_classes_by_hand() -> None:
    y = np.array([0, 0, 1, 1])
    margins = np.array([-2.0, 1.0, 0.5, 3.0])
    found = evaluate(y, np.stack([np.zeros(4), margins], axis=1))
    chances = 1 / (1 + np.exp(-margins))
    assert found["accuracy"] == 0.75
    assert found["roc_auc"] == 0.75  # one of four pairs in the wrong order
    assert found["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["balanced_accuracy"] == 0.75
    assert found["f1_macro"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    own = np.where(y == 1, chances, 1 - chances)
    assert found["log_loss"] == pytest.approx(-np.log(own).mean())
    assert found["brier"] == pytest.approx(np.square(chances - y).mean())


def test_auc_of_extreme_margins_does_not_saturate() -> None:
    margins = np.array([100.0, 200.0, 300.0, 400.0])
    found = evaluate(np.array([0, 0, 1, 1]), np.stack([np.zeros(4), margins], axis=1))
    assert found["roc_auc"] == 1.0


def test_several_classes_are_averaged_one_against_the_others() -> None:
    y = np.array([0, 1, 2, 0, 1, 2])
    scores = np.eye(3)[[0, 1, 2, 0, 1, 0]]
    found = evaluate(y, scores)
    assert found["accuracy"] == pytest.approx(5 / 6)
    # Class 2 has one of its two nodes above all others and one tied with all four.
    assert found["roc_auc"] == pytest.approx((7 / 8 + 1 + 3 / 4) / 3)


def test_numbers_by_hand() -> None:
    found = evaluate(np.array([1.0, 2.0, 4.0]), np.array([[1.0], [3.0], [4.0]]))
    assert set(found) == {"r2", "rmse", "mae"}
    assert found["mae"] == pytest.approx(1 / 3)
    assert found["rmse"] == pytest.approx(math.sqrt(1 / 3))
    assert found["r2"] == pytest.approx(1 - 1 / (14 / 3))


def test_a_perfectly_calibrated_and_an_overconfident_prediction() -> None:
    y = np.array([1] * 8 + [0] * 2)
    margin = math.log(0.8 / 0.2)
    calibrated = evaluate(y, np.tile([0.0, margin], (10, 1)))
    assert calibrated["calibration_error"] == pytest.approx(0.0, abs=1e-12)
    overconfident = evaluate(y, np.tile([0.0, 50.0], (10, 1)))
    assert overconfident["calibration_error"] == pytest.approx(0.2)


def test_one_class_alone_has_no_auc_and_infinite_scores_have_no_metric() -> None:
    assert math.isnan(evaluate(np.array([1, 1]), np.zeros((2, 2)))["roc_auc"])
    assert math.isnan(evaluate(np.array([0, 1]), np.array([[0, np.inf], [0, 0]]))["accuracy"])


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("r2", "binary", "'r2' does not fit a target of classes; choose one of accuracy"),
        ("roc_auc", "regression", "does not fit a target of a number; choose one of r2, rmse, mae"),
        ("auc", "binary", "unknown metric 'auc'"),
    ],
)
def test_a_metric_of_another_task_is_refused(name: str, task: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check_metric(name, task)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_roc_auc_is_scikit_learns_with_ties(seed: int) -> None:
    random = np.random.default_rng(seed)
    y, margins = random.integers(2, size=40), random.integers(10, size=40).astype(float)
    found = compute("roc_auc", y, np.stack([np.zeros(40), margins], axis=1))
    assert found == pytest.approx(roc_auc_score(y, margins), abs=1e-12)


def test_validation_nodes_without_a_metric_are_refused() -> None:
    with pytest.raises(BadInput, match=r"'roc_auc' cannot be computed .* all of class 1: give"):
        check_defined("roc_auc", np.array([1, 1, 1]), 2)
    with pytest.raises(BadInput, match=r"'r2' cannot be computed .* fewer than two"):
        check_defined("r2", np.array([4.0]), 1)
    check_defined("accuracy", np.array([1, 1]), 2)


def test_average_precision_is_that_of_the_rarer_class() -> None:
    """Whichever of the two it is."""
    draw = np.random.default_rng(0)
    y = (draw.random(200) < 0.2).astype(int)
    scores = draw.normal(size=(200, 2)) + np.eye(2)[y]
    rare = average_precision_score(y, scores[:, 1] - scores[:, 0])
    assert compute("average_precision", y, scores) == pytest.approx(rare)
    assert compute("average_precision", 1 - y, scores[:, ::-1]) == pytest.approx(rare)
    assert compute("average_precision", y, scores, 0) > rare + 0.2
    assert compute("roc_auc", y, scores, 0) == pytest.approx(compute("roc_auc", y, scores, 1))
    assert (positive_class(y), positive_class(1 - y)) == (1, 0)
    assert positive_class(np.array([0, 1, -1, -1])) == 1
