from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import one_thread  # noqa: F401
from classifier_cases import circles

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor, explain, explain_terms

X, Y, EDGES = circles()
FRAME = pd.DataFrame(X, columns=["age", "height", "income", "weight"])
QUICK: dict[str, Any] = {"epochs": 5, "hidden_channels": 4}


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
@pytest.mark.parametrize("task", ["classes", "number"])
def test_an_estimator_is_explained_with_its_rows(model: str, task: str) -> None:
    settings = QUICK | ({"bags": 2} if model == "cross-hops" else {})
    fitted: Any
    if task == "classes":
        names = np.array(["friend", "stranger"])[Y]
        fitted = CrossGCNClassifier(model=model, **settings).fit(FRAME, names, EDGES)
        scores = fitted._score_rows(FRAME, EDGES, None, None)
    else:
        fitted = CrossGCNRegressor(model=model, **settings).fit(FRAME, X[:, 0] * X[:, 1], EDGES)
        scores = fitted.predict(FRAME, EDGES)[:, None]
    table = explain(fitted, FRAME, EDGES, top=5)
    assert (
        table.astype(str).to_numpy().tolist()
        == explain(fitted, FRAME, top=5).astype(str).to_numpy().tolist()
    )
    assert len(explain(fitted, top=5)) == len(table)
    assert "age" in table.to_string()
    node = explain(fitted, FRAME.iloc[[7, 3]], node=1, top=10_000)
    total = node["contribution"].sum() + node.attrs.get("average", 0.0)
    if model == "cross-gcn" or task == "number":
        assert total == pytest.approx(scores[3].max(), abs=1e-4)
    else:  # two classes: the score is a difference
        assert abs(total) == pytest.approx(abs(scores[3, 1] - scores[3, 0]), abs=1e-4)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_terms_of_an_estimators_rows(model: str) -> None:
    fitted = CrossGCNClassifier(model=model, **QUICK).fit(FRAME, Y, EDGES)
    rows = FRAME.iloc[[7, 3, 11]]
    terms = explain_terms(fitted, rows)
    assert terms.values.shape[0] == len(terms.base_values) == 3
    assert len(terms.nodes) == len(FRAME) and "age" in terms.to_frame().to_string()
    np.testing.assert_allclose(
        terms.base_values + terms.values.sum(axis=1), fitted.decision_function(rows), atol=1e-4
    )
    every = explain_terms(fitted)
    np.testing.assert_array_equal(every.values[[7, 3, 11]], terms.values)
    np.testing.assert_allclose(explain_terms(fitted, FRAME, EDGES).values, every.values, atol=1e-9)


def test_what_cannot_be_explained_is_refused() -> None:
    alone = CrossGCNClassifier(**QUICK).fit(X, Y)
    with pytest.raises(BadInput, match=r"the fit had no edges.*give the rows to explain"):
        explain(alone)
    assert len(explain(alone, X, top=3))
    with pytest.raises(BadInput, match="the graph has its own"):
        explain(alone.model_, X, EDGES)
