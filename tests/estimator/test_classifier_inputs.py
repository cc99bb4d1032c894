from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from architectures import one_thread  # noqa: F401
from classifier_cases import Array, circles, scipy_features, small, weights
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.estimator.labels import read_targets


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


def test_a_row_scores_the_same_alone_and_among_others(small_graph: Data) -> None:
    X, y = small_graph.x.to_dense().numpy(), small_graph.y.numpy()
    classifier = small().fit(X, y)
    together = classifier.predict_proba(X)
    alone = np.concatenate([classifier.predict_proba(row.reshape(1, -1)) for row in X])
    np.testing.assert_allclose(alone, together, rtol=1e-12)


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
        ([4.0, 5.0, np.nan, 5.0], [4.0, 5.0], [2]),
        ([0, 1, None, 1], [0, 1], [2]),
        (np.array(["a", None, "b", None], dtype=object), ["a", "b"], [1, 3]),
        (pd.Series(["a", None, "b", "a"]), ["a", "b"], [1]),
        (pd.Series([1, None, 0, 1], dtype="Int64"), [0, 1], [1]),
        (pd.Series(["a", None, "b", "a"], dtype="category"), ["a", "b"], [1]),
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
    codes, _ = read_targets(y, "classifier")
    assert np.flatnonzero(codes.numpy() < 0).tolist() == unlabelled
    assert 0 <= classifier.score(X, y) <= 1


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1, -1, -1, -1], "the target is unknown in all rows of y"),
        (["a", "a", "-1", "a"], "y has one class, 'a', in its 3 labelled rows"),
        ([0.5, 1.5, 2.5, 3.5], "Unknown label type: continuous"),
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


def test_labels_of_unlabelled_rows_are_not_seen_but_their_features_are() -> None:
    X, y, edges = circles()
    hidden = np.where(np.arange(200) < 100, y, -1)
    first = small().fit(X, hidden, edges)
    assert first.classes_.tolist() == [0, 1]
    without = small().fit(X[:100], y[:100], edges[:, (edges < 100).all(axis=0)])
    assert weights(first) != weights(without)
    assert weights(small().fit(X, hidden)) == weights(small().fit(X[:100], y[:100]))
    assert first.score(X, hidden, edges) == first.score(
        X, y, edges, sample_weight=(hidden >= 0).astype(float)
    )


def test_scoring_needs_a_label() -> None:
    X, y, _ = circles()
    classifier = small(epochs=1).fit(X, y)
    with pytest.raises(BadInput, match="the target is unknown in all rows"):
        classifier.score(X, np.full(200, -1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier.score(X, y[:3])
