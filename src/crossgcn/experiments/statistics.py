"""Means and standard deviations, and differences paired over splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit

from crossgcn.errors import BadInput


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation (n - 1); ``sd`` is ``None`` for a single value."""

    mean: float
    sd: float | None
    count: int


@dataclass(frozen=True)
class PairedDifference:
    """Mean of the differences per split, and its standard error (``None`` for one split)."""

    mean: float
    standard_error: float | None
    count: int

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return Student's confidence interval of the mean; ``None`` for one split."""
        if self.standard_error is None:
            return None
        reach = float(stdtrit(self.count - 1, 0.5 + level / 2)) * self.standard_error
        return self.mean - reach, self.mean + reach


def summarise(values: Sequence[float]) -> Summary:
    """Return the mean and the standard deviation of one value per split."""
    if not values:
        raise BadInput("there is nothing to average: no run was given")
    return Summary(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def paired_difference(
    ours: Sequence[float], baseline: Sequence[float], *, test_to_train: float = 0.0
) -> PairedDifference:
    r"""Compare two models on the same splits.

    Accuracies vary more between splits than between models. Differences per split cancel that
    variation, so their standard error shows whether a gain is real; the two standard deviations
    do not.

    Random splits of the same nodes overlap, so their differences vary less than differences on
    new data would. Nadeau and Bengio's correction replaces the variance
    :math:`\frac{1}{J} s^2` of the mean over :math:`J` splits by
    :math:`\left(\frac{1}{J} + \frac{n_\text{test}}{n_\text{train}}\right) s^2`.

    Args:
        test_to_train: Test nodes per training node if splits share nodes; 0 for no
            correction, as in the paper's tables.
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
