from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import Array, circles, small, weights
from torch_geometric.data import Data
from torch_geometric.edge_index import EdgeIndex

from crossgcn.errors import BadInput


def weighted_graph(edges: Array, weight: Array) -> Data:
    return Data(edge_index=torch.from_numpy(edges), edge_weight=torch.from_numpy(weight))


def test_edges_come_in_any_form() -> None:
    X, y, edges = circles()
    first = small().fit(X, y, edges)
    expected = first.predict_proba(X, edges)
    both = np.concatenate([edges, edges[::-1], edges], axis=1)
    forms: list[Any] = [
        torch.from_numpy(edges),
        edges.tolist(),
        edges.astype(np.uint16),
        both,
        Data(edge_index=torch.from_numpy(edges)),
        EdgeIndex(torch.from_numpy(edges), sparse_size=(200, 200)),
    ]
    for form in forms:
        assert weights(small().fit(X, y, form)) == weights(first)
        assert np.array_equal(first.predict_proba(X, form), expected)
    weighted = small().fit(X, y, weighted_graph(edges, np.ones(edges.shape[1])))
    np.testing.assert_allclose(weighted.predict_proba(X, edges), expected, atol=1e-5)
    assert np.array_equal(first.predict_proba(X), expected)


def test_weights_of_edges_count() -> None:
    X, y, edges = circles()
    weight = np.linspace(0.5, 3.0, edges.shape[1])
    first = small().fit(X, y, weighted_graph(edges, weight))
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
            "edge_index has 7 nodes, but X has 6 rows; say with node_index",
        ),
        ({"edge_index": [[0, -1], [1, 2]]}, r"edge_index\[0, 1\] is -1 \(1 such"),
        (
            {"edge_index": [[0, 1], [1, 2], [2, 3]]},
            r"int64 \[3, 2\]; .* edge_index\.T of a list of pairs",
        ),
        ({"edge_index": [[0.0, 1.0], [1.0, 2.0]]}, r"float64 \[2, 2\]; give integers \[2, edges\]"),
        ({"edge_index": [0, 1]}, r"edge_index is a list of int64 \[2\]"),
        (
            {"edge_index": weighted_graph(np.array([[0, 1], [1, 2]]), np.ones(1))},
            r"edge_weight is float64 \[1\]; it must be float \[2\], one per edge",
        ),
        ({"edge_index": sp.eye_array(6)}, r"is a dia_array .*give integers \[2, edges\]"),
        (
            {"edge_index": weighted_graph(np.array([[0, 1], [1, 2]]), -np.ones(2))},
            r"edge_weight\[0\] is -1 \(2 such in all\)",
        ),
        (
            {"edge_index": [[0], [1]], "node_index": [0, 1, 2]},
            r"node_index is int64 \[3\]; give integers \[6\]",
        ),
        (
            {"edge_index": [[0], [1]], "node_index": [0, 1, 2, 4, 2, 2]},
            "node_index has 2 more than once",
        ),
    ],
)
def test_bad_edges_name_place_value_and_remedy(graph: dict[str, Any], message: str) -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(BadInput, match=message):
        small().fit(X, [0, 1, 0, 1, 0, 1], **graph)
    fitted = small(epochs=1).fit(X, [0, 1, 0, 1, 0, 1], [[0], [1]])
    with pytest.raises(BadInput, match=message):
        fitted.predict(X, **graph)
