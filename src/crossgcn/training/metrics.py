"""Metrics of predictions as scikit-learn defines them, and the tasks that they fit.

To add a metric, add an entry to :data:`METRICS` and compute it in :func:`compute`. The command line
shows the names, so this module imports NumPy and scikit-learn only to compute.
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

_CALIBRATION_BINS = 10

_MATTERS = 0.005


@dataclass(frozen=True)
class Metric:
    """A metric of classes or of numbers.

    Attributes:
        title: How it is shown.
        of_numbers: Whether it measures predicted numbers instead of classes.
        shown: How its values are shown.
    """

    title: str
    greater_is_better: bool = True
    of_numbers: bool = False
    shown: Literal["percent", "number", "in unit of target"] = "percent"

    @property
    def sign(self) -> int:
        """1, or -1 if smaller values are better: greater products are better."""
        return 1 if self.greater_is_better else -1

    def fits(self, task: Task) -> bool:
        """Whether it measures predictions of a task."""
        return self.of_numbers == (task == "regression")


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy"),
    "roc_auc": Metric("ROC-AUC"),
    "average_precision": Metric("average precision"),
    "balanced_accuracy": Metric("balanced accuracy"),
    "f1_macro": Metric("macro F1"),
    "log_loss": Metric("log loss", greater_is_better=False, shown="number"),
    "brier": Metric("Brier score", greater_is_better=False, shown="number"),
    "calibration_error": Metric("calibration error", greater_is_better=False),
    "r2": Metric("R²", of_numbers=True, shown="number"),
    "rmse": Metric("RMSE", greater_is_better=False, of_numbers=True, shown="in unit of target"),
    "mae": Metric("MAE", greater_is_better=False, of_numbers=True, shown="in unit of target"),
}
"""Every metric by name. For several classes, ROC-AUC and average precision are one-vs-rest, macro
averaged. For two classes, average precision is that of :func:`positive_class`."""

OF_PROBABILITIES = ("calibration_error", "log_loss", "brier")
"""The metrics that calibration is for."""

DEFAULT_METRICS: Mapping[Task, str] = {
    "binary": "roc_auc",
    "multiclass": "accuracy",
    "regression": "r2",
}
"""The metric that selects epochs and settings on tables."""


def task_of_outputs(num_outputs: int) -> Task:
    """Return the task of a model by its number of outputs; one output is a number."""
    if num_outputs == 1:
        return "regression"
    return "binary" if num_outputs == 2 else "multiclass"


def smallest_that_matters(name: str, value: float) -> float:
    """Return the smallest difference that matters: 0.005, or 0.5 % of ``value`` for RMSE, MAE."""
    return _MATTERS * abs(value) if name in ("rmse", "mae") else _MATTERS


def check_metric(name: str, task: Task) -> str:
    """Return a metric's name if it fits the task."""
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    if not METRICS[name].fits(task):
        target = "a number" if task == "regression" else "classes"
        fitting = ", ".join(each for each, metric in METRICS.items() if metric.fits(task))
        raise BadInput(
            f"metric {name!r} does not fit a target of {target}; choose one of {fitting}"
        )
    return name


def selecting_metric(name: str | None, num_outputs: int) -> str:
    """Return the metric that selects epochs: by default the accuracy, or R² of a number."""
    task = task_of_outputs(num_outputs)
    return check_metric(name or ("r2" if task == "regression" else "accuracy"), task)


def check_defined(name: str, y: Array, num_outputs: int) -> None:
    """Refuse validation nodes on which a metric is not defined, such as ROC-AUC of one class."""
    import numpy as np

    if len(y) and math.isnan(compute(name, y, np.zeros((len(y), num_outputs)))):
        labels = f"all of class {y[0]}" if num_outputs > 1 else "fewer than two"
        raise BadInput(
            f"metric {name!r} cannot be computed on the validation nodes, which are {labels}: give "
            "more validation nodes, or another metric"
        )


def positive_class(y: Array) -> int:
    """Return the rarer of two classes, the second if both are equally frequent."""
    return int((y == 1).sum() <= (y == 0).sum())


