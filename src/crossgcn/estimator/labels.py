"""Targets of an estimator: classes or numbers, rows without one, rows held out, weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from crossgcn.data.graph import is_labelled
from crossgcn.errors import BadInput

Labels = NDArray[Any]


def read_targets(y: Any, kind: str) -> tuple[Tensor, Labels | None]:
    """Return the number of each row's class, ``-1`` if unknown, and the sorted classes.

    For a regressor, return the number of each row, NaN if it is unknown, and ``None``.
    """
    values, known = read_known(y, kind)
    if kind == "regressor":
        numbers = np.full(len(known), np.nan)
        numbers[known] = values
        return torch.from_numpy(numbers), None
    check_classification_targets(values)
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(
            f"y has one class, {classes.tolist()[0]!r}, in its {len(values)} labelled rows; "
            "give rows of at least two classes"
        )
    numbers = np.full(len(known), -1)
    numbers[known] = codes
    return torch.from_numpy(numbers), classes


def read_known(
    y: Any, kind: str, classes: Labels | None = None
) -> tuple[Labels, NDArray[np.bool_]]:
    """Return the known targets, and which rows they are of.

    The target of a regressor is unknown where it is NaN. A label is unknown where it is NaN,
    ``None`` or ``-1``, as a number or as text. If all other labels are ``1``, then ``-1`` and
    ``1`` are the two classes.

    Args:
        classes: Those of a fitted classifier; by default the labels of ``y``.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, pd.Series) and not isinstance(y.dtype, np.dtype):
        y = y.astype(object)  # scikit-learn would turn whole numbers of pandas into floats
    dtype = np.float64 if kind == "regressor" else None
    y = check_array(y, ensure_2d=False, dtype=dtype, ensure_all_finite="allow-nan", input_name="y")
    targets: Labels = column_or_1d(y, warn=True)
    known = ~np.asarray(pd.isna(targets))
    if kind == "classifier":
        labels = set((targets[known] if classes is None else classes).tolist())
        if labels - {-1, "-1"} not in ({1}, {"1"}):
            known &= ~pd.Series(targets).isin([-1, "-1"]).to_numpy()
    if not known.any():
        raise BadInput("the target is unknown in all rows of y; give rows that have one")
    values = targets[known]
    if values.dtype == object:
        values = _infer_type(values)
    return values, known


def _infer_type(labels: Labels) -> Labels:
    """Convert an array of objects to booleans or numbers; texts are not changed."""
    inferred: Labels = pd.Series(labels, dtype=object).infer_objects().to_numpy()
    types = sorted({type(label).__name__ for label in inferred})
    if inferred.dtype == object and types != ["str"]:
        raise BadInput(
            f"y has labels of types {' and '.join(types)}; give all as texts, all as numbers or "
            "all as booleans"
        )
    return inferred


def expand(targets: Tensor, nodes: Tensor, num_nodes: int) -> Tensor:
    """Return the targets of all nodes, unknown where none is given."""
    unknown = torch.nan if targets.is_floating_point() else -1
    y = torch.full((num_nodes,), unknown, dtype=targets.dtype)
    y[nodes] = targets
    return y


def weigh_rows(
    targets: Tensor, classes: Labels | None, X: Any, sample_weight: Any, class_weight: Any
) -> tuple[Tensor, Tensor | None]:
    """Return the rows to train on, and the weight of every row if they differ.

    Rows without a target or of weight 0 are left out. The weight of a row is that of the row
    times that of its class.
    """
    known = is_labelled(targets)
    if sample_weight is None and class_weight is None:
        return known.nonzero().flatten(), None
    checked = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    weights = torch.tensor(checked)
    if classes is not None and class_weight is not None:
        of_class = compute_sample_weight(class_weight, classes[targets[known]])
        weights[known] *= torch.from_numpy(of_class)
    rows = (known & (weights > 0)).nonzero().flatten()
    if not len(rows):
        raise BadInput(
            "the weight is zero for all labelled rows; give some a positive sample_weight and "
            "class_weight"
        )
    return rows, weights.float()


def refuse_contradictions(given: Mapping[str, Any]) -> None:
    """Refuse parameters that need held-out rows, and those that ``tuning`` chooses."""
    needing = {
        "patience": given["patience"] is not None,
        "metric": given["metric"] is not None,
        "columns": isinstance(given["columns"], str) and given["columns"] == "auto",
        "tuning": isinstance(given["tuning"], int) and given["tuning"] > 1,
    }
    for name, needs_rows in needing.items():
        if needs_rows and given["validation_fraction"] is None:
            raise BadInput(
                f"{name} is {given[name]!r}, but no rows are held out; give "
                f"validation_fraction, for example 0.2, or leave out {name}"
            )
    for name in ("dropout", "weight_decay", "learning_rate"):
        value = given[name]
        if given["tuning"] is not None and value is not None:
            raise BadInput(
                f"{name} is {value!r}, but tuning chooses it; leave out tuning or {name}"
            )


def hold_out(
    rows: Tensor, labels: Labels | None, fraction: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and the held-out rows, both sorted.

    Args:
        labels: The class of each of the ``rows``, to hold out the same fraction of each class.
    """
    if not 0 < fraction < 1:
        raise BadInput(
            f"validation_fraction is {fraction}; give a number between 0 and 1, or None to train "
            "on all labelled rows"
        )
    try:
        train, held_out = train_test_split(
            rows.numpy(), test_size=fraction, random_state=seed, stratify=labels
        )
    except ValueError as error:
        raise BadInput(
            f"validation_fraction is {fraction}, but the rows cannot be divided ({error}); give "
            "another fraction, or None to train on all labelled rows"
        ) from None
    return torch.from_numpy(np.sort(train)), torch.from_numpy(np.sort(held_out))
