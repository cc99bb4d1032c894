"""Estimators are explained with their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import one_thread  # noqa: F401
from classifier_cases import circles

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor, explain

X, Y, EDGES = circles()
FRAME = pd.DataFrame(X, columns=["age", "height", "income", "weight"])
QUICK: dict[str, Any] = {"epochs": 5, "hidden_channels": 4}


def test_terms_add_up_to_what_an_estimator_computes() -> None:
    fitted = CrossGCNClassifier(model="cross-hops", **QUICK).fit(FRAME, Y, EDGES)
    rows = FRAME.iloc[[7, 3, 11]]
    terms = explain(fitted, rows)
    assert terms.values.shape[0] == len(terms.base_values) == 3
    assert len(terms.nodes) == len(FRAME) and "age" in terms.to_frame(5).to_string()
    expected = fitted.decision_function(rows)
    np.testing.assert_allclose(terms.base_values + terms.values.sum(axis=1), expected, atol=1e-4)
    every = explain(fitted)
    np.testing.assert_array_equal(every.values[[7, 3, 11]], terms.values)
    np.testing.assert_allclose(explain(fitted, FRAME, EDGES).values, every.values, atol=1e-9)
    node = explain(fitted, rows, node=1)
    assert node.score == pytest.approx(expected[1], abs=1e-4)
    assert node.average + node.values.sum() == pytest.approx(node.score)


def test_a_regressor_is_explained_in_the_unit_of_its_target() -> None:
    fitted = CrossGCNRegressor(model="cross-hops", **QUICK)
    fitted.fit(FRAME, X[:, 0] * X[:, 1], EDGES)
    terms = explain(fitted, FRAME)
    np.testing.assert_allclose(terms.scores[:, 0], fitted.predict(FRAME, EDGES), atol=1e-4)


def test_rows_with_a_graph_of_their_own_are_explained_as_they_are_predicted() -> None:
    """They see the labels of some training rows only, on the scale of all of them."""
    old, rows = np.arange(150), FRAME.iloc[100:].rename_axis("node")
    fitted = CrossGCNRegressor(model="cross-hops", **QUICK)
    fitted.fit(FRAME.iloc[old], X[old, 0] * 3 + 7, EDGES, node_index=old)
    edges = EDGES[:, (EDGES >= 100).all(axis=0)] - 100
    terms = explain(fitted, rows, edges)
    expected = fitted.predict(rows, edges)
    np.testing.assert_allclose(terms.base_values + terms.values.sum(axis=1), expected, atol=1e-4)


def test_a_model_of_layers_has_products_of_its_columns() -> None:
    fitted = CrossGCNClassifier(**QUICK).fit(FRAME, Y, EDGES)
    found = explain(fitted)
    assert found.outputs == (str(fitted.classes_[1]),)
    assert set(found.to_frame()["columns"].explode()) == set(FRAME.columns)


def test_what_cannot_be_explained_is_refused() -> None:
    alone = CrossGCNClassifier(**QUICK).fit(X, Y)
    with pytest.raises(BadInput, match=r"the fit had no edges.*give the rows to explain"):
        explain(alone)
    assert len(explain(alone, X).to_frame())
    hops = CrossGCNClassifier(model="cross-hops", **QUICK).fit(X, Y, EDGES)
    with pytest.raises(BadInput, match="the graph has its own"):
        explain(alone.model_, X, EDGES)
    for node in (10**6, -1):
        with pytest.raises(BadInput, match=f"no row {node}: give a number from 0 to"):
            explain(hops, X, node=node)
    with pytest.raises(BadInput, match="node is 'a'; give a whole number"):
        explain(hops, X, node="a")