def evaluate(y: Array, scores: Array, positive: int | None = None) -> dict[str, float]:
    """Return every metric of a task, NaN where it is not defined, such as ROC-AUC of one class.

    Args:
        y: Class or number of each node.
        scores: Logits, ``[nodes, classes]``, or predicted numbers, ``[nodes, 1]``.
        positive: For two classes, the class of the average precision; by default the rarer one.
    """
    task = task_of_outputs(scores.shape[1])
    return {
        name: compute(name, y, scores, positive)
        for name, metric in METRICS.items()
        if metric.fits(task)
    }


def evaluate_constant(
    known: Array, y: Array, num_outputs: int, positive: int | None = None
) -> dict[str, float]:
    """Evaluate the constant prediction of the class shares, or the mean, of ``known`` labels."""
    import numpy as np

    if num_outputs == 1:
        row = np.array([known.mean()])
    else:
        row = np.log(np.bincount(known, minlength=num_outputs).clip(min=0.5) / len(known))
    return evaluate(y, np.tile(row, (len(y), 1)), positive)


def compute(name: str, y: Array, scores: Array, positive: int | None = None) -> float:
    """Return one metric, NaN where it is not defined; for the arguments see :func:`evaluate`."""
    import numpy as np

    scores = scores.astype(np.float64)
    if not np.isfinite(scores).all():
        return math.nan
    if METRICS[name].of_numbers:
        return float(_compute_of_numbers(name, y, scores[:, 0]))
    positive = positive_class(y) if positive is None else positive
    return float(_compute_of_classes(name, y, scores, positive))


def _compute_of_numbers(name: str, y: Array, predicted: Array) -> Any:
    from sklearn import metrics

    if name == "r2":
        return metrics.r2_score(y, predicted) if len(y) > 1 else math.nan
    if name == "rmse":
        return metrics.root_mean_squared_error(y, predicted)
    return metrics.mean_absolute_error(y, predicted)


def _compute_of_classes(name: str, y: Array, scores: Array, positive: int) -> Any:
    import numpy as np
    from scipy.special import softmax
    from sklearn import metrics

    predicted = scores.argmax(axis=1)
    if name == "accuracy":
        return metrics.accuracy_score(y, predicted)
    if name == "balanced_accuracy":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a predicted class without nodes
            return metrics.balanced_accuracy_score(y, predicted)
    if name == "f1_macro":
        return metrics.f1_score(y, predicted, average="macro", zero_division=0)
    probabilities = softmax(scores, axis=1)
    if name == "log_loss":
        return metrics.log_loss(y, probabilities, labels=list(range(scores.shape[1])))
    if name == "calibration_error":
        return _calibration_error(probabilities.max(axis=1), predicted == y)
    is_class = np.arange(scores.shape[1]) == y[:, None]
    if name == "brier":
        return np.square(probabilities - is_class).sum(axis=1).mean() / 2
    measure = {"roc_auc": _roc_auc, "average_precision": metrics.average_precision_score}[name]
    present = np.flatnonzero(is_class.any(axis=0) & ~is_class.all(axis=0))
    if not present.size:
        return math.nan
    if scores.shape[1] == 2:
        # The margin ranks nodes as the probability does, but never saturates.
        return measure(is_class[:, positive], (scores - scores[:, ::-1])[:, positive])
    return np.mean([measure(is_class[:, c], probabilities[:, c]) for c in present])


def _roc_auc(is_class: Array, margins: Array) -> Any:
    """Compute scikit-learn's ``roc_auc_score`` from ranks, fast enough for every epoch."""
    import numpy as np

    _, place, counts = np.unique(margins, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positives = is_class.sum()
    pairs = positives * (len(is_class) - positives)
    return (ranks[is_class].sum() - positives * (positives + 1) / 2) / pairs


def _calibration_error(confidence: Array, is_correct: Array) -> Any:
    """Compute the mean gap between confidence and accuracy, over bins of confidence."""
    import numpy as np

    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = [
        abs(confidence[bins == each].mean() - is_correct[bins == each].mean())
        * (bins == each).mean()
        for each in np.unique(bins)
    ]
    return sum(gaps)
