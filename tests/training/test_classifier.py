from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from architectures import one_thread  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch_geometric.data import Data

from crossgcn.data.archive import save_graph
from crossgcn.data.datasets import load_dataset
from crossgcn.data.shop import make_shop
from crossgcn.data.splits import Split, make_splits
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.evaluation.predictions import class_scores
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.models.registry import build_model
from crossgcn.models.stack import Stack
from crossgcn.training.checkpoints import load_model, load_saved, save_model
from crossgcn.training.classifier import CrossGCNClassifier
from crossgcn.training.classifier_edges import read_edges
from crossgcn.training.classifier_fit import hold_out
from crossgcn.training.classifier_labels import encode_labels
from crossgcn.training.full_batch import train_full_batch

Array = np.ndarray[Any, Any]


@parametrize_with_checks([CrossGCNClassifier()])  # type: ignore[untyped-decorator]
def test_scikit_learn_takes_it_for_one_of_its_own(
    estimator: CrossGCNClassifier, check: Callable[[CrossGCNClassifier], None]
) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def citeseer() -> Data:
    return load_dataset("citeseer")


@pytest.fixture
def circles() -> tuple[Array, Array, Array]:
    """Two circles of a hundred friends each, which features hint at and friendships tell."""
    generator = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = generator.normal(size=(200, 4))
    X[:, 0] += 0.5 * (2 * y - 1)
    ends = generator.integers(100, size=(2, 6000)) * 2 + generator.integers(2, size=6000)
    return X, y, ends


def small(**parameters: Any) -> CrossGCNClassifier:
    return CrossGCNClassifier(**{"hidden_channels": 8, "epochs": 30} | parameters)


def scipy_features(data: Data) -> Any:
    return SparseMatrix.from_torch(data.x).to_scipy()


def weights(classifier: CrossGCNClassifier) -> bytes:
    return b"".join(value.numpy().tobytes() for value in classifier.model_.state_dict().values())


# What it learns


def test_twenty_labels_a_class_are_enough_for_citeseer(citeseer: Data) -> None:
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


@pytest.mark.parametrize("model", ["cross-gcn", "gin"])
def test_with_rows_held_out_it_is_trained_as_every_model_here(
    small_graph: Data, model: str
) -> None:
    classifier = small(model=model, validation_fraction=0.3, dropout=0.4, random_state=3)
    classifier.fit(scipy_features(small_graph), small_graph.y.numpy(), small_graph.edge_index)
    train, validation = hold_out(small_graph.y, 0.3, 3)
    torch.manual_seed(3)
    order = (2, 1) if model == "cross-gcn" else None
    twin = build_model(model, 24, 3, hidden_channels=8, dropout=0.4, bias=True, order=order)
    result = train_full_batch(
        twin,
        PreparedGraph(small_graph.x, small_graph.edge_index),
        small_graph.y,
        Split(train, validation, validation),
        seed=3,
        epochs=30,
    )
    assert all(map(torch.equal, classifier.model_.state_dict().values(), result.state.values()))
    assert classifier.best_epoch_ == result.best_epoch
    assert classifier.loss_curve_ == [epoch.train_loss for epoch in result.history]
    assert classifier.validation_scores_ == [e.validation_accuracy for e in result.history]
    assert classifier.validation_rows_ is not None
    assert classifier.validation_rows_.tolist() == validation.tolist()


@pytest.mark.parametrize("model", ["cross-gcn", "gin"])
def test_without_them_it_takes_the_same_steps_to_the_end(small_graph: Data, model: str) -> None:
    classifier = small(model=model, dropout=0.4, random_state=5)
    classifier.fit(scipy_features(small_graph), small_graph.y.numpy(), small_graph.edge_index)
    torch.manual_seed(5)
    order = (2, 1) if model == "cross-gcn" else None
    twin = build_model(model, 24, 3, hidden_channels=8, dropout=0.4, bias=True, order=order)
    everyone = torch.arange(90)
    result = train_full_batch(
        twin,
        PreparedGraph(small_graph.x, small_graph.edge_index),
        small_graph.y,
        Split(everyone, everyone, everyone),
        seed=5,
        epochs=30,
    )
    assert classifier.loss_curve_ == [epoch.train_loss for epoch in result.history]
    assert classifier.n_iter_ == classifier.best_epoch_ == 30
    assert classifier.validation_rows_ is None and classifier.validation_scores_ is None


