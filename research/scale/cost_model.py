"""Cost model of a full-batch step on one GPU: seconds and bytes from a few fitted rates.

Time is a sum over the parts of a step (:func:`~research.scale.cost_points.step_work`); each part
takes as long as its slowest resource. Memory is a weighted sum of sizes. Rates and weights are
fitted to measured steps (:mod:`~research.scale.cost_points`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from research.scale.cost_points import PARAMETER, CostPoint, StepShape, Work


@dataclass(frozen=True)
class PartTime:
    """Time of one part of a step, and the resource that limits it.

    Attributes:
        name: Name of the part.
        seconds: Seconds of its slowest resource.
        bound: ``operations``, ``memory`` or ``gathering``.
    """

    name: str
    seconds: float
    bound: str


@dataclass(frozen=True)
class Rates:
    """Rates that a device reaches during training.

    Attributes:
        operations: Operations per second in matrix products, by precision.
        memory: Bytes per second from and to memory, as our kernels reach it.
        near: Bytes per second that edges gather from the cache.
        far: Bytes per second that edges gather from memory.
        cache: Bytes that a part moves when half of its gathered bytes hit the cache: the hit
            rate falls as ``cache / (cache + memory_bytes)``.
        step: Constant seconds of every step.
    """

    operations: Mapping[str, float]
    memory: float
    near: float
    far: float
    cache: float
    step: float

    def part(self, work: Work, precision: str) -> PartTime:
        """Return the time of one part."""
        found = self.cache / (self.cache + work.memory_bytes)
        times = {
            "operations": work.operations / self.operations[precision],
            "memory": work.memory_bytes / self.memory,
            "gathering": work.gathered_bytes * (found / self.near + (1 - found) / self.far),
        }
        bound = max(times, key=lambda name: times[name])
        return PartTime(work.name, times[bound], bound)

    def seconds(self, parts: Sequence[Work], precision: str) -> float:
        """Return the time of a step whose parts run one after another."""
        return self.step + sum(self.part(work, precision).seconds for work in parts)


KEPT = (
    "values of N × E per order",
    "values of N × E besides",
    "bytes per entry of the adjacency",
    "bytes per stored feature",
    "copies of dense features",
    "bytes besides",
)
"""Names of the coefficients of :class:`Kept`."""

WEIGHT_COPIES = 4
"""Values held per weight: itself, its gradient and Adam's two moments. Known, not fitted."""


@dataclass(frozen=True)
class Kept:
    """Fitted coefficients of peak memory.

    Attributes:
        counts: One coefficient for each entry of :data:`KEPT`.
    """

    counts: tuple[float, ...]

    def bytes(self, shape: StepShape, value_bytes: int) -> float:
        """Return the peak memory of a step, including graph and features."""
        quantities = kept_quantities(shape, value_bytes)
        held = sum(count * each for count, each in zip(self.counts, quantities, strict=True))
        return held + weight_bytes(shape)


def kept_quantities(shape: StepShape, value_bytes: int) -> tuple[float, ...]:
    """Return the sizes whose weighted sum is the memory, in the order of :data:`KEPT`.

    Args:
        shape: Shape of a step.
        value_bytes: Bytes of a feature or an activation.
    """
    values = value_bytes * shape.inputs
    stored = shape.stored
    return (
        values * shape.hidden_channels * shape.order,
        values * shape.hidden_channels,
        shape.first_edges,
        0 if stored is None else shape.inputs * stored,
        values * shape.features if stored is None else 0,
        1,
    )


def weight_bytes(shape: StepShape) -> int:
    """Return the bytes of the weights, their gradients and Adam's moments."""
    return WEIGHT_COPIES * PARAMETER * shape.parameters


Floats = NDArray[np.float64]

