"""What a full-batch step takes on one GPU: seconds and bytes, by a few rates.

Time is a sum over the parts of a step (:mod:`~crossgcn.evaluation.step_work`), each as long
as its slowest resource. Memory is a sum of what is kept. The rates are fitted to measured
steps (:mod:`~crossgcn.evaluation.cost_fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossgcn.evaluation.step_work import PARAMETER, StepShape, Work

__all__ = ["KEPT", "Kept", "PartTime", "Rates", "kept_quantities", "weight_bytes"]


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