def test_labels_of_unlabelled_rows_are_not_seen_but_their_features_are(
    circles: tuple[Array, Array, Array],
) -> None:
    X, y, edges = circles
    hidden = np.where(np.arange(200) < 100, y, -1)
    first = small().fit(X, hidden, edges)
    assert first.classes_.tolist() == [0, 1]
    without = small().fit(X[:100], y[:100], edges[:, (edges < 100).all(axis=0)])
    assert weights(first) != weights(without)
    assert weights(small().fit(X, hidden)) == weights(small().fit(X[:100], y[:100]))
    assert first.score(X, hidden, edges) == first.score(
        X, y, edges, sample_weight=(hidden >= 0).astype(float)
    )


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.coo_array, sp.csc_array])
def test_sparse_features_give_what_dense_ones_give(
    small_graph: Data, container: Callable[[Array], Any]
) -> None:
    X, y = small_graph.x.to_dense().numpy(), small_graph.y.numpy()
    dense = small(dropout=0.0).fit(X, y, small_graph.edge_index)
    sparse = small(dropout=0.0).fit(container(X), y, small_graph.edge_index)
    expected = dense.predict_proba(X, small_graph.edge_index)
    found = sparse.predict_proba(container(X), small_graph.edge_index)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    same_model = dense.predict_proba(container(X), small_graph.edge_index)
    np.testing.assert_allclose(same_model, expected, atol=1e-12)


def test_how_a_sparse_matrix_is_stored_changes_no_bit(small_graph: Data) -> None:
    X, y = sp.csr_array(scipy_features(small_graph)), small_graph.y.numpy()
    halves = sp.coo_array(
        (
            np.concatenate([X.data / 2, X.data / 2, [0.0]]),
            tuple(np.concatenate([ends, ends, [5]]) for ends in X.tocoo().coords),
        ),
        shape=X.shape,
    )
    unsummed = sp.csr_array(X.shape, dtype=np.float32)
    order = np.argsort(halves.coords[0], kind="stable")
    unsummed.indptr = np.searchsorted(halves.coords[0][order], np.arange(91)).astype(np.int32)
    unsummed.indices = halves.coords[1][order].astype(np.int32)
    unsummed.data = halves.data[order].astype(np.float32)
    before = unsummed.data.copy()
    assert weights(small().fit(unsummed, y)) == weights(small().fit(X, y))
    assert np.array_equal(unsummed.data, before)


def test_the_same_seed_gives_the_same_bytes(circles: tuple[Array, Array, Array]) -> None:
    X, y, edges = circles
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


def test_a_row_scores_the_same_alone_and_among_others(small_graph: Data) -> None:
    X, y = small_graph.x.to_dense().numpy(), small_graph.y.numpy()
    classifier = small().fit(X, y)
    together = classifier.predict_proba(X)
    alone = np.concatenate([classifier.predict_proba(row.reshape(1, -1)) for row in X])
    np.testing.assert_allclose(alone, together, rtol=1e-12)


def test_two_classes_have_two_probabilities_and_one_score(
    circles: tuple[Array, Array, Array],
) -> None:
    X, y, edges = circles
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


# Labels


@pytest.mark.parametrize(
    ("y", "classes", "unlabelled"),
    [
        ([3, 7, -1, 3], [3, 7], [2]),
        ([3.0, 7.0, -1.0, 3.0], [3.0, 7.0], [2]),
        ([-1, 1, -1, 1], [-1, 1], []),
        (["-1", "1", "1", "1"], ["-1", "1"], []),
        ([-1, 1, 0, 1], [0, 1], [0]),
        (["a", "b", "-1", "b"], ["a", "b"], [2]),
        ([True, False, True, True], [False, True], []),
        (np.array(["a", "b", -1, "b"], dtype=object), ["a", "b"], [2]),
        (np.array([True, False, -1, True], dtype=object), [False, True], [2]),
        (np.array([4, 5, -1, 5], dtype=object), [4, 5], [2]),
    ],
)
def test_minus_one_is_no_label_unless_it_is_one_of_two(
    y: Any, classes: list[Any], unlabelled: list[int]
) -> None:
    X = np.random.default_rng(0).normal(size=(4, 3))
    classifier = small(epochs=2).fit(X, y)
    assert classifier.classes_.tolist() == classes
    assert [type(label) for label in classifier.classes_.tolist()] == [type(c) for c in classes]
    assert set(classifier.predict(X).tolist()) <= set(classes)
    _, codes = encode_labels(np.asarray(y))
    assert np.flatnonzero(codes.numpy() < 0).tolist() == unlabelled
    assert 0 <= classifier.score(X, y) <= 1


