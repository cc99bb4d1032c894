"""Metrics of predictions, as scikit-learn defines them, and which one fits which task.

To add one, write its function and an entry of :data:`METRICS`. The command line shows the names,
so this module imports NumPy and scikit-learn only to compute.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Task = Literal["binary", "multiclass", "regression"]

_CALIBRATION_BINS = 10


def _accuracy(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import accuracy_score

    return accuracy_score(y, scores.argmax(axis=1))


def _balanced_accuracy(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import balanced_accuracy_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a predicted class without nodes
        return balanced_accuracy_score(y, scores.argmax(axis=1))


def _f1_macro(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import f1_score

    return f1_score(y, scores.argmax(axis=1), average="macro", zero_division=0)


def _roc_auc(y: Array, scores: Array, positive: int) -> Any:
    """Compute scikit-learn's ``roc_auc_score``, by ranks: fast enough for every epoch."""
    import numpy as np

    def of_class(is_class: Array, margins: Array) -> Any:
        _, place, counts = np.unique(margins, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
        positives = is_class.sum()
        pairs = positives * (len(is_class) - positives)
        return (ranks[is_class].sum() - positives * (positives + 1) / 2) / pairs

    return _one_against_the_others(of_class, y, scores, positive)


def _average_precision(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import average_precision_score

    return _one_against_the_others(average_precision_score, y, scores, positive)


def _one_against_the_others(
    of_class: Callable[[Array, Array], Any], y: Array, scores: Array, positive: int
) -> Any:
    """Compute a metric of the positive class of two, or the mean over several classes."""
    import numpy as np

    is_class = np.arange(scores.shape[1]) == y[:, None]
    present = np.flatnonzero(is_class.any(axis=0) & ~is_class.all(axis=0))
    if not present.size:
        return math.nan
    if scores.shape[1] == 2:
        # The margin ranks as the probability does, but never saturates.
        return of_class(is_class[:, positive], (scores - scores[:, ::-1])[:, positive])
    probabilities = _softmax(scores)
    return np.mean([of_class(is_class[:, c], probabilities[:, c]) for c in present])


def _log_loss(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import log_loss

    return log_loss(y, _softmax(scores), labels=list(range(scores.shape[1])))


def _brier(y: Array, scores: Array, positive: int) -> Any:
    import numpy as np

    is_class = np.arange(scores.shape[1]) == y[:, None]
    return np.square(_softmax(scores) - is_class).sum(axis=1).mean() / 2


def _calibration_error(y: Array, scores: Array, positive: int) -> Any:
    """Compute the mean gap between confidence and accuracy, over bins of confidence."""
    import numpy as np

    probabilities = _softmax(scores)
    confidence, is_correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = [
        abs(confidence[bins == each].mean() - is_correct[bins == each].mean())
        * (bins == each).mean()
        for each in np.unique(bins)
    ]
    return sum(gaps)


def _softmax(scores: Array) -> Array:
    from scipy.special import softmax

    probabilities: Array = softmax(scores, axis=1)
    return probabilities


def _r2(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import r2_score

    return r2_score(y, scores[:, 0]) if len(y) > 1 else math.nan


def _rmse(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import root_mean_squared_error

    return root_mean_squared_error(y, scores[:, 0])


def _mae(y: Array, scores: Array, positive: int) -> Any:
    from sklearn.metrics import mean_absolute_error

    return mean_absolute_error(y, scores[:, 0])


@dataclass(frozen=True)
class Metric:
    """A metric of classes or of numbers.

    Attributes:
        title: How it is shown.
        function: Takes labels; scores ``[nodes, classes]`` before softmax, or numbers
            ``[nodes, 1]``; and the positive class of two. NaN where it is not defined.
        of_numbers: It is for numbers, not for classes.
        shown: How its values are shown.
    """

    title: str
    function: Callable[[Array, Array, int], Any]
    greater_is_better: bool = True
    of_numbers: bool = False
    shown: Literal["percent", "number", "in unit of target"] = "percent"

    @property
    def sign(self) -> int:
        """What values are multiplied by so that greater ones are better."""
        return 1 if self.greater_is_better else -1

    def fits(self, task: Task) -> bool:
        """Whether it measures predictions of a task."""
        return self.of_numbers == (task == "regression")


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", _accuracy),
    "roc_auc": Metric("ROC-AUC", _roc_auc),
    "average_precision": Metric("average precision", _average_precision),
    "balanced_accuracy": Metric("balanced accuracy", _balanced_accuracy),
    "f1_macro": Metric("macro F1", _f1_macro),
    "log_loss": Metric("log loss", _log_loss, greater_is_better=False, shown="number"),
    "brier": Metric("Brier score", _brier, greater_is_better=False, shown="number"),
    "calibration_error": Metric("calibration error", _calibration_error, greater_is_better=False),
    "r2": Metric("R²", _r2, of_numbers=True, shown="number"),
    "rmse": Metric(
        "RMSE", _rmse, greater_is_better=False, of_numbers=True, shown="in unit of target"
    ),
    "mae": Metric("MAE", _mae, greater_is_better=False, of_numbers=True, shown="in unit of target"),
}
"""Every metric by name. Of several classes, ROC-AUC and average precision are means over the
classes, each against the others. Of two, average precision is that of :func:`positive_class`."""

DEFAULT_METRICS: Mapping[Task, str] = {
    "binary": "roc_auc",
    "multiclass": "accuracy",
    "regression": "r2",
}
"""The metric that selects epochs and settings on tables."""


def task_of_outputs(num_outputs: int) -> Task:
    """Return the task of a model by its number of outputs: one is a number."""
    if num_outputs == 1:
        return "regression"
    return "binary" if num_outputs == 2 else "multiclass"


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
    """Return every metric of a task; NaN where one is not defined, as ROC-AUC of one class.

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
        if metric.fits(task)
    }


def compute(name: str, y: Array, scores: Array, positive: int | None = None) -> float:
    """Return one metric; see :func:`evaluate`."""
    import numpy as np

    scores = scores.astype(np.float64)
    if not np.isfinite(scores).all():
        return math.nan
    positive = positive_class(y) if positive is None else positive
    return float(METRICS[name].function(y, scores, positive))
