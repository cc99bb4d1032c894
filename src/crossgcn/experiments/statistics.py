"""Means with their spread, and differences taken split by split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit

from crossgcn.errors import BadInput


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation (n - 1); no deviation of a single value."""

    mean: float
    sd: float | None
    count: int


@dataclass(frozen=True)
class PairedDifference:
    """Mean over splits of the per-split difference, and that mean's standard error.

    Attributes:
        mean: Of the differences.
        standard_error: Of their mean; none for a single split.
        count: How many splits.
    """

    mean: float
    standard_error: float | None
    count: int

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Student's confidence interval of the mean; none for a single split."""
        if self.standard_error is None:
            return None
        reach = float(stdtrit(self.count - 1, 0.5 + level / 2)) * self.standard_error
        return self.mean - reach, self.mean + reach


def summarise(values: Sequence[float]) -> Summary:
    """Mean and spread of one number per split."""
    if not values:
        raise BadInput("there is nothing to average: no run was given")
    return Summary(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def paired_difference(
    ours: Sequence[float], baseline: Sequence[float], *, test_to_train: float = 0.0
) -> PairedDifference:
    r"""Compare two models on the same splits.

    Splits differ far more than models do, and that part cancels in a
    difference taken split by split: its standard error says whether a gain
    is one, where the two standard deviations cannot.

    Splits dealt out again and again from the same nodes overlap, so that their
    differences vary less than those on new data would. Nadeau and Bengio's correction makes
    up for it, in variance: :math:`\left(\frac{1}{J} + \frac{n_\text{test}}{n_\text{train}}\right)
    s^2` for the mean over :math:`J` splits, in place of :math:`\frac{1}{J} s^2`.

    Args:
        ours: One value per split.
        baseline: The other model's, in the same order.
        test_to_train: Test nodes for each training node, where splits share their nodes; 0
            for no correction, as in the paper's tables.
    """
    if len(ours) != len(baseline):
        raise BadInput(
            f"a paired difference needs the same splits on both sides; "
            f"got {len(ours)} and {len(baseline)} values"
        )
    difference = summarise([a - b for a, b in zip(ours, baseline, strict=True)])
    error = None
    if difference.sd is not None:
        error = difference.sd * math.sqrt(1 / difference.count + test_to_train)
    return PairedDifference(difference.mean, error, difference.count)
