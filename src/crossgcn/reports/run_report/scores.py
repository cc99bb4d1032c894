"""How good the predictions of one model are: class by class, and as probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True)
class ClassScore:
    """What became of one class; none where there is nothing to divide by.

    Attributes:
        name: The class.
        support: How many nodes are of it.
        predicted: How many were taken for it.
        precision: Of those taken for it, the share that is.
        recall: Of those that are, the share that was found.
        f1: Their harmonic mean.
    """

    name: str
    support: int
    predicted: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class Confusion:
    """How often each class was taken for each.

    Attributes:
        classes: Their names.
        counts: A row for each true class, a column for each predicted one.
    """

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def total(self) -> int:
        """How many nodes were counted."""
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float | None:
        """The share on the diagonal; none without nodes."""
        right = sum(row[position] for position, row in enumerate(self.counts))
        return right / self.total if self.total else None

    @property
    def scores(self) -> tuple[ClassScore, ...]:
        """Precision, recall and F1 of each class."""
        return tuple(self._score(position) for position in range(len(self.classes)))

    def _score(self, position: int) -> ClassScore:
        right = self.counts[position][position]
        support = sum(self.counts[position])
        predicted = sum(row[position] for row in self.counts)
        return ClassScore(
            self.classes[position],
            support,
            predicted,
            right / predicted if predicted else None,
            right / support if support else None,
            2 * right / (support + predicted) if support + predicted else None,
        )


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions of about the same confidence.

    Attributes:
        confidence: The mean probability given to the predicted class.
        accuracy: The share that was right.
        count: How many predictions.
    """

    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True)
class Calibration:
    """Whether a probability of 80 % is right four times in five.

    Attributes:
        bins: By rising confidence, none of them empty.
    """

    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def measure(
        cls, confidence: Sequence[float], correct: Sequence[bool], num_bins: int = 10
    ) -> Self:
        """Sort predictions into bins of equal width.

        Args:
            confidence: The probability of each predicted class, from 0 to 1.
            correct: Whether that class was right.
            num_bins: Between 0 and 1; a confidence on an edge counts to the bin above it.
        """
        given = np.asarray(confidence, dtype=np.float64)
        right = np.asarray(correct, dtype=np.float64)
        places = np.minimum((given * num_bins).astype(np.int64), num_bins - 1)
        return cls(
            tuple(
                ReliabilityBin(
                    float(given[here].mean()), float(right[here].mean()), int(here.sum())
                )
                for here in (places == place for place in range(num_bins))
                if here.any()
            )
        )

    @property
    def total(self) -> int:
        """How many predictions there are."""
        return sum(each.count for each in self.bins)

    @property
    def expected_error(self) -> float | None:
        """Mean distance between confidence and accuracy, weighted by predictions."""
        if not self.bins:
            return None
        distance = sum(each.count * abs(each.confidence - each.accuracy) for each in self.bins)
        return distance / self.total