_START: Final = {
    "operations": 1e14,
    "memory": 2e12,
    "near": 1e13,
    "cache": 2e8,
    "step": 1e-4,
}
_FAR_BYTES: Final = 2e9
"""Bytes a part must move to determine the gather rate from memory: far more than a cache holds."""
_ENOUGH: Final = 6
"""Smallest number of steps from which the rate of a precision is fitted."""
_FARTHEST: Final = 12.0
"""Largest distance of the solution from its starting point, in logarithms."""
_KEPT_START: Final = (2.0, 1.0, 64.0, 64.0, 2.0, 3e7)


@dataclass(frozen=True)
class Judged:
    """A measured point and its predictions.

    Attributes:
        point: The point.
        measured: Seconds or bytes.
        predicted: Prediction by rates fitted to all points.
        left_out: Prediction by rates fitted to all points but this one.
        record_left_out: Prediction by rates fitted to the points of other records; ``None`` where
            they do not determine the rates, such as for a precision that no other record has.
    """

    point: CostPoint
    measured: float
    predicted: float
    left_out: float
    record_left_out: float | None


@dataclass(frozen=True)
class Fitted:
    """The cost model and its errors.

    Attributes:
        rates: Rates for time.
        kept: Coefficients for memory.
        times: Predictions of time for every point.
        memories: Predictions of memory for the points with measured memory.
    """

    rates: Rates
    kept: Kept
    times: tuple[Judged, ...]
    memories: tuple[Judged, ...]

    @classmethod
    def to_points(cls, points: Sequence[CostPoint], far: float) -> Fitted | None:
        """Fit rates and coefficients; return ``None`` if there are too few points.

        Args:
            points: Measured steps; a precision with only a few of them is left out.
            far: See :func:`fit_rates`.
        """
        sized = [point for point in points if point.peak_bytes is not None]
        steps = Counter(point.precision for point in points)
        points = [point for point in points if steps[point.precision] > _ENOUGH]
        if len(points) < 2 * len(_START) or len(sized) < 2 * len(_KEPT_START):
            return None
        return cls(
            fit_rates(points, far),
            fit_kept(sized),
            judge_rates(points, far),
            judge_kept(sized),
        )

    @property
    def spread(self) -> float:
        """Return the largest factor between predicted and measured time of a left-out record."""
        missed = [
            abs(math.log(each.record_left_out / each.measured))
            for each in self.times
            if each.record_left_out is not None
        ]
        return math.exp(max(missed, default=math.log(2.0)))


