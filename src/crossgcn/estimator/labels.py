"""Targets of an estimator: classes, rows without a label, rows held out, weights, and folds."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.models.cross_hops import CrossHops

Labels = NDArray[Any]

AUTO = "auto"


def encode_labels(y: Labels, unlabelled: object = AUTO) -> tuple[Labels, Tensor]:
    """Return the sorted classes and the number of each row's class, ``-1`` without a label."""
    labelled = ~find_unlabelled(y, unlabelled)
    if not labelled.any():
        raise BadInput(
            f"y marks all {len(y)} rows as unlabelled; give rows of at least two classes"
        )
    known = tidy_labels(y[labelled])
    check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(
            f"y has one class, {classes.tolist()[0]!r}, in its {len(known)} labelled rows; "
            "give rows of at least two classes"
        )
    codes = np.full(len(y), -1, dtype=np.int64)
    codes[labelled] = numbers
    return classes, torch.from_numpy(codes)


def find_unlabelled(
    y: Labels, unlabelled: object = AUTO, classes: Labels | None = None
) -> NDArray[np.bool_]:
    """Return which rows have no label.

    Args:
        unlabelled: The value that means no label, besides NaN and ``None``; ``None`` if every
            row has one. ``"auto"`` is ``-1``, as a number or as text, unless all other labels
            are ``1``: then ``-1`` and ``1`` are the two classes.
        classes: Of a fitted classifier; these values are labels.
    """
    missing: NDArray[np.bool_] = np.asarray(pd.isna(y))
    if unlabelled is None:
        if missing.any():
            raise BadInput(
                f"y row {int(np.argmax(missing))} is missing ({missing.sum()} such in all), but "
                "with unlabelled=None every row has a label; leave out unlabelled"
            )
        return missing
    if unlabelled != AUTO:
        return missing | _equal_to(y, unlabelled)
    found = _equal_to(y, -1, "-1")
    if classes is not None:
        return missing | (found & (not _equal_to(classes, -1, "-1").any()))
    others = y[~found & ~missing]
    two_classes = len(others) > 0 and _equal_to(others, 1, "1").all()
    return missing | (found & (not two_classes))


def tidy_labels(labels: Labels) -> Labels:
    """Convert an array of objects to booleans or numbers; texts are not changed."""
    if labels.dtype != object or all(isinstance(label, str) for label in labels):
        return labels
    kinds = {bool: bool | np.bool_, np.int64: Integral, np.float64: Real}
    for dtype, kind in kinds.items():
        if all(isinstance(label, kind) for label in labels):
            return labels.astype(dtype)
    types = sorted({type(label).__name__ for label in labels})
    raise BadInput(
        f"y has labels of types {' and '.join(types)}; give all as texts, all as numbers or all "
        "as booleans"
    )


def read_labels(y: Any) -> Labels:
    """Return labels as an array, in which NaN and ``None`` mean no label."""
    if isinstance(y, pd.Series | pd.Index) and not isinstance(y.dtype, np.dtype):
        y = y.astype(object)  # columns of pandas' own types, in which missing labels are NA
    labels = read_column(y)
    if labels.dtype == object and pd.isna(labels).any():
        kept = pd.isna(labels)
        labels = labels.copy()
        labels[kept] = None
    return labels


def read_column(y: Any, dtype: Any = None) -> Labels:
    """Return a target as an array with one value per row, in which NaN is allowed."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    settings = {"ensure_2d": False, "dtype": dtype, "ensure_all_finite": "allow-nan"}
    return np.asarray(column_or_1d(check_array(y, input_name="y", **settings), warn=True))


def hold_out(y: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Draw the same fraction of each class, but never all of it.

    Args:
        y: Class of each row, ``-1`` where it has none.

    Returns:
        The remaining rows, and the drawn ones; both sorted.
    """
    if not 0 < fraction < 1:
        raise BadInput(
            f"validation_fraction is {fraction}; give a number between 0 and 1, or None to train "
            "on all labelled rows"
        )
    generator = np.random.default_rng(seed)
    labels = y.numpy()
    held = np.zeros(len(labels), dtype=bool)
    for label in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == label)
        count = min(round(fraction * len(rows)), len(rows) - 1)
        held[generator.permutation(rows)[:count]] = True
    if not held.any():
        raise BadInput(
            f"validation_fraction is {fraction}, which is no row of any class; raise it, label "
            "more rows, or give None to train on all of them"
        )
    kept, drawn = (np.flatnonzero(mask) for mask in ((labels >= 0) & ~held, held))
    return torch.from_numpy(kept), torch.from_numpy(drawn)