def test_what_stands_for_no_label_can_be_said() -> None:
    X = np.random.default_rng(0).normal(size=(6, 3))
    classes = small(epochs=1, unlabelled=None).fit(X, [-1, 0, 1, -1, 0, 1]).classes_
    assert classes.tolist() == [-1, 0, 1]
    blank = small(epochs=1, unlabelled="").fit(X, ["a", "b", "", "a", "b", ""])
    assert blank.classes_.tolist() == ["a", "b"]
    with pytest.raises(BadInput, match="one class, 1, in its 3 labelled rows"):
        small(unlabelled=-1).fit(X, [-1, 1, -1, 1, -1, 1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1, -1, -1, -1], "y marks all 4 rows as unlabelled; give rows of at least two classes"),
        (["a", "a", "-1", "a"], "y has one class, 'a', in its 3 labelled rows"),
        ([0.5, 1.5, 2.5, 3.5], "Unknown label type: continuous"),
        (np.array(["a", None, "b", None], dtype=object), r"y row 1 is None \(2 such in all\).*-1"),
        (pd.Series(["a", None, "b", "a"]), r"y row 1 is missing .* with y\.fillna\(-1\)"),
        (pd.Series([1, None, 0, 1], dtype="Int64"), "y row 1 is missing"),
        (
            np.array(["a", 1, "b", "a"], dtype=object),
            "y has labels of types int and str; give all as texts",
        ),
    ],
)
def test_labels_that_are_none_are_explained(y: Any, message: str) -> None:
    X = np.random.default_rng(0).normal(size=(4, 3))
    with pytest.raises(ValueError, match=message):
        small().fit(X, y)


def test_scoring_needs_a_label(circles: tuple[Array, Array, Array]) -> None:
    X, y, _ = circles
    classifier = small(epochs=1).fit(X, y)
    with pytest.raises(BadInput, match="all rows as unlabelled"):
        classifier.score(X, np.full(200, -1))
    with pytest.raises(BadInput, match="y has 3 labels for 200 rows"):
        classifier.score(X, y[:3])


# Edges


edge_lists = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


@given(edge_lists, st.lists(st.integers(0, 9), min_size=1, max_size=10, unique=True), st.booleans())
def test_edges_are_found_by_name(
    pairs: list[tuple[int, int]], names: list[int], as_matrix: bool
) -> None:
    if as_matrix:
        pairs = sorted(set(pairs))
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.arange(2, len(pairs) + 2, dtype=np.float32)
    if as_matrix:
        matrix: Any = sp.csr_array((weight, (array[0], array[1])), shape=(10, 10))
        edges, found = read_edges(matrix, None, np.array(names), len(names))
        if len(names) < 10:  # as cross-validation would cut it
            cut, cut_weight = read_edges(matrix[names], None, np.array(names), len(names))
            assert _listed(cut, cut_weight) == _listed(edges, found)
    else:
        edges, found = read_edges(array, weight, np.array(names), len(names))
    expected = [
        (names.index(a), names.index(b), float(w))
        for (a, b), w in zip(pairs, weight, strict=True)
        if a in names and b in names
    ]
    assert _listed(edges, found) == sorted(expected)


def _listed(edges: torch.Tensor, weight: torch.Tensor | None) -> list[tuple[int, int, float]]:
    values = [] if weight is None else weight.tolist()
    return sorted(zip(*edges.tolist(), values, strict=True))


