from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import EXPECTED_FAILURES, Array, circles, small, weights
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor, CrossHops
from crossgcn.graph.neighbourhood import neighbour_labels


def hops(**parameters: Any) -> CrossGCNClassifier:
    defaults: dict[str, Any] = {
        "model": "cross-hops",
        "hidden_channels": 4,
        "epochs": 30,
        "bags": 2,
    }
    defaults |= {"learning_rate": 0.05}
    return CrossGCNClassifier(**defaults | parameters)


@pytest.mark.parametrize("sparse", [False, True])
def test_training_labels_are_shown_to_the_rows_of_the_fit(sparse: bool) -> None:
    X, y, edges = circles()
    hidden = np.where(np.arange(200) % 3 == 0, -1, y)
    features: Any = sp.csr_array(X) if sparse else X
    fitted = hops().fit(features, hidden, edges)
    assert isinstance(fitted.model_, CrossHops)
    both = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    codes = torch.from_numpy(hidden)
    labels = neighbour_labels(codes, torch.nonzero(codes >= 0).flatten(), 2)
    with torch.no_grad():
        scores = fitted.model_(
            torch.from_numpy(X).float(), torch.from_numpy(both), labels=labels
        ).softmax(dim=1)
    np.testing.assert_allclose(fitted.predict_proba(X, edges), scores, atol=1e-5)
    order = np.random.default_rng(0).permutation(200)
    shuffled = fitted.predict_proba(features[order], edges, node_index=order)
    np.testing.assert_allclose(shuffled, fitted.predict_proba(X, edges)[order], rtol=1e-9)
    assert fitted.score(X, y, edges) > 0.9


def test_rows_that_are_not_known_again_are_predicted_without_labels() -> None:
    X, y, edges = circles()
    fitted = hops().fit(X, y, edges)
    with pytest.warns(UserWarning, match="no row of X is known"):
        shifted = fitted.predict_proba(X[::-1], edges)
    with pytest.warns(UserWarning, match="no row of X is known"):
        changed = fitted.predict_proba(X + 1, edges, node_index=np.arange(200))
    assert not np.allclose(shifted[::-1], fitted.predict_proba(X, edges), atol=1e-3)
    assert np.isfinite(changed).all()
    blind = hops(label_features=False).fit(X, y, edges)
    blind.predict(X[::-1], edges)  # a warning would be an error


def test_new_rows_beside_those_of_the_fit_see_their_labels() -> None:
    X, y, edges = circles()
    old = np.arange(150)
    fitted = hops().fit(X[old], y[old], edges, node_index=old)
    together = fitted.predict(X, edges, node_index=np.arange(200))
    assert (together == y)[150:].mean() > 0.9


def test_a_loaded_classifier_knows_its_training_rows(tmp_path: Path) -> None:
    X, y, edges = circles()
    fitted = hops(class_weight={0: 2.0, 1: 0.5}, patience=5, validation_fraction=0.2)
    fitted.fit(X, y, edges)
    fitted.save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(X, edges), fitted.predict_proba(X, edges))
    assert loaded.get_params() == fitted.get_params()
    assert weights(clone(loaded).fit(X, y, edges)) == weights(fitted)
    graph = tmp_path / "fitted_graph.npz"
    graph.write_bytes(graph.read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"fitted_graph\.npz: is not what was written there"):
        CrossGCNClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bias": False}, "no option 'bias'"),
        ({"num_layers": 3}, "CrossHops has one layer; got num_layers=3"),
        ({"bags": 0}, "bags should be greater than or equal to 1"),
        ({"hops": -1}, "hops should be greater than or equal to 0"),
        ({"model": "cross-gcn"}, "no option 'bags'"),
    ],
)
def test_settings_of_other_models_are_refused(parameters: dict[str, Any], message: str) -> None:
    X, y, _ = circles()
    with pytest.raises(BadInput, match=message):
        hops(**parameters).fit(X, y)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_class_weights_lift_the_rare_class(model: str) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = (X[:, 0] + np.random.default_rng(1).normal(size=300) > 1.8).astype(int)
    names: Array = np.array(["common", "rare"])[y]

    def share(class_weight: Any) -> float:
        fitted = small(model=model, class_weight=class_weight, learning_rate=0.05).fit(X, names)
        return float((fitted.predict(X) == "rare").mean())

    balanced = share("balanced")
    assert balanced > share(None) + 0.1
    by_hand = {label: 300 / (2 * (names == label).sum()) for label in ("common", "rare")}
    assert share(by_hand) == balanced
    assert share({"common": 1e-4, "rare": 1e3}) > 0.8
    with pytest.raises(ValueError, match="are not in class_weight"):
        share({"Rare": 2.0})