def weigh_rows(
    rows: Tensor, X: Any, sample_weight: ArrayLike | None
) -> tuple[Tensor, Tensor | None]:
    """Return the rows whose weight is not zero, and their weights."""
    if sample_weight is None:
        return rows, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
    weights = torch.from_numpy(np.array(weight))[rows]
    if not (weights > 0).any():
        raise BadInput("sample_weight is zero for all labelled rows; give some a positive one")
    return rows[weights > 0], weights[weights > 0]


def unknown_labels(model: CrossHops, num_rows: int) -> NeighbourLabels:
    """Return labels of which none is known, for a model without its training labels.

    In place of the mean label, the mean over nodes of their neighbours' labels is shown.
    """
    plan = model.plan
    first = plan.num_columns - plan.label_hops * (plan.num_labels + 1) * (1 + plan.directed)
    return NeighbourLabels(
        torch.zeros(num_rows, plan.num_labels),
        torch.zeros(num_rows, dtype=torch.bool),
        model.center[first : first + plan.num_labels].double(),
    )


def _equal_to(labels: Labels, *values: object) -> NDArray[np.bool_]:
    """Compare each label without converting it: a number never equals a text."""
    return np.array([label in values for label in labels.tolist()], dtype=bool)


class TransductiveKFold(BaseCrossValidator):  # type: ignore[misc]
    """Folds for cross-validation on one graph: labels are held out, nodes are not.

    It is for the ``cv`` of ``GridSearchCV``, ``cross_val_score`` and the like. The labelled rows
    are shared out among the folds, classes in proportion; fractions, or more than
    20 different numbers, are no classes. Rows without a label are in no test
    fold, because no score counts them, and in every training set.

    Give ``fit`` the whole graph, ``edge_index=Data(x=X, edge_index=edges)``. An estimator is then
    trained on all nodes and edges, with the labels of the test fold hidden, and predicts the test
    fold among its neighbours.

    Args:
        n_splits: The number of folds.
        shuffle: Shuffle rows before sharing them out.
        random_state: Decides the shuffling.
        unlabelled: The value in ``y`` that means no label; as in
            :class:`~crossgcn.CrossGCNClassifier`. NaN and ``None`` mean it too.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        unlabelled: Any = AUTO,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabelled = unlabelled

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the training rows and the test rows of each fold.

        Args:
            X: Only its length counts.
            y: The labels, or the numbers to predict.
            groups: Ignored.
        """
        if y is None:
            raise BadInput("y is missing; give the labels, which decide what can be held out")
        labels = read_labels(y)
        is_number = _are_numbers(labels)
        unlabelled = None if is_number else find_unlabelled(labels, self.unlabelled)
        labelled = np.flatnonzero(~(pd.isna(labels) if unlabelled is None else unlabelled))
        if len(labelled) < self.n_splits:
            raise BadInput(
                f"y has {len(labelled)} labelled rows for {self.n_splits} folds; lower n_splits"
            )
        known = labels[labelled]
        folds = (KFold if is_number else StratifiedKFold)(
            self.n_splits,
            shuffle=self.shuffle,
            random_state=self.random_state if self.shuffle else None,
        )
        for _, test in folds.split(labelled, None if is_number else known):
            held = labelled[test]
            yield np.setdiff1d(np.arange(len(labels)), held), held


def _are_numbers(labels: Labels) -> bool:
    """Return whether a target is a number, not classes: fractions, or many different values."""
    if labels.dtype.kind not in "iuf":
        return False
    known = np.unique(labels[~np.isnan(labels.astype(np.float64))])
    return len(known) > 20 or bool((known != np.floor(known)).any())