def test_edges_come_in_any_form(circles: tuple[Array, Array, Array]) -> None:
    X, y, edges = circles
    first = small().fit(X, y, edges)
    expected = first.predict_proba(X, edges)
    adjacency = sp.coo_array((np.ones(edges.shape[1], bool), tuple(edges)), shape=(200, 200))
    both = np.concatenate([edges, edges[::-1], edges], axis=1)
    forms = [
        torch.from_numpy(edges),
        edges.tolist(),
        edges.astype(np.uint16),
        both,
        adjacency,
        sp.csr_matrix(adjacency),
    ]
    for form in forms:
        assert weights(small().fit(X, y, form)) == weights(first)
        assert np.array_equal(first.predict_proba(X, form), expected)
    weighted = small().fit(X, y, edges, edge_weight=np.ones(edges.shape[1]))
    np.testing.assert_allclose(weighted.predict_proba(X, edges), expected, atol=1e-5)
    assert not np.array_equal(first.predict_proba(X), expected)


def test_weights_of_a_matrix_are_weights_of_edges(circles: tuple[Array, Array, Array]) -> None:
    X, y, edges = circles
    edges = np.unique(np.sort(edges, axis=0), axis=1)
    weight = np.linspace(0.5, 3.0, edges.shape[1])
    matrix = sp.csr_array((weight, tuple(edges)), shape=(200, 200))
    first = small().fit(X, y, edges, edge_weight=torch.from_numpy(weight))
    assert weights(small().fit(X, y, matrix)) == weights(first)
    assert weights(small().fit(X, y, edges)) != weights(first)


def test_rows_in_another_order_under_their_numbers_are_the_same_graph(
    circles: tuple[Array, Array, Array],
) -> None:
    X, y, edges = circles
    classifier = small().fit(X, y, edges)
    order = np.random.default_rng(1).permutation(200)
    shuffled = classifier.predict_proba(X[order], edges, node_index=order)
    expected = classifier.predict_proba(X, edges)[order]
    np.testing.assert_allclose(shuffled, expected, rtol=1e-9)
    far = 2**62 + np.arange(200)
    assert np.array_equal(
        classifier.predict_proba(X, edges + 2**62, node_index=far),
        classifier.predict_proba(X, edges),
    )


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            {"edge_index": [[0, 1], [1, 6]]},
            r"edge_index\[1, 1\] is 6, but X has 6 rows; use 0 to 5",
        ),
        ({"edge_index": [[0, -1], [1, 2]]}, r"edge_index\[0, 1\] is -1.*node_index"),
        ({"edge_index": [[0, 1], [1, 2], [2, 3]]}, r"int64 \[3, 2\]; .* edge_index\.T"),
        ({"edge_index": [[0.0, 1.0], [1.0, 2.0]]}, r"float64 \[2, 2\]; give integers \[2, edges\]"),
        ({"edge_index": [0, 1]}, r"edge_index is int64 \[2\]"),
        ({"edge_weight": [1.0]}, "edge_weight is given without edge_index"),
        (
            {"edge_index": [[0, 1], [1, 2]], "edge_weight": [1.0]},
            r"edge_weight is float64 \[1\]; give numbers \[2\]",
        ),
        (
            {"edge_index": [[0, 1], [1, 2]], "edge_weight": [1.0, -2.0]},
            r"edge_weight\[1\] is -2\.0 \(1 such in all\)",
        ),
        ({"edge_index": sp.eye_array(5)}, r"adjacency \[5, 5\], but X has 6 rows; give \[6, 6\]"),
        (
            {"edge_index": sp.csr_array((6, 9))},
            r"adjacency \[6, 9\] for 6 rows; .* node_index=np\.arange\(len\(X\)\)",
        ),
        ({"edge_index": -sp.eye_array(6)}, r"has -1\.0 from node 0 to node 0 \(6 such in all\)"),
        (
            {"edge_index": sp.eye_array(6), "edge_weight": [1.0] * 6},
            "a sparse adjacency holds its weights as values",
        ),
        (
            {"edge_index": [[0], [1]], "node_index": [0, 1, 2]},
            r"node_index is int64 \[3\]; give integers \[6\]",
        ),
        (
            {"edge_index": [[0], [1]], "node_index": [0, 1, 2, 4, 2, 2]},
            "node_index has 2 3 times, first in row 2",
        ),
    ],
)
def test_bad_edges_name_place_value_and_remedy(graph: dict[str, Any], message: str) -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(BadInput, match=message):
        small().fit(X, [0, 1, 0, 1, 0, 1], **graph)
    fitted = small(epochs=1).fit(X, [0, 1, 0, 1, 0, 1])
    with pytest.raises(BadInput, match=message):
        fitted.predict(X, **graph)