def wide_circles() -> tuple[pd.DataFrame, Array, Array]:
    """Circles of friends whose first feature and its mean over friends tell, beside noise."""
    X, y, edges = circles()
    noise = np.random.default_rng(1).normal(size=(200, 6))
    names = ["signal", *(f"noise {number}" for number in range(9))]
    return pd.DataFrame(np.hstack([X, noise]), columns=names), y, edges


def test_few_columns_are_chosen_and_named() -> None:
    X, y, edges = wide_circles()
    fitted = hops(columns=3, label_features=False).fit(X, y, edges)
    assert fitted.columns_ is not None and len(fitted.columns_) == 3
    assert {"neighbours: signal", "2 hops: signal"} & set(fitted.columns_)
    assert fitted.columns_path_ is not None
    assert [size for size, _ in fitted.columns_path_] == [31, 24, 16, 12, 8, 6, 4, 3]
    auto = hops(columns="auto", tuning=2, learning_rate=None, validation_fraction=0.3)
    auto.fit(X, y, edges)
    assert auto.columns_ is not None and 0 < len(auto.columns_) <= 16
    assert auto.score(X, y, edges) > 0.85
    again = clone(auto).fit(X, y, edges)
    assert (again.columns_, weights(again)) == (auto.columns_, weights(auto))
    every = hops(columns="all").fit(X, y, edges)
    assert every.columns_ is None and every.columns_path_ is None
    assert weights(every) == weights(hops().fit(X, y, edges))


def test_columns_of_an_array_are_numbered_and_a_regressor_chooses_them() -> None:
    X, _, edges = wide_circles()
    target = 3 * X["signal"] + X["noise 4"]
    fitted = CrossGCNRegressor(
        model="cross-hops", columns="auto", tuning=2, bags=2, epochs=60, validation_fraction=0.3
    )
    fitted.fit(X.to_numpy(), target, edges)
    assert fitted.columns_ is not None and "x0" in fitted.columns_[:2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": 0}, "columns is 0; give at least 1, auto or all"),
        ({"columns": "few"}, "columns cannot be 'few'"),
        ({"columns": True}, "columns cannot be True"),
        (
            {"columns": 5},
            "columns is 5, but there are 4, those of neighbours included; give at mos",
        ),
        ({"columns": "auto"}, "columns is 'auto', but no rows are held out; give validation_fract"),
        ({"tuning": 2}, "tuning is 2, but no rows are held out; give validation_fraction"),
        ({"tuning": 5}, "tuning is 5, but no rows are held out"),
        ({"tuning": 1}, "learning_rate is 0.05, but tuning chooses it; leave out tuning or learn"),
        ({"model": "gcn", "columns": 2, "bags": None}, "columns is 2, which is for cross-hops"),
    ],
)
def test_choices_that_cannot_be_made(parameters: dict[str, Any], message: str) -> None:
    X, y, _ = circles()
    with pytest.raises(BadInput, match=message):
        hops(**parameters).fit(X, y)


def test_a_fit_without_edges_reads_own_columns_alone() -> None:
    X, y, edges = circles()
    fitted = hops(hops=2).fit(X, y)
    assert isinstance(fitted.model_, CrossHops)
    assert fitted.model_.plan.hops == 0 and fitted.settings_["hops"] == 0
    assert fitted.model_.plan.num_columns == X.shape[1]
    with pytest.raises(BadInput, match="fitted without edges and has no use for any"):
        fitted.predict(X, edges)


CHOOSING = hops(columns="auto", tuning=2, learning_rate=None, epochs=None, validation_fraction=0.3)
SELECTED_WITHOUT_WEIGHTS = {
    "check_class_weight_classifiers": "the held-out rows, which have no weights, select the epoch"
}


def expected_failures(estimator: CrossGCNClassifier) -> dict[str, str]:
    more = SELECTED_WITHOUT_WEIGHTS if estimator.validation_fraction else {}
    return EXPECTED_FAILURES | more


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [hops(), CHOOSING], expected_failed_checks=expected_failures
)
def test_scikit_learn_takes_it_for_a_classifier(
    estimator: CrossGCNClassifier, check: Callable[[CrossGCNClassifier], None]
) -> None:
    check(estimator)
