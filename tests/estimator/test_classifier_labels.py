from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import one_thread  # noqa: F401
from classifier_cases import circles, small, weights

from crossgcn.errors import BadInput
from crossgcn.estimator.inputs import encode_labels


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
    with pytest.raises(BadInput, match="all rows as unlabelled"):
        classifier.score(X, np.full(200, -1))
    with pytest.raises(BadInput, match="y has 3 labels for 200 rows"):
        classifier.score(X, y[:3])
