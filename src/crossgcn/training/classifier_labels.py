"""Labels as scikit-learn's users give them, and as models take them."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from crossgcn.errors import BadInput

__all__ = ["describe_labels", "encode_labels", "find_unlabelled", "restore_labels", "tidy_labels"]

Labels = NDArray[Any]

AUTO = "auto"


def encode_labels(y: Labels, unlabelled: object = AUTO) -> tuple[Labels, Tensor]:
    """Number the classes.

    Args:
        y: A label per row.
        unlabelled: As for :func:`find_unlabelled`.

    Returns:
        The classes, sorted, and the number of each row's class, ``-1`` where it has no label.

    Raises:
        BadInput: If there are fewer than two classes, or labels of several kinds.
        ValueError: If the labels are no classes, such as the target of a regression.
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
    """Tell the rows that have no label.

    Args:
        y: A label per row.
        unlabelled: The value that stands for no label; ``None`` where every row has one.
            ``"auto"`` is ``-1``, as a number or as text, unless all other labels are ``1``:
            then ``-1`` and ``1`` are the two classes.
        classes: Of a classifier that is fitted already; none of them is no label.
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
    """Truth values and numbers out of an array of objects; texts stay as they are.

    Raises:
        BadInput: If there are labels of several kinds, which have no order.
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
        "as truth values"
    )


def describe_labels(classes: Labels) -> dict[str, Any]:
    """The classes as JSON can hold them, their type included."""
    return {"dtype": classes.dtype.str, "values": classes.tolist()}


def restore_labels(description: Mapping[str, Any], count: int) -> Labels:
    """The classes that :func:`describe_labels` described.

    Args:
        description: What it gave.
        count: How many classes there should be.

    Raises:
        BadInput: If it describes other than that many.
    """
    try:
        classes: Labels = np.array(description["values"], dtype=np.dtype(description["dtype"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the saved labels cannot be read ({error}); save the model again") from None
    if classes.shape != (count,):
        raise BadInput(f"{classes.size} labels are saved for {count} classes; save the model again")
    return classes


def _equal_to(labels: Labels, *values: object) -> NDArray[np.bool_]:
    """Element by element, so that a number and a text are different and nothing is converted."""
    return np.array([label in values for label in labels.tolist()], dtype=bool)
