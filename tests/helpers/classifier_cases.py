"""Classifiers, graphs and measures that the tests of the classifier share."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch_geometric.data import Data

from crossgcn.estimator.estimators import CrossGCNClassifier
from crossgcn.graph import SparseMatrix

Array = np.ndarray[Any, Any]

EXPECTED_FAILURES = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "dropout and batches are drawn for rows, so a row given twice is not a row of weight two",
)
"""scikit-learn's checks that the estimators fail, and why."""


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
