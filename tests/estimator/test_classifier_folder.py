from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import Array, scipy_features, small, weights
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.estimator.estimators import CrossGCNClassifier
from crossgcn.training.saved_models import load_model


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2, 5, 9]),
        np.array(["a", "b", "c"]),
        np.array(["a", "b", "c"], dtype=object),
        np.array([0.0, 1.0, 2.0]),
        np.array([False, True, True]),
    ],
)
def test_a_loaded_classifier_predicts_the_same_to_the_last_bit(
    labels: Array, small_graph: Data, tmp_path: Path
) -> None:
    X, edges = scipy_features(small_graph), small_graph.edge_index
    classifier = small(order=(3, 1), learning_rate=np.float64(0.02), random_state=np.int64(4))
    classifier.fit(X, labels[small_graph.y.numpy()], edges)
    classifier.save(tmp_path / "model")
    loaded = CrossGCNClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X, edges), classifier.predict_proba(X, edges))
    predicted = loaded.predict(X, edges)
    assert np.array_equal(predicted, classifier.predict(X, edges))
    assert predicted.dtype == classifier.predict(X, edges).dtype
    assert loaded.get_params() == classifier.get_params()
    assert weights(clone(loaded).fit(X, labels[small_graph.y.numpy()], edges)) == weights(
        classifier
    )
    with torch.no_grad():
        inputs = (small_graph.x, edges)
        assert torch.equal(load_model(tmp_path / "model")(*inputs), classifier.model_(*inputs))


def test_a_loaded_classifier_knows_all_but_its_epochs(small_graph: Data, tmp_path: Path) -> None:
    X, y, edges = scipy_features(small_graph), small_graph.y.numpy(), small_graph.edge_index
    classifier = small(validation_fraction=0.3).fit(X, y, edges)
    classifier.set_params(device="cuda")
    classifier.save(tmp_path / "first")
    loaded = CrossGCNClassifier.load(tmp_path / "first")
    assert loaded.get_params() == classifier.get_params()
    assert loaded.order is None
    before, after = vars(classifier), vars(loaded)
    of_epochs = {"n_iter_", "best_epoch_", "loss_curve_", "validation_scores_", "validation_rows_"}
    of_columns = {"columns_", "columns_path_"}
    assert before.keys() - of_epochs - of_columns == after.keys()
    np.testing.assert_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    for name in after.keys() - {"model_", "graph_"}:
        np.testing.assert_equal(after[name], before[name])
        assert type(after[name]) is type(before[name])
    loaded.save(tmp_path / "second")
    for name in ("config.json", "model.safetensors", "preprocess.json"):
        first, second = (tmp_path / folder / name for folder in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
    deeper = {"num_layers": 3, "device": "cpu"}
    refitted = loaded.set_params(**deeper).fit(X, y, edges)
    assert weights(refitted) == weights(classifier.set_params(**deeper).fit(X, y, edges))


def test_parameters_changed_since_the_fit_leave_the_saved_model_alone(
    small_graph: Data, tmp_path: Path
) -> None:
    X, y = scipy_features(small_graph), small_graph.y.numpy()
    classifier = small(epochs=2).fit(X, y)
    order_weights = np.array([1.0, 0.5])
    changed = {"model": "cross-gcn-paper", "order": [2, 2], "order_weights": order_weights}
    classifier.set_params(**changed).save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert (loaded.model, loaded.preset_, loaded.settings_["order"]) == (
        "cross-gcn-paper",
        "cross-gcn",
        [2, 1],
    )
    assert (loaded.order, loaded.order_weights) == ((2, 2), (1.0, 0.5))


class _Warmer(CrossGCNClassifier):
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {**super().get_params(deep), "colour": 1.0}


def test_a_parameter_of_another_class_or_version_is_named(
    small_graph: Data, tmp_path: Path
) -> None:
    X, y = scipy_features(small_graph), small_graph.y.numpy()
    _Warmer(epochs=1).fit(X, y).save(tmp_path)
    with pytest.raises(BadInput, match="is not a classifier that this version"):
        CrossGCNClassifier.load(tmp_path)


@pytest.mark.parametrize("model", ["gcn", "gin", "mlp", "cross-gcn-paper"])
def test_every_model_of_features_is_a_classifier_that_can_be_saved(
    model: str, small_graph: Data, tmp_path: Path
) -> None:
    X, y, edges = scipy_features(small_graph), small_graph.y.numpy(), small_graph.edge_index
    classifier = small(model=model, bias=None, epochs=100).fit(X, y, edges)
    classifier.save(str(tmp_path))
    loaded = CrossGCNClassifier.load(str(tmp_path))
    assert loaded.n_features_in_ == 24
    assert np.array_equal(loaded.predict_proba(X, edges), classifier.predict_proba(X, edges))
    assert classifier.score(X, y, edges) > 0.8
    assert weights(small(model=model).fit(X, y)) != weights(classifier)


def test_names_of_columns_are_saved(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "=cmd()"])
    classifier = small(epochs=2, random_state=np.random.RandomState(0)).fit(frame, [0, 1] * 10)
    classifier.save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(frame), classifier.predict_proba(frame))
    assert json.loads((tmp_path / "preprocess.json").read_bytes())["feature_names"] == [
        "a",
        "=cmd()",
    ]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["=cmd()", "a"]])


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