# Among scikit-learn's tools


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
    scores = cross_val_score(make_pipeline(encode, CrossGCNClassifier(num_layers=1)), frame, y)
    without = make_pipeline(encode, CrossGCNClassifier(model="gcn", num_layers=1))
    assert scores.min() > 0.95
    assert cross_val_score(without, frame, y).max() < 0.7


def test_a_grid_search_over_order_and_dropout() -> None:
    X, y = load_wine(return_X_y=True)
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    pipeline = make_pipeline(StandardScaler(), small())
    grid = {"crossgcnclassifier__order": [1, 2, (2, 1)], "crossgcnclassifier__dropout": [0.0, 0.5]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, names)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_score_ > 0.93
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert set(search.predict(X)) == set(names)


@pytest.mark.parametrize("form", ["edges", "adjacency"])
def test_cross_validation_on_a_graph_that_helps(
    circles: tuple[Array, Array, Array], form: str
) -> None:
    X, y, edges = circles
    graph: Any = edges
    if form == "adjacency":
        graph = sp.csr_array((np.ones(edges.shape[1]), tuple(edges)), shape=(200, 200)) > 0
    with config_context(enable_metadata_routing=True):
        params = {"edge_index": graph, "node_index": np.arange(200)}
        with_graph = cross_val_score(small(), X, y, params=params)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), small()), {"crossgcnclassifier__num_layers": [1, 2]}
        ).fit(X, y, **params)
    by_hand = []
    for fold in range(5):
        held = np.arange(200) // 40 == fold
        train, test = np.flatnonzero(~held), np.flatnonzero(held)
        classifier = small().fit(X[train], y[train], edges, node_index=train)
        by_hand.append(classifier.score(X[test], y[test], edges, node_index=test))
    np.testing.assert_array_equal(with_graph, by_hand)
    without_graph = cross_val_score(small(), X, y).mean()
    assert with_graph.mean() > without_graph + 0.1
    assert search.best_score_ > without_graph + 0.1
    predicted = search.best_estimator_.predict(X, edge_index=edges)
    assert np.mean(predicted == y) > np.mean(search.predict(X) == y)


def test_cross_validation_without_the_numbers_of_rows_says_what_is_missing(
    circles: tuple[Array, Array, Array],
) -> None:
    X, y, edges = circles
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(BadInput, match="say with node_index which node each row of X is"),
    ):
        cross_val_score(small(), X, y, params={"edge_index": edges}, error_score="raise")


def test_a_data_frame_with_other_columns_is_refused() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    classifier = small(epochs=2).fit(frame, [0, 1] * 10)
    assert classifier.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[["b", "a"]])


# Parameters and failures


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "cross-gnc"}, "unknown model 'cross-gnc': did you mean 'cross-gcn'"),
        ({"model": "deep-walk"}, "model 'deep-walk' sees no features"),
        ({"model": "gcn", "order": 2}, "model 'gcn' has no option 'order'"),
        ({"num_layers": 0}, "num_layers should be greater than or equal to 1; got 0"),
        ({"order": (2, 1, 1)}, "names 3 layers, but num_layers is 2"),
        ({"dropout": 1.0}, "dropout should be less than 1"),
        ({"epochs": 0}, "epochs should be greater"),
        ({"learning_rate": -1}, "learning_rate should be greater than 0"),
        ({"random_state": -1}, "seed should be greater than or equal to 0; got -1"),
        ({"device": "abacus"}, "'abacus'; give 'auto', 'cpu' or 'cuda'"),
        ({"validation_fraction": 1.5}, "validation_fraction is 1.5; give a number between 0 and 1"),
        ({"validation_fraction": 0.01}, "0.01, which is no row of any class; raise it"),
    ],
)
def test_parameters_that_cannot_be_say_what_can(parameters: dict[str, Any], message: str) -> None:
    X, y = load_wine(return_X_y=True)
    with pytest.raises(BadInput, match=message):
        small(**parameters).fit(X[::3], y[::3])


