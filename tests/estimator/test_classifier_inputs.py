from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from architectures import one_thread  # noqa: F401
from classifier_cases import Array, scipy_features, small, weights
from torch_geometric.data import Data


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
