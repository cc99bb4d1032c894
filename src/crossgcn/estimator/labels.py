"""Targets of an estimator: classes, rows without a label, rows held out, weights, and folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from crossgcn.errors import BadInput

Labels = NDArray[Any]


def read_column(y: Any, dtype: Any = None) -> Labels:
    """Return a target as an array with one value per row, in which NaN is allowed."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    settings = {"ensure_2d": False, "dtype": dtype, "ensure_all_finite": "allow-nan"}
    return np.asarray(column_or_1d(check_array(y, input_name="y", **settings), warn=True))


def read_labels(y: Any) -> Labels:
    """Return labels as an array, in which NaN and ``None`` mean no label."""
    if isinstance(y, pd.Series | pd.Index) and not isinstance(y.dtype, np.dtype):
        y = y.astype(object)  # columns of pandas' own types, in which missing labels are NA
    labels = read_column(y)
    if labels.dtype == object:
        labels = labels.copy()
        labels[pd.isna(labels)] = None
    return labels


def read_targets(y: Any, kind: str) -> tuple[Tensor, Labels | None]:
    """Return the number of each row's class, ``-1`` without a label, and the sorted classes.

    For a regressor, return the number of each row, NaN if it is not known, and ``None``.
    """
    if kind == "regressor":
        numbers = torch.from_numpy(np.array(read_column(y, np.float64)))
        if numbers.isnan().all():
            raise BadInput(f"y is NaN in all {len(numbers)} rows; give rows that have a target")
        return numbers, None
    labels = read_labels(y)
    labelled = ~find_unlabelled(labels)
    if not labelled.any():
        raise BadInput(
            f"y marks all {len(labels)} rows as unlabelled; give rows of at least two classes"
        )
    known = tidy_labels(labels[labelled])
    check_classification_targets(known)
    classes, codes = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(
            f"y has one class, {classes.tolist()[0]!r}, in its {len(known)} labelled rows; "
            "give rows of at least two classes"
        )
    numbers = torch.full((len(labels),), -1)
    numbers[torch.from_numpy(labelled)] = torch.from_numpy(codes)
    return numbers, classes


def find_unlabelled(y: Labels, classes: Labels | None = None) -> NDArray[np.bool_]:
    """Return which rows have no label: NaN, ``None``, and ``-1`` as a number or as text.

    If all other labels are ``1``, then ``-1`` and ``1`` are the two classes.

    Args:
        classes: Those of a fitted classifier; by default the labels of ``y``.
    """
    missing: NDArray[np.bool_] = np.asarray(pd.isna(y))
    is_minus_one = np.array([label in (-1, "-1") for label in y.tolist()], dtype=bool)
    labels = y[~missing] if classes is None else classes
    is_class = set(labels.tolist()) - {-1, "-1"} in ({1}, {"1"})
    return missing if is_class else missing | is_minus_one


def tidy_labels(labels: Labels) -> Labels:
    """Convert an array of objects to booleans or numbers; texts are not changed."""
    if labels.dtype != object:
        return labels
    tidy: Labels = pd.Series(labels, dtype=object).infer_objects().to_numpy()
    types = sorted({type(label).__name__ for label in tidy})
    if tidy.dtype == object and types != ["str"]:
        raise BadInput(
            f"y has labels of types {' and '.join(types)}; give all as texts, all as numbers or "
            "all as booleans"
        )
    return tidy


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


def weigh_classes(class_weight: Any, classes: Labels) -> Any:
    """Return the weights of classes as :class:`~crossgcn.RunConfig` takes them."""
    if isinstance(class_weight, Mapping):
        weights = compute_class_weight(dict(class_weight), classes=classes, y=classes)
        return tuple(weights.tolist())
    if class_weight not in (None, "balanced"):
        raise BadInput(
            f"class_weight is {class_weight!r}; give 'balanced', or a mapping from class to weight"
        )
    return class_weight


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


class TransductiveKFold(BaseCrossValidator):  # type: ignore[misc]
    """Folds for cross-validation on one graph: labels are held out, nodes are not.

    It is for the ``cv`` of ``GridSearchCV``, ``cross_val_score`` and the like. The labelled rows
    are shared out among the folds, classes in proportion; fractions, or more than 20 different
    numbers, are no classes. Rows without a label (``-1``, NaN or ``None``; of numbers, NaN) are
    in no test fold, because no score counts them, and in every training set.

    Give the estimator the whole graph, ``graph=Data(x=X, edge_index=edges)``. It is then trained
    on all nodes and edges, with the labels of the test fold hidden, and predicts the test fold
    among its neighbours.

    Args:
        n_splits: The number of folds.
        shuffle: Shuffle rows before sharing them out.
        random_state: Decides the shuffling.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the training rows and the test rows of each fold.

        Args:
            X: Ignored, as ``groups`` is.
            y: The labels, or the numbers to predict.
        """
        labels = read_labels(y)
        is_number = _are_numbers(labels)
        unlabelled = pd.isna(labels) if is_number else find_unlabelled(labels)
        labelled = np.flatnonzero(~unlabelled)
        folds = (KFold if is_number else StratifiedKFold)(
            self.n_splits,
            shuffle=self.shuffle,
            random_state=self.random_state if self.shuffle else None,
        )
        for _, test in folds.split(labelled, tidy_labels(labels[labelled])):
            held = labelled[test]
            yield np.setdiff1d(np.arange(len(labels)), held), held


def _are_numbers(labels: Labels) -> bool:
    """Return whether a target is a number, not classes: fractions, or many different values."""
    if labels.dtype.kind not in "iuf":
        return False
    known = np.unique(labels[~np.isnan(labels.astype(np.float64))])
    return len(known) > 20 or bool((known != np.floor(known)).any())