@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_divergence_says_what_to_do(validation_fraction: float | None) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3)) * 1e25
    classifier = small(validation_fraction=validation_fraction)
    with pytest.raises(WorkFailed, match=r"diverged in epoch \d+: .*StandardScaler in a Pipeline"):
        classifier.fit(X, [0, 1] * 20)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


@given(st.lists(st.integers(-1, 3), min_size=4, max_size=60), st.floats(0.01, 0.99))
def test_held_out_rows_are_of_every_class_in_proportion(labels: list[int], share: float) -> None:
    y = torch.tensor([*labels, 0, 1])
    try:
        kept, held = hold_out(y, share, 0)
    except BadInput:
        assert all(round(share * count) == 0 or count == 1 for count in _counts(y) if count)
        return
    assert sorted([*kept.tolist(), *held.tolist()]) == torch.nonzero(y >= 0).flatten().tolist()
    for label, count in enumerate(_counts(y)):
        drawn = int((y[held] == label).sum())
        assert drawn == (min(round(share * count), count - 1) if count else 0)


def _counts(y: torch.Tensor) -> list[int]:
    return torch.bincount(y[y >= 0]).tolist()


# Saving


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


HISTORY = ("n_iter_", "best_epoch_", "loss_curve_", "validation_scores_", "validation_rows_")


@pytest.mark.parametrize("validation_fraction", [None, 0.3])
def test_a_loaded_classifier_knows_all_that_it_knew(
    validation_fraction: float | None, small_graph: Data, tmp_path: Path
) -> None:
    X, y, edges = scipy_features(small_graph), small_graph.y.numpy(), small_graph.edge_index
    classifier = small(validation_fraction=validation_fraction).fit(X, y, edges)
    classifier.set_params(device="cuda")
    classifier.save(tmp_path / "first")
    loaded = CrossGCNClassifier.load(tmp_path / "first")
    assert loaded.get_params() == classifier.get_params()
    assert loaded.order is None
    before, after = vars(classifier), vars(loaded)
    assert before.keys() == after.keys()
    for name in before.keys() - {"model_"}:
        np.testing.assert_equal(after[name], before[name])
        assert type(after[name]) is type(before[name])
    if loaded.validation_rows_ is not None:
        assert loaded.validation_rows_.dtype == np.int64
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
    classifier.set_params(**changed, device=torch.device("cpu")).save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert (loaded.model, loaded.preset_, loaded.settings_["order"]) == (
        "cross-gcn-paper",
        "cross-gcn",
        [2, 1],
    )
    assert (loaded.order, loaded.order_weights, loaded.device) == ((2, 2), (1.0, 0.5), "cpu")


def test_a_parameter_that_no_file_can_hold_is_refused_before_anything_is_written(
    small_graph: Data, tmp_path: Path
) -> None:
    classifier = small(epochs=1).fit(scipy_features(small_graph), small_graph.y.numpy())
    with pytest.raises(BadInput, match=r"unlabelled is .*of type object, which cannot be saved"):
        classifier.set_params(unlabelled=object()).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


class _Warmer(CrossGCNClassifier):
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {**super().get_params(deep), "temperature": 1.0}


def test_a_parameter_of_another_class_or_version_is_named(
    small_graph: Data, tmp_path: Path
) -> None:
    X, y = scipy_features(small_graph), small_graph.y.numpy()
    _Warmer(epochs=1).fit(X, y).save(tmp_path)
    with pytest.raises(BadInput, match="parameter 'temperature', which this classifier does not"):
        CrossGCNClassifier.load(tmp_path)


@pytest.mark.parametrize("model", ["gcn", "gin", "mlp", "semi-emb", "cross-gcn-paper"])
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


