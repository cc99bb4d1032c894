from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import EXPECTED_FAILURES, Array, circles, scipy_features, small, weights
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.estimator.estimators import CrossGCNClassifier
from crossgcn.graph import PreparedGraph


def test_twenty_labels_a_class_are_enough_for_citeseer() -> None:
    citeseer = load_dataset("citeseer")
    (split,) = make_splits(citeseer, num_splits=1)
    y = np.full(citeseer.num_nodes, -1)
    y[split.train] = citeseer.y[split.train]
    X, edges = scipy_features(citeseer), citeseer.edge_index
    classifier = CrossGCNClassifier().fit(X, y, edges)
    truth = np.full(citeseer.num_nodes, -1)
    truth[split.test] = citeseer.y[split.test]
    with_graph = classifier.score(X, truth, edges)
    assert with_graph > 0.65
    assert with_graph > CrossGCNClassifier().fit(X, y).score(X, truth) + 0.05


def test_the_same_seed_gives_the_same_bytes() -> None:
    X, y, edges = circles()
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    first = small(random_state=1).fit(X, y, edges)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(3)
    assert weights(small(random_state=np.int64(1)).fit(X, y, edges)) == weights(first)
    assert weights(small(random_state=2).fit(X, y, edges)) != weights(first)
    generator = np.random.RandomState(0)
    drawn = small(random_state=generator).fit(X, y, edges)
    assert weights(drawn) != weights(clone(drawn).set_params(random_state=generator).fit(X, y))
    assert weights(small(random_state=None).fit(X, y)) != weights(
        small(random_state=None).fit(X, y)
    )


def test_two_classes_have_two_probabilities_and_one_score() -> None:
    X, y, edges = circles()
    classifier = small().fit(X, y, edges)
    probabilities, scores = (
        classifier.predict_proba(X, edges),
        classifier.decision_function(X, edges),
    )
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-9)
    with torch.no_grad():
        graph = PreparedGraph(torch.from_numpy(X).float(), make_undirected(edges))
        logits = classifier.model_(graph.x, graph.adjacency).numpy()
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], scores, atol=1e-5)


def make_undirected(edges: Array) -> torch.Tensor:
    """Undirected and unique, the slow way."""
    pairs = {(int(a), int(b)) for a, b in edges.T} | {(int(b), int(a)) for a, b in edges.T}
    return torch.tensor(sorted(pairs)).T.contiguous()


def test_a_pipeline_from_a_data_frame() -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "colour": generator.choice(["red", "green"], 300),
            "size": generator.choice(["small", "large"], 300),
            "price": generator.normal(100, 20, 300),
        }
    )
    crossed = (frame["colour"] == "red") == (frame["size"] == "large")
    y = np.where(crossed, "buys", "leaves")
    encode = make_column_transformer(
        (OneHotEncoder(), ["colour", "size"]), (StandardScaler(), ["price"])
    )
    crossed_twice = make_pipeline(encode, CrossGCNClassifier(num_layers=1))
    without = make_pipeline(encode, CrossGCNClassifier(model="gcn", num_layers=1))
    assert cross_val_score(crossed_twice, frame, y, cv=2).min() > 0.95
    assert cross_val_score(without, frame, y, cv=2).max() < 0.7


def test_a_data_frame_with_other_columns_is_refused() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    classifier = small(epochs=2).fit(frame, [0, 1] * 10)
    assert classifier.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[["b", "a"]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "cross-gnc"}, "unknown model 'cross-gnc': did you mean 'cross-gcn'"),
        ({"model": "gcn", "order": 2}, "model 'gcn' has no option 'order'"),
        ({"num_layers": 0}, "num_layers should be greater than or equal to 1; got 0"),
        ({"order": (2, 1, 1)}, "names 3 layers, but num_layers is 2"),
        ({"dropout": 1.0}, "dropout should be less than 1"),
        ({"epochs": 0}, "epochs should be greater"),
        ({"learning_rate": -1}, "learning_rate should be greater than 0"),
        ({"random_state": -1}, "seed should be greater than or equal to 0; got -1"),
        ({"device": "abacus"}, "'abacus'; give 'auto', 'cpu' or 'cuda'"),
        ({"validation_fraction": 1.5}, "validation_fraction is 1.5; give a number between 0 and 1"),
        ({"validation_fraction": 0.01}, "0.01, but the rows cannot be divided .*give another"),
    ],
)
def test_parameters_that_cannot_be_say_what_can(parameters: dict[str, Any], message: str) -> None:
    X, y = load_wine(return_X_y=True)
    with pytest.raises(BadInput, match=message):
        small(**parameters).fit(X[::3], y[::3])


@pytest.mark.parametrize(
    "settings",
    [
        {"num_layers": 3, "aggregate_first": True},
        {"order_weights": "per-unit"},
    ],
    ids=str,
)
def test_a_classifier_takes_every_building_block(settings: dict[str, Any]) -> None:
    X, y, edges = circles()
    fitted = CrossGCNClassifier(epochs=30, **settings).fit(X, y, edges)
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0]
    assert clone(fitted).get_params() == fitted.get_params()


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [small()], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_takes_it_for_one_of_its_own(
    estimator: CrossGCNClassifier, check: Callable[[CrossGCNClassifier], None]
) -> None:
    check(estimator)
    assert vars(estimator) == vars(small()), "the check left its traces"