def rms_log(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the root mean square of the logarithms of ratios: 0.1 is about 10 %."""
    return math.sqrt(sum(math.log(a / b) ** 2 for a, b in pairs) / len(pairs))


def fit_rates(points: Sequence[CostPoint], far: float) -> Rates:
    """Fit the rates by least squares on the logarithms of predicted over measured seconds.

    A record with four times as many steps counts twice as much.

    Args:
        far: Bytes per second of a large copy. It is used as the gather rate from memory unless
            some step gathers from gigabytes, because steps that fit into a cache do not
            determine that rate.
    """
    precisions = sorted({point.precision for point in points})
    most = max(len(point.parts) for point in points)
    work = np.zeros((len(points), most, 3))
    for row, point in enumerate(points):
        for place, part in enumerate(point.parts):
            work[row, place] = part.operations, part.memory_bytes, part.gathered_bytes
    which = np.array([precisions.index(point.precision) for point in points])
    measured = np.log([point.seconds for point in points])
    weights = _weights(points)
    operations, moved, gathered = work[:, :, 0], work[:, :, 1], work[:, :, 2]
    seen = bool(((moved > _FAR_BYTES) & (gathered > moved)).any())

    def errors(logs: Floats) -> Floats:
        values = np.exp(logs)
        memory, near, cache, step = values[len(precisions) :][:4]
        beyond = values[-1] if seen else far
        found = cache / (cache + moved)
        slowest = np.maximum(operations / values[which][:, None], moved / memory)
        slowest = np.maximum(slowest, gathered * (found / near + (1.0 - found) / beyond))
        return np.asarray(weights * (np.log(step + slowest.sum(axis=1)) - measured))

    start = [_START["operations"]] * len(precisions)
    start += [_START[name] for name in ("memory", "near", "cache", "step")]
    start += [far] * seen
    # The objective has kinks where a part's slowest resource changes, so start from both sides.
    best = _minimise(errors, start, [2.0 * value for value in start])
    memory, near, cache, step = best[len(precisions) :][:4]
    rates = dict(zip(precisions, best, strict=False))
    return Rates(rates, memory, near, best[-1] if seen else far, cache, step)


def fit_kept(points: Sequence[CostPoint]) -> Kept:
    """Fit the memory coefficients; memory is a weighted sum plus the weights.

    Args:
        points: Steps with measured memory.
    """
    quantities = np.array([_quantities(point) for point in points])
    parameters = np.array([weight_bytes(_shape(point)) for point in points])
    weights = _weights(points)
    measured = np.log([float(point.peak_bytes or 0.0) for point in points])

    def errors(logs: Floats) -> Floats:
        return np.asarray(weights * (np.log(quantities @ np.exp(logs) + parameters) - measured))

    return Kept(tuple(_minimise(errors, list(_KEPT_START))))


def judge_rates(points: Sequence[CostPoint], far: float) -> tuple[Judged, ...]:
    """Return every point with its predicted times."""

    def fit(some: Sequence[CostPoint]) -> Callable[[CostPoint], float | None]:
        rates = fit_rates(some, far)

        def predict(point: CostPoint) -> float | None:
            known = sum(other.precision == point.precision for other in some) >= _ENOUGH
            return rates.seconds(point.parts, point.precision) if known else None

        return predict

    return _judge([(point, point.seconds) for point in points], fit)


def judge_kept(points: Sequence[CostPoint]) -> tuple[Judged, ...]:
    """Return every point with its predicted memory."""

    def fit(some: Sequence[CostPoint]) -> Callable[[CostPoint], float | None]:
        kept = fit_kept(some)
        return lambda point: kept.bytes(_shape(point), point.value_bytes)

    return _judge([(point, float(point.peak_bytes or 0.0)) for point in points], fit)


Fit = Callable[[Sequence[CostPoint]], Callable[[CostPoint], float | None]]


def _judge(points: Sequence[tuple[CostPoint, float]], fit: Fit) -> tuple[Judged, ...]:
    whole = fit([point for point, _ in points])
    without_record = {}
    for record in {point.record for point, _ in points}:
        rest = [point for point, _ in points if point.record != record]
        without_record[record] = fit(rest) if len(rest) >= 2 * len(_START) else None
    judged = []
    for place, (point, measured) in enumerate(points):
        predicted = whole(point)
        rest = [other for number, (other, _) in enumerate(points) if number != place]
        left_out, elsewhere = fit(rest)(point), without_record[point.record]
        assert predicted is not None and left_out is not None
        record_left_out = None if elsewhere is None else elsewhere(point)
        judged.append(Judged(point, measured, predicted, left_out, record_left_out))
    return tuple(judged)


def _weights(points: Sequence[CostPoint]) -> Floats:
    """Return the weight of each error: the fourth root of one over its record's steps."""
    steps = Counter(point.record for point in points)
    return np.array([steps[point.record] ** -0.25 for point in points])


def _quantities(point: CostPoint) -> tuple[float, ...]:
    return kept_quantities(_shape(point), point.value_bytes)


def _shape(point: CostPoint) -> StepShape:
    assert point.shape is not None
    return point.shape


def _minimise(errors: Callable[[Floats], Floats], *starts: list[float]) -> list[float]:
    """Return the positive numbers of least squared error, the best of several starts."""
    found: list[Any] = []
    for start in starts:
        logs = np.log(start)
        bounds = (logs - _FARTHEST, logs + _FARTHEST)
        found.append(least_squares(errors, logs, bounds=bounds, xtol=1e-10, ftol=1e-10))
    best = min(found, key=lambda each: float(each.cost))
    return [float(value) for value in np.exp(best.x)]