def test_a_model_trained_on_the_command_line_is_a_classifier(
    small_graph: Data, tmp_path: Path, crossgcn: Callable[..., CompletedProcess[str]]
) -> None:
    save_graph(tmp_path / "small.npz", small_graph)
    options = ("--splits", "public", "--epochs", 20, "--hidden-channels", 8, "--workers", 1)
    done = crossgcn("train", "small.npz", *options, "--out", "run")
    assert done.returncode == 0, done.stderr
    folder = next(Path("run").rglob("model.safetensors")).parent
    loaded = CrossGCNClassifier.load(folder)
    X, edges = scipy_features(small_graph), small_graph.edge_index
    model: Stack = load_model(folder)
    with torch.no_grad():
        expected = model(small_graph.x, edges).argmax(dim=1)
    assert loaded.predict(X, edges).tolist() == [str(int(label)) for label in expected]
    assert (loaded.order, loaded.hidden_channels, loaded.bias) == (2, 8, None)
    assert not any(hasattr(loaded, name) for name in HISTORY)
    anew = clone(loaded).set_params(epochs=1).fit(X, small_graph.y.numpy(), edges)
    shapes = [value.shape for value in loaded.model_.state_dict().values()]
    assert [value.shape for value in anew.model_.state_dict().values()] == shapes


def test_a_model_of_tables_is_a_classifier_of_encoded_tables(
    tmp_path: Path, crossgcn: Callable[..., CompletedProcess[str]]
) -> None:
    shop = make_shop(300)
    shop.nodes.to_csv("nodes.csv", index=False)
    shop.edges.to_csv("edges.csv", index=False)
    options = ("--target", "buys", "--epochs", 20, "--num-splits", 1, "--workers", 1)
    done = crossgcn("train", "nodes.csv", "edges.csv", *options, "--out", "run")
    assert done.returncode == 0, done.stderr
    graph = load_tables("nodes.csv", "edges.csv", TableChoices(target="buys"))
    scores = class_scores(load_model("run"), graph.data)
    expected = [graph.classes[label] for label in scores.argmax(dim=1)]
    assert len(set(expected)) > 1
    loaded = CrossGCNClassifier.load("run")
    assert loaded.classes_.tolist() == list(graph.classes)
    assert loaded.predict(graph.matrix, graph.data.edge_index).tolist() == expected
    probabilities = loaded.predict_proba(graph.matrix, graph.data.edge_index)
    np.testing.assert_allclose(probabilities, scores.softmax(dim=1), atol=1e-12)
    assert loaded.order is None
    assert not any(hasattr(loaded, name) for name in HISTORY)
    loaded.save(tmp_path / "again")
    again = CrossGCNClassifier.load(tmp_path / "again")
    assert vars(again).keys() == vars(loaded).keys()
    assert again.predict(graph.matrix, graph.data.edge_index).tolist() == expected


@pytest.mark.parametrize(
    "labels", [{}, {"dtype": "O", "values": [1]}, {"dtype": "x9", "values": []}, {"dtype": "<i8"}]
)
def test_labels_that_do_not_fit_the_model_are_refused(
    labels: dict[str, Any], small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "crossgcn.training.classifier_folder.describe_labels", lambda classes: labels
    )
    small(epochs=1).fit(scipy_features(small_graph), small_graph.y.numpy()).save(tmp_path)
    with pytest.raises(BadInput, match=r"labels .*save the model again"):
        CrossGCNClassifier.load(tmp_path)


@pytest.mark.parametrize("history", [[], {"epochs": 3}, {"validation_rows_": ["a"]}])
def test_a_history_that_is_none_is_refused(
    history: object, small_graph: Data, tmp_path: Path
) -> None:
    classifier = small(epochs=1).fit(scipy_features(small_graph), small_graph.y.numpy())
    classifier.save(tmp_path)
    preprocess = load_saved(tmp_path).preprocess
    save_model(
        tmp_path,
        classifier.model_.state_dict(),
        preset=classifier.preset_,
        in_channels=24,
        settings=classifier.settings_,
        preprocess=replace(preprocess, extra={**preprocess.extra, "history": history}),
    )
    with pytest.raises(BadInput, match=r"history cannot be read .*save the classifier again"):
        CrossGCNClassifier.load(tmp_path)


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
