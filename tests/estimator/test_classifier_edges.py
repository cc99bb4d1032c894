from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import circles, small, weights
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crossgcn.errors import BadInput
from crossgcn.estimator.inputs import GraphArguments, read_named_edges

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


def read_edges(edges: Any, weight: Any, names: Any, num_nodes: int) -> tuple[Any, Any]:
    named = read_named_edges(GraphArguments(edges, weight, names), num_nodes)
    assert named.names is not None
    return named.between(named.names)[:2]


def _listed(edges: Any, weight: Any) -> list[tuple[int, int, float]]:
    values = [] if weight is None else weight.tolist()
    return sorted(zip(*edges.tolist(), values, strict=True))


def test_edges_come_in_any_form() -> None:
    X, y, edges = circles()
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
    assert np.array_equal(first.predict_proba(X), expected)


def test_weights_of_a_matrix_are_weights_of_edges() -> None:
    X, y, edges = circles()
    edges = np.unique(np.sort(edges, axis=0), axis=1)
    weight = np.linspace(0.5, 3.0, edges.shape[1])
    matrix = sp.csr_array((weight, tuple(edges)), shape=(200, 200))
    first = small().fit(X, y, edges, edge_weight=torch.from_numpy(weight))
    assert weights(small().fit(X, y, matrix)) == weights(first)
    assert weights(small().fit(X, y, edges)) != weights(first)


def test_rows_in_another_order_under_their_numbers_are_the_same_graph() -> None:
    X, y, edges = circles()
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


@pytest.mark.parametrize("form", ["edges", "adjacency"])
def test_cross_validation_on_a_graph_that_helps(form: str) -> None:
    X, y, edges = circles()
    graph: Any = edges
    if form == "adjacency":
        graph = sp.csr_array((np.ones(edges.shape[1]), tuple(edges)), shape=(200, 200)) > 0
    with config_context(enable_metadata_routing=True):
        params = {"edge_index": graph, "node_index": np.arange(200)}
        with_graph = cross_val_score(small(), X, y, params=params, cv=2)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), small()),
            {"crossgcnclassifier__num_layers": [1, 2]},
            cv=2,
        ).fit(X, y, **params)
    by_hand = []
    for fold in range(2):
        held = np.arange(200) // 100 == fold
        train, test = np.flatnonzero(~held), np.flatnonzero(held)
        classifier = small().fit(X[train], y[train], edges, node_index=train)
        by_hand.append(classifier.score(X[test], y[test], node_index=test))
    np.testing.assert_array_equal(with_graph, by_hand)
    without_graph = cross_val_score(small(), X, y, cv=2).mean()
    assert with_graph.mean() > without_graph + 0.1
    assert search.best_score_ > without_graph + 0.1
    assert np.mean(search.predict(X) == y) > 0.95


def test_cross_validation_without_the_numbers_of_rows_says_what_is_missing() -> None:
    X, y, edges = circles()
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(BadInput, match="say with node_index which node each row of X is"),
    ):
        cross_val_score(small(), X, y, params={"edge_index": edges}, error_score="raise")
