from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from architectures import one_thread  # noqa: F401
from classifier_cases import EXPECTED_FAILURES, Array, circles, small, weights
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor
from crossgcn.training.saved_models import load_model


def regressor(**parameters: Any) -> CrossGCNRegressor:
    return CrossGCNRegressor(
        **{"hidden_channels": 8, "epochs": 60, "learning_rate": 0.05} | parameters
    )


def prices() -> tuple[Array, Array]:
    """A product of two features, far from zero and in a unit of its own."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    return X, 50_000 + 2_000 * X[:, 0] * X[:, 1]


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_crosses_of_features_are_predicted_in_the_unit_of_the_target(model: str) -> None:
    X, y = prices()
    train, test = np.arange(200), np.arange(200, 300)
    fitted = regressor(model=model, num_layers=1, dropout=0.0).fit(X[train], y[train])
    predicted = fitted.predict(X[test])
    assert abs(predicted.mean() - 50_000) < 1_000
    assert fitted.score(X[test], y[test]) == pytest.approx(r2_score(y[test], predicted))
    assert fitted.score(X[test], y[test]) > 0.5
    assert Ridge().fit(X[train], y[train]).score(X[test], y[test]) < 0.2


def test_rows_without_a_target_are_part_of_the_graph_only() -> None:
    X, _, edges = circles()
    y = X[:, 0] * 3 + 7
    hidden = np.where(np.arange(200) % 4 == 0, np.nan, y)
    fitted = regressor(epochs=10).fit(X, hidden, edges)
    other = hidden.copy()
    assert weights(regressor(epochs=10).fit(X, other, edges)) == weights(fitted)
    assert weights(regressor(epochs=10).fit(X, y, edges)) != weights(fitted)
    known = ~np.isnan(hidden)
    assert fitted.score(X, hidden, edges) == pytest.approx(
        r2_score(y[known], fitted.predict(X, edges)[known])
    )
    with pytest.raises(BadInput, match="the target is unknown in all rows"):
        regressor().fit(X, np.full(200, np.nan))
    with pytest.raises(BadInput, match="the target is unknown in all rows"):
        fitted.score(X, np.full(200, np.nan), edges)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_a_loaded_regressor_predicts_the_same_to_the_last_bit(model: str, tmp_path: Path) -> None:
    X, _, edges = circles()
    y = X[:, 0] * 3 + 7
    fitted = regressor(model=model, epochs=5, validation_fraction=0.2).fit(X, y, edges)
    fitted.save(tmp_path)
    loaded = CrossGCNRegressor.load(tmp_path)
    assert np.array_equal(loaded.predict(X, edges), fitted.predict(X, edges))
    assert loaded.get_params() == fitted.get_params()
    assert weights(clone(loaded).fit(X, y, edges)) == weights(fitted)
    assert load_model(tmp_path).target_scale is not None
    with pytest.raises(BadInput, match=r"is not a classifier .*and a regressor with"):
        CrossGCNClassifier.load(tmp_path)
    small(epochs=1).fit(X, y > 7).save(tmp_path)
    with pytest.raises(BadInput, match="is not a regressor that this version"):
        CrossGCNRegressor.load(tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"metric": "roc_auc"}, "metric 'roc_auc' does not fit a target of a number"),
        ({"metric": "r3"}, "metric 'r3'"),
        ({"metric": "mae", "validation_fraction": None}, "metric is 'mae', but no rows are held"),
        ({"patience": 3, "validation_fraction": None}, "patience is 3, but no rows are held out"),
    ],
)
def test_parameters_that_have_no_meaning_are_refused(
    parameters: dict[str, Any], message: str
) -> None:
    X, y = prices()
    with pytest.raises(BadInput, match=message):
        regressor(**{"validation_fraction": 0.2} | parameters).fit(X, y)


def test_patience_and_metric_decide_when_training_ends() -> None:
    X, y = prices()
    y = np.random.default_rng(1).permutation(y)  # nothing to learn
    fitted = regressor(validation_fraction=0.3, patience=4, metric="mae").fit(X, y)
    assert fitted.n_iter_ == fitted.best_epoch_ + 4 < 60
    assert fitted.validation_scores_ is not None
    assert fitted.best_epoch_ == 1 + np.argmin(fitted.validation_scores_)
    assert min(fitted.validation_scores_) > 0


def test_a_grid_search_scores_by_the_square_of_r() -> None:
    X, y = prices()
    pipeline = make_pipeline(StandardScaler(), regressor(num_layers=1, dropout=0.0))
    search = GridSearchCV(pipeline, {"crossgcnregressor__order": [1, 2]}, cv=3).fit(X, y)
    assert search.best_params_ == {"crossgcnregressor__order": 2}
    assert search.best_score_ > 0.5


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        regressor(epochs=20, learning_rate=0.1),
        regressor(model="cross-hops", bags=2, epochs=10, learning_rate=0.1),
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_takes_it_for_a_regressor(
    estimator: CrossGCNRegressor, check: Callable[[CrossGCNRegressor], None]
) -> None:
    check(estimator)
