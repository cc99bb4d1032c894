"""What a full-batch step takes on one GPU: seconds and bytes, by a few rates.

Time is a sum over the parts of a step (:mod:`~crossgcn.experiments.step_work`), each as long
as its slowest resource. Memory is a sum of what is kept. The rates are fitted to measured
steps (:mod:`~research.scale.cost_model`).
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
    """How long one part takes, and why.

    Attributes:
        name: Of the part.
        seconds: Of its slowest resource.
        bound: ``operations``, ``memory`` or ``gathering``.
    """

    name: str
    seconds: float
    bound: str


@dataclass(frozen=True)
class Rates:
    """What a device reaches while it trains.

    Attributes:
        operations: Per second in matrix products, by precision.
        memory: Bytes per second from and to memory, as our kernels reach it.
        near: Bytes per second that edges gather from the cache.
        far: Bytes per second that they gather from memory.
        cache: Bytes that a part moves when half of what it gathers is found in the cache: the
            share that is found falls as ``cache / (cache + memory_bytes)``.
        step: Seconds that every step takes, however small.
    """

    operations: Mapping[str, float]
    memory: float
    near: float
    far: float
    cache: float
    step: float

    def part(self, work: Work, precision: str) -> PartTime:
        """How long one part takes."""
        found = self.cache / (self.cache + work.memory_bytes)
        times = {
            "operations": work.operations / self.operations[precision],
            "memory": work.memory_bytes / self.memory,
            "gathering": work.gathered_bytes * (found / self.near + (1 - found) / self.far),
        }
        bound = max(times, key=lambda name: times[name])
        return PartTime(work.name, times[bound], bound)

    def seconds(self, parts: Sequence[Work], precision: str) -> float:
        """How long a whole step takes, one part after another."""
        return self.step + sum(self.part(work, precision).seconds for work in parts)


KEPT = (
    "values of N × E per order",
    "values of N × E besides",
    "bytes per entry of the adjacency",
    "bytes per stored feature",
    "copies of dense features",
    "bytes besides",
)
"""What the coefficients of :class:`Kept` count."""

WEIGHT_COPIES = 4
"""Of each weight: itself, its gradient and Adam's two means. This is known, and not fitted."""


@dataclass(frozen=True)
class Kept:
    """How many times each thing is held when most memory is.

    Attributes:
        counts: As many as :data:`KEPT` names.
    """

    counts: tuple[float, ...]

    def bytes(self, shape: StepShape, value_bytes: int) -> float:
        """The most that a step holds at once, graph and features included."""
        quantities = kept_quantities(shape, value_bytes)
        held = sum(count * each for count, each in zip(self.counts, quantities, strict=True))
        return held + weight_bytes(shape)


def kept_quantities(shape: StepShape, value_bytes: int) -> tuple[float, ...]:
    """The sizes that memory is a sum of, in the order of :data:`KEPT`.

    Args:
        shape: Of a step.
        value_bytes: Of a feature or an activation.
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
    """What weights take, with their gradient and Adam's means."""
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
"""What a part must move for its gathering to say how fast memory is: far more than caches hold."""
_ENOUGH: Final = 6
"""Steps of a precision from which its rate can be told."""
_FARTHEST: Final = 12.0
"""From a start to what is found, in logarithms."""
_KEPT_START: Final = (2.0, 1.0, 64.0, 64.0, 2.0, 3e7)


@dataclass(frozen=True)
class Judged:
    """A measured point beside what the model says.

    Attributes:
        point: The point.
        measured: Seconds or bytes.
        predicted: By the rates fitted to all points.
        left_out: By rates fitted to all points but this one.
        record_left_out: By rates fitted to other records' points alone; ``None`` where they
            do not say enough, as of a precision that no other record has.
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
        rates: For time.
        kept: For memory.
        times: Every point's time.
        memories: The memory of those points that have it.
    """

    rates: Rates
    kept: Kept
    times: tuple[Judged, ...]
    memories: tuple[Judged, ...]

    @classmethod
    def to_points(cls, points: Sequence[CostPoint], far: float) -> Fitted | None:
        """Fit both; ``None`` where too little was measured.

        Args:
            points: Measured steps; a precision of which there are only a few is left out.
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
        """The factor by which a record's time was missed at worst when it was left out."""
        missed = [
            abs(math.log(each.record_left_out / each.measured))
            for each in self.times
            if each.record_left_out is not None
        ]
        return math.exp(max(missed, default=math.log(2.0)))


def rms_log(pairs: Sequence[tuple[float, float]]) -> float:
    """The root mean square of the logarithms of ratios: 0.1 is about 10 %."""
    return math.sqrt(sum(math.log(a / b) ** 2 for a, b in pairs) / len(pairs))


def fit_rates(points: Sequence[CostPoint], far: float) -> Rates:
    """Least squares of the logarithms of predicted over measured seconds.

    A record with four times as many steps counts twice as much.

    Args:
        points: Measured steps.
        far: Bytes per second from memory, as a large copy reaches them. It stands for what
            edges gather from there unless some step gathers from gigabytes: what fits into a
            cache says nothing about it.
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
    # Where a part changes its slowest resource there is an edge; from two sides the best is found.
    best = _minimise(errors, start, [2.0 * value for value in start])
    memory, near, cache, step = best[len(precisions) :][:4]
    rates = dict(zip(precisions, best, strict=False))
    return Rates(rates, memory, near, best[-1] if seen else far, cache, step)


def fit_kept(points: Sequence[CostPoint]) -> Kept:
    """The same for memory, which is a plain sum and the weights.

    Args:
        points: Steps whose memory was measured.
    """
    quantities = np.array([_quantities(point) for point in points])
    parameters = np.array([weight_bytes(_shape(point)) for point in points])
    weights = _weights(points)
    measured = np.log([float(point.peak_bytes or 0.0) for point in points])

    def errors(logs: Floats) -> Floats:
        return np.asarray(weights * (np.log(quantities @ np.exp(logs) + parameters) - measured))

    return Kept(tuple(_minimise(errors, list(_KEPT_START))))


def judge_rates(points: Sequence[CostPoint], far: float) -> tuple[Judged, ...]:
    """Every point beside the model's time for it."""

    def fit(some: Sequence[CostPoint]) -> Callable[[CostPoint], float | None]:
        rates = fit_rates(some, far)

        def predict(point: CostPoint) -> float | None:
            known = sum(other.precision == point.precision for other in some) >= _ENOUGH
            return rates.seconds(point.parts, point.precision) if known else None

        return predict

    return _judge([(point, point.seconds) for point in points], fit)


def judge_kept(points: Sequence[CostPoint]) -> tuple[Judged, ...]:
    """Every point beside the model's memory for it."""

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
    """Of each point's error: the fourth root of one over its record's steps."""
    steps = Counter(point.record for point in points)
    return np.array([steps[point.record] ** -0.25 for point in points])


def _quantities(point: CostPoint) -> tuple[float, ...]:
    return kept_quantities(_shape(point), point.value_bytes)


def _shape(point: CostPoint) -> StepShape:
    assert point.shape is not None
    return point.shape


def _minimise(errors: Callable[[Floats], Floats], *starts: list[float]) -> list[float]:
    """Positive numbers of least squared error, the best from several starts."""
    found: list[Any] = []
    for start in starts:
        logs = np.log(start)
        bounds = (logs - _FARTHEST, logs + _FARTHEST)
        found.append(least_squares(errors, logs, bounds=bounds, xtol=1e-10, ftol=1e-10))
    best = min(found, key=lambda each: float(each.cost))
    return [float(value) for value in np.exp(best.x)]
