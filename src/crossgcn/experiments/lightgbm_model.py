"""LightGBM as ``compare`` trains it, and the further columns that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.experiments.candidates import Fitted

Array = NDArray[Any]

_MOST_TREES, _TREES_WITHOUT_GAIN = 1000, 40
_ENTRIES_AT_ONCE = 1 << 23


def fit_lightgbm(
    columns: Array,
    y: Array,
    split: Split,
    settings: Mapping[str, Any],
    class_weight: Any,
    gain_of: Callable[[Array], float],
) -> Fitted:
    """Fit, and keep as many trees as score best on the validation nodes.

    Args:
        class_weight: Weight of each class by its number, ``"balanced"``, or ``None``.
        gain_of: Returns the validation score for the scores of the validation nodes; greater is
            better.
    """
    import lightgbm

    train, validation, test = (each.numpy() for each in vars(split).values())
    given: dict[str, Any] = {
        "n_estimators": _MOST_TREES,
        "subsample": 0.8,
        "subsample_freq": 1,
        "min_child_samples": 10,
        "deterministic": True,
        "force_row_wise": True,
        "metric": "None",
        "verbose": -1,
        **settings,
    }
    is_number = y.dtype.kind == "f"
    kind = lightgbm.LGBMRegressor if is_number else lightgbm.LGBMClassifier
    model = kind(**given, **({} if is_number else {"class_weight": class_weight}))

    def scores(predicted: Array) -> Array:
        if is_number:
            return predicted.reshape(-1, 1)
        if predicted.ndim == 1:
            predicted = np.stack([1 - predicted, predicted], axis=1)
        logits: Array = np.log(predicted.clip(1e-12))
        return logits

    model.fit(
        columns[train],
        y[train],
        eval_X=columns[validation],
        eval_y=y[validation],
        eval_metric=lambda _, predicted: ("gain", gain_of(scores(predicted)), True),
        callbacks=[lightgbm.early_stopping(_TREES_WITHOUT_GAIN, verbose=False)],
    )
    predict: Callable[[Array], Any] = model.predict if is_number else model.predict_proba
    gain = gain_of(scores(predict(columns[validation])))
    return Fitted(model.best_iteration_, gain, scores(predict(columns[test])))


def describe_extremes(x: Tensor, edge_index: Tensor) -> Array:
    """Return the largest and smallest values of neighbours, and PageRank, of every node.

    Nodes without neighbours have their own values.
    """
    own, num_nodes = x.numpy(), len(x)
    source, target = edge_index.numpy()
    links = np.ones(len(source), np.float32), (target, source)
    matrix = sparse.csr_array(links, shape=(num_nodes, num_nodes))
    has_any = np.diff(matrix.indptr) > 0
    starts = matrix.indptr[:-1][has_any]
    largest, smallest = own.copy(), own.copy()
    step = max(1, _ENTRIES_AT_ONCE // max(1, matrix.nnz))
    for first in range(0, own.shape[1] if len(starts) else 0, step):
        here = slice(first, first + step)
        values = own[matrix.indices, here]
        largest[has_any, here] = np.maximum.reduceat(values, starts)
        smallest[has_any, here] = np.minimum.reduceat(values, starts)
    return np.hstack([largest, smallest, _page_rank(matrix)[:, None]]).astype(np.float32)


def _page_rank(matrix: sparse.csr_array, damping: float = 0.85, steps: int = 50) -> Array:
    """Return the logarithm of PageRank times the number of nodes; rows of ``matrix`` are targets.

    Nodes without outgoing edges jump anywhere.
    """
    degree = np.asarray(matrix.sum(axis=0)).ravel()
    rank = np.ones(matrix.shape[0])
    for _ in range(steps):
        passed = np.divide(rank, degree, out=np.zeros_like(rank), where=degree > 0)
        lost = rank[degree == 0].sum() / len(rank)
        rank = 1 - damping + damping * (matrix @ passed + lost)
    ranks: Array = np.log(rank)
    return ranks
