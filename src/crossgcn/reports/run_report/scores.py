"""Measure the predictions of one model: class by class, as probabilities, or as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support


class ClassScore(NamedTuple):
    """Scores of one class; ``None`` where they are not defined."""

    name: str
    support: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class Confusion:
    """How often each class (column of ``counts``) was predicted for each true class (row)."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    scores: tuple[ClassScore, ...]
    accuracy: float | None

    @classmethod
    def measure(cls, classes: Sequence[str], truth: Any, predicted: Any) -> Self:
        """Compare true and predicted classes, given as positions in ``classes``."""
        truth, predicted = np.asarray(truth, np.int64), np.asarray(predicted, np.int64)
        labels = range(len(classes))
        if not truth.size:
            nothing = tuple(ClassScore(name, 0, None, None, None) for name in classes)
            return cls(tuple(classes), ((0,) * len(classes),) * len(classes), nothing, None)
        counts = confusion_matrix(truth, predicted, labels=labels)
        columns = precision_recall_fscore_support(
            truth, predicted, labels=labels, zero_division=np.nan
        )
        scores = tuple(
            ClassScore(name, int(support), *(None if np.isnan(v) else float(v) for v in values))
            for name, *values, support in zip(classes, *columns, strict=True)
        )
        accuracy = float(accuracy_score(truth, predicted))
        return cls(tuple(classes), tuple(map(tuple, counts.tolist())), scores, accuracy)

    @property
    def total(self) -> int:
        """Number of nodes."""
        return sum(map(sum, self.counts))


class ReliabilityBin(NamedTuple):
    """Predictions of similar confidence: their mean confidence, accuracy and number."""

    confidence: float
    accuracy: float
    size: int


@dataclass(frozen=True)
class Calibration:
    """Whether predictions made with 80 % confidence are right 80 % of the time.

    ``bins`` are in ascending order of confidence; empty ones are left out.
    """

    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def measure(cls, confidence: Any, correct: Any, num_bins: int = 10) -> Self:
        """Sort predictions, each right or wrong, into bins of their probability."""
        given, right = np.asarray(confidence, np.float64), np.asarray(correct, np.int64)
        if not given.size:
            return cls(())
        accuracy, mean = calibration_curve(right, given, n_bins=num_bins)
        edges = np.linspace(0.0, 1.0, num_bins + 1)  # as in calibration_curve
        counts = np.bincount(np.searchsorted(edges[1:-1], given))
        rows = zip(mean.tolist(), accuracy.tolist(), counts[counts > 0].tolist(), strict=True)
        return cls(tuple(ReliabilityBin(*row) for row in rows))

    @property
    def total(self) -> int:
        """Number of predictions."""
        return sum(each.size for each in self.bins)

    @property
    def expected_error(self) -> float | None:
        """Mean distance between confidence and accuracy, weighted by predictions."""
        if not self.bins:
            return None
        distance = sum(each.size * abs(each.confidence - each.accuracy) for each in self.bins)
        return distance / self.total


@dataclass(frozen=True)
class Errors:
    """Predicted numbers beside the true ones.

    Attributes:
        points: True and predicted number of some nodes, spread evenly over all.
        total: Number of all nodes.
        middle: Half of the predictions are at most this far from the truth.
    """

    points: tuple[tuple[float, float], ...]
    total: int
    middle: float

    @classmethod
    def measure(cls, truth: Any, predicted: Any, most: int = 1_000) -> Self:
        """Compare true and predicted numbers, of at least one node."""
        pairs = np.stack([truth, predicted], axis=1).astype(np.float64)
        kept = np.unique(np.linspace(0, len(pairs) - 1, most).round().astype(int))
        middle = float(np.median(np.abs(pairs[:, 1] - pairs[:, 0])))
        return cls(tuple(map(tuple, pairs[kept].tolist())), len(pairs), middle)
