"""Intervals of the regressor and sets of the classifier, from the rows that they hold out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import one_thread  # noqa: F401
from classifier_cases import Array, circles
from sklearn.exceptions import NotFittedError

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor

QUICK: dict[str, Any] = {"hidden_channels": 4, "epochs": 30, "validation_fraction": 0.4}


def noisy() -> tuple[Array, Array]:
    """Numbers that two features tell, but for noise."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(900, 3))
    return X, 50 + X[:, 0] + X[:, 1] + draws.normal(size=900)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_intervals_of_rows_without_edges_are_saved_with_the_regressor(
    model: str, tmp_path: Path
) -> None:
    X, y = noisy()
    fitted = CrossGCNRegressor(model=model, **QUICK).fit(X[:600], y[:600])
    found = fitted.predict_interval(X[600:], coverage=0.8)
    assert found.shape == (300, 2)
    np.testing.assert_allclose(found.mean(axis=1), fitted.predict(X[600:]))
    assert 0.72 < ((found[:, 0] < y[600:]) & (y[600:] < found[:, 1])).mean() < 0.88
    assert (np.ptp(found[:, 1] - found[:, 0]) > 0.1) == (model == "cross-hops")  # it has bags
    fitted.save(tmp_path)
    loaded = CrossGCNRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_interval(X[600:], coverage=0.8), found)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_sets_of_rows_in_a_graph_hold_their_class(model: str, tmp_path: Path) -> None:
    X, y, edges = circles()
    names = np.array(["left", "right"])[y]
    shown, frame = names.astype(object), pd.DataFrame(X).rename_axis("node")
    shown[140:] = None
    fitted = CrossGCNClassifier(model=model, dropout=0.0, **QUICK).fit(frame, shown, edges)
    rows = frame.iloc[140:]
    sets = fitted.predict_set(rows, coverage=0.9)
    assert np.mean([name in each for name, each in zip(names[140:], sets, strict=True)]) > 0.85
    predicted = fitted.predict(rows)
    assert all(name in each for name, each in zip(predicted, sets, strict=True) if len(each))
    certain = fitted.predict_set(rows, coverage=0.98)
    assert all(set(few) <= set(many) for few, many in zip(sets, certain, strict=True))
    fitted.save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path).predict_set(rows, coverage=0.9)
    assert [each.tolist() for each in loaded] == [each.tolist() for each in sets]


def test_what_no_held_out_rows_can_promise_is_refused() -> None:
    X, y = noisy()
    with pytest.raises(NotFittedError):
        CrossGCNRegressor().predict_interval(X)
    with pytest.raises(BadInput, match="no rows were held out; give validation_fraction"):
        CrossGCNRegressor(epochs=1).fit(X, y).predict_interval(X)
    with pytest.raises(BadInput, match=r"90 validation nodes.* which is coverage=0.5 to 0.989"):
        held = CrossGCNRegressor(epochs=1, validation_fraction=0.1).fit(X, y)
        held.predict_interval(X, coverage=0.99)
