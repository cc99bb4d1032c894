"""Format numbers and names for people: counts, percentages, spreads, intervals, tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np

from crossgcn.training import metrics

Summary = dict[str, Any]
"""A result as the JSON object that a command prints."""


@dataclass(frozen=True)
class Metric:
    """How a metric is called, and how it is shown.

    Attributes:
        percent: It is a share, shown in percent.
        in_unit: It has the unit of the target, so its magnitude is unknown.
    """

    label: str
    percent: bool = True
    in_unit: bool = False

    @property
    def title(self) -> str:
        """The label with the unit of the numbers in a table."""
        return f"{self.label} in %" if self.percent else self.label

    def show(self, value: float) -> str:
        """Return one value as text."""
        return percent(value) if self.percent else self._number(value)

    def spread(self, mean: float, sd: float | None) -> str:
        """Return ``79.1 ± 1.8`` as a cell of a table, or the mean alone."""
        if self.percent:
            return with_spread(100 * mean, None if sd is None else 100 * sd)
        if sd is None:
            return self._number(mean)
        return f"{self._number(mean)} ± {f'{sd:.2g}' if self.in_unit else self._number(sd)}"

    def change(self, difference: float) -> str:
        """Return a difference of two values with its sign, shares in percentage points."""
        if self.percent:
            return points(difference)
        return f"{difference:+.3g}" if self.in_unit else f"{difference:+z.3f}"

    @property
    def unit(self) -> str:
        """What a difference is counted in."""
        return "points" if self.percent else self.label

    def _number(self, value: float) -> str:
        return f"{value:.4g}" if self.in_unit else f"{value:.3f}"


_NUMBERS = {"log_loss", "brier", "r2", "rmse", "mae"}
_IN_UNIT = {"rmse", "mae"}

METRICS: Final[Mapping[str, Metric]] = {
    name: Metric(metric.title, name not in _NUMBERS, name in _IN_UNIT)
    for name, metric in metrics.METRICS.items()
}
"""The metrics that tables and pages show, by their name in records."""


def get_metric(name: str) -> Metric:
    """Return a metric of :data:`METRICS`."""
    return METRICS[name]


def grows(name: str) -> bool:
    """Whether a larger value of a metric is better."""
    return name not in metrics.METRICS or metrics.METRICS[name].grows


LONGEST_NAME: Final = 160
"""Longer names of columns, values and classes lose their middle."""

_UNPRINTABLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def brief(value: float) -> float:
    """Round a number to four digits, for small JSON."""
    return float(f"{value:.4g}") + 0.0


def briefs(values: Any) -> list[float]:
    """Round numbers to four digits."""
    return [brief(value) for value in np.asarray(values, np.float64).tolist()]


def count(number: int, noun: str) -> str:
    """Return ``no nodes``, ``1 node`` or ``1,234 nodes``."""
    return f"no {noun}s" if number == 0 else f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a fraction as a percentage; a dash for ``None``."""
    return "—" if share is None else f"{100 * share:.{digits}f}\u00a0%"


def points(difference: float, digits: int = 2) -> str:
    """Return a difference of two fractions in percentage points, with its sign."""
    return f"{100 * difference:+z.{digits}f}"


def with_spread(mean: float, sd: float | None) -> str:
    """Return ``79.1 ± 1.8``, or the mean alone if there is no standard deviation."""
    return f"{mean:.1f}" if sd is None else f"{mean:.1f} ± {sd:.1f}"


def score_text(model: Mapping[str, Any]) -> str:
    """Return ``mean`` and ``sd`` of a summary, as its ``metric`` is shown."""
    return get_metric(model.get("metric", "accuracy")).spread(model["mean"], model["sd"])


def validation_text(model: Mapping[str, Any]) -> str:
    """Return the mean of a summary's ``validation_score``, which is negated if it shrinks."""
    mean = fmean(model["validation_score"])
    return get_metric(model["metric"]).spread(mean if grows(model["metric"]) else -mean, None)


def paired_text(model: Mapping[str, Any]) -> str:
    """Return the paired difference of a summary's metric; a dash for the baseline itself."""
    if model["paired_difference"] is None:
        return "—"
    metric = get_metric(model.get("metric", "accuracy"))
    difference = metric.change(model["paired_difference"])
    if model["paired_se"] is None:
        return difference
    return f"{difference} ± {metric.change(model['paired_se']).lstrip('+')}"


def relation(interval: Sequence[float] | None, metric: str = "accuracy") -> str:
    """Return what a model does to the baseline, by the interval of their difference."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "cannot be told apart from"
    return "beats" if (interval[0] > 0) == grows(metric) else "falls behind"


def interval_text(interval: Sequence[float], metric: str = "accuracy") -> str:
    """Return ``95 % interval +0.50 to +1.20`` for a difference of two values of a metric."""
    low, high = map(get_metric(metric).change, interval)
    return f"95 % interval {low} to {high}"


def readable(text: str) -> str:
    """Replace characters that a page cannot hold or that change the writing direction.

    Control characters, halves of surrogate pairs and direction marks become a replacement
    character each; line ends and tabs become spaces.
    """
    return _UNPRINTABLE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a readable name of at most ``longest`` characters that is never empty."""
    name = readable(name)
    if not name.strip():
        return "(empty)"
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"
