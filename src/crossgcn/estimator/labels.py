"""Labels of a classifier: their classes, rows without a label, and rows held out."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from crossgcn.errors import BadInput

Labels = NDArray[Any]

AUTO = "auto"


def encode_labels(y: Labels, unlabelled: object = AUTO) -> tuple[Labels, Tensor]:
    """Return the sorted classes and the number of each row's class, ``-1`` without a label.

    Raises:
        BadInput: If there are fewer than two classes, or labels of several types.
        ValueError: If the labels are not classes, such as the target of a regression.
    """
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
        unlabelled: The value that means no label; ``None`` if every row has one. ``"auto"`` is
            ``-1``, as a number or as text, unless all other labels are ``1``: then ``-1`` and
            ``1`` are the two classes.
        classes: Of a fitted classifier; these values are labels.
    """
    missing = [row for row, label in enumerate(y.tolist()) if label is None]
    if missing:
        raise BadInput(
            f"y row {missing[0]} is None ({len(missing)} such in all); mark rows without a label "
            "by -1"
        )
    if unlabelled is None:
        return np.zeros(len(y), dtype=bool)
    if unlabelled != AUTO:
        return _equal_to(y, unlabelled)
    found = _equal_to(y, -1, "-1")
    if classes is not None:
        return found & (not _equal_to(classes, -1, "-1").any())
    others = y[~found]
    two_classes = len(others) > 0 and _equal_to(others, 1, "1").all()
    return found & (not two_classes)


def tidy_labels(labels: Labels) -> Labels:
    """Convert an array of objects to booleans or numbers; texts are not changed.

    Raises:
        BadInput: If there are labels of several types, which cannot be sorted.
    """
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


def refuse_missing_labels(y: Any) -> None:
    """Tell users of pandas how to mark missing labels; scikit-learn's message does not."""
    if not hasattr(y, "isna"):
        return
    missing = np.flatnonzero(np.asarray(y.isna()).reshape(len(y), -1).any(axis=1))
    if len(missing):
        raise BadInput(
            f"y row {missing[0]} is missing ({len(missing)} such in all); mark rows without a "
            "label by -1, for example with y.fillna(-1)"
        )


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


def _equal_to(labels: Labels, *values: object) -> NDArray[np.bool_]:
    """Compare each label without converting it: a number never equals a text."""
    return np.array([label in values for label in labels.tolist()], dtype=bool)
