"""Metrics of predictions, as scikit-learn defines them, and which one fits which task.

The command line shows the names, so this module imports NumPy and scikit-learn only to compute.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Task = Literal["binary", "multiclass", "regression"]

_CLASSES: tuple[Task, ...] = ("binary", "multiclass")
_NUMBER: tuple[Task, ...] = ("regression",)


@dataclass(frozen=True)
class Metric:
    """A metric: the tasks it fits, whether it should grow, and how it is shown."""

    title: str
    tasks: tuple[Task, ...]
    grows: bool = True
    shown: Literal["percent", "number", "in unit of target"] = "percent"


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", _CLASSES),
    "roc_auc": Metric("ROC-AUC", _CLASSES),
    "average_precision": Metric("average precision", _CLASSES),
    "balanced_accuracy": Metric("balanced accuracy", _CLASSES),
    "f1_macro": Metric("macro F1", _CLASSES),
    "log_loss": Metric("log loss", _CLASSES, grows=False, shown="number"),
    "brier": Metric("Brier score", _CLASSES, grows=False, shown="number"),
    "calibration_error": Metric("calibration error", _CLASSES, grows=False),
    "r2": Metric("R²", _NUMBER, shown="number"),
    "rmse": Metric("RMSE", _NUMBER, grows=False, shown="in unit of target"),
    "mae": Metric("MAE", _NUMBER, grows=False, shown="in unit of target"),
}
"""Every metric by name. Of several classes, ROC-AUC and average precision are means over the
classes, each against the others. Of two, average precision is that of :func:`positive_class`."""

DEFAULT_METRICS: Mapping[Task, str] = {
    "binary": "roc_auc",
    "multiclass": "accuracy",
    "regression": "r2",
}
"""The metric that selects epochs and settings on tables."""

_BINS = 10


def task_of_outputs(num_classes: int) -> Task:
    """Return the task of a model by its number of outputs: one is a number."""
    return {1: "regression", 2: "binary"}.get(num_classes, "multiclass")  # type: ignore[return-value]


def check_metric(name: str, task: Task) -> str:
    """Return a metric's name if it fits the task."""
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    if task not in METRICS[name].tasks:
        target = "a number" if task == "regression" else "classes"
        fitting = ", ".join(each for each, metric in METRICS.items() if task in metric.tasks)
        raise BadInput(
            f"metric {name!r} does not fit a target of {target}; choose one of {fitting}"
        )
    return name


def selecting_metric(name: str | None, num_classes: int) -> str:
    """Return the metric that selects epochs: by default the accuracy, or R² of a number."""
    task = task_of_outputs(num_classes)
    return check_metric(name or ("r2" if task == "regression" else "accuracy"), task)


def check_defined(name: str, y: Array, num_classes: int) -> None:
    """Refuse validation nodes on which a metric is not defined, such as ROC-AUC of one class."""
    import numpy as np

    if len(y) and math.isnan(compute(name, y, np.zeros((len(y), num_classes)))):
        held = f"all of class {y[0]}" if num_classes > 1 else "fewer than two"
        raise BadInput(
            f"metric {name!r} cannot be computed on the validation nodes, which are {held}: give "
            "more validation nodes, or another metric"
        )


def positive_class(y: Array) -> int:
    """Return the rarer of two classes, the second if both are equally frequent."""
    return int((y == 1).sum() <= (y == 0).sum())


def evaluate(y: Array, scores: Array, positive: int | None = None) -> dict[str, float]:
    """Return every metric of some nodes; NaN where one is not defined, as ROC-AUC of one class.

    Args:
        y: Class of each node, or its number.
        scores: Of each class, before softmax, ``[nodes, classes]``; or numbers, ``[nodes, 1]``.
        positive: Of two classes, that of the average precision; by default the rarer one of
            these nodes.
    """
    task = task_of_outputs(scores.shape[1])
    return {
        name: compute(name, y, scores, positive)
        for name, metric in METRICS.items()
        if task in metric.tasks
    }


def compute(
    name: str,
    y: Array,
    scores: Array,
    positive: int | None = None,
) -> float:
    """Return one metric; see :func:`evaluate`."""
    import numpy as np
    from scipy.special import softmax
    from sklearn import metrics

    scores = scores.astype(np.float64)
    if not np.isfinite(scores).all():
        return math.nan
    if name == "r2":
        return float(metrics.r2_score(y, scores[:, 0])) if len(y) > 1 else math.nan
    if name == "rmse":
        return float(metrics.root_mean_squared_error(y, scores[:, 0]))
    if name == "mae":
        return float(metrics.mean_absolute_error(y, scores[:, 0]))
    num_classes = scores.shape[1]
    if name in ("accuracy", "balanced_accuracy", "f1_macro"):
        predicted = scores.argmax(axis=1)
        if name == "accuracy":
            return float(metrics.accuracy_score(y, predicted))
        if name == "balanced_accuracy":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # a predicted class without nodes
                return float(metrics.balanced_accuracy_score(y, predicted))
        return float(metrics.f1_score(y, predicted, average="macro", zero_division=0))
    probabilities = softmax(scores, axis=1)
    one_hot = np.eye(num_classes)[y]
    if name == "log_loss":
        return float(metrics.log_loss(y, probabilities, labels=np.arange(num_classes)))
    if name == "brier":
        return float(np.square(probabilities - one_hot).sum(axis=1).mean() / 2)
    if name == "calibration_error":
        return _calibration_error(y, probabilities)
    present = np.flatnonzero(one_hot.any(axis=0) & ~one_hot.all(axis=0))
    if not present.size:
        return math.nan
    # For two classes the margin ranks as the probability does, but never saturates.
    margins = scores - scores[:, ::-1] if num_classes == 2 else probabilities
    columns = present.tolist()
    if num_classes == 2:
        columns = [positive_class(y) if positive is None else positive]
    function = _roc_auc if name == "roc_auc" else metrics.average_precision_score
    return float(np.mean([function(one_hot[:, each], margins[:, each]) for each in columns]))


def _roc_auc(y: Array, scores: Array) -> float:
    """Return scikit-learn's ``roc_auc_score``, by ranks: fast enough for every epoch."""
    import numpy as np

    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive = y > 0
    of_class = positive.sum()
    pairs = of_class * (len(y) - of_class)
    return float((ranks[positive].sum() - of_class * (of_class + 1) / 2) / pairs)


def _calibration_error(y: Array, probabilities: Array) -> float:
    """Return the mean gap between confidence and accuracy, over ten bins of confidence."""
    import numpy as np

    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = [
        abs(confidence[bins == each].mean() - right[bins == each].mean()) * (bins == each).mean()
        for each in np.unique(bins)
    ]
    return float(sum(gaps))
