"""Time several sides in turns, so that a slowdown of the machine affects all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles

import torch

from research.pages.benchmarks import BenchmarkResult

__all__ = ["Pace", "Side", "Timing", "interleave", "quartiles", "ratio_of", "torch_threads"]

WARM_UP = 3
MOST_STEPS = 5000


@dataclass(frozen=True)
class Side:
    """A function to time.

    Attributes:
        name: Name in the results.
        step: Runs one step.
        threads: Torch threads during the step; unchanged if omitted.
        steps: Steps per round; if omitted, as many as fill ``Pace.batch_seconds``.
    """

    name: str
    step: Callable[[], object]
    threads: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Timing:
    """The times of one side.

    Attributes:
        case: Name of the case.
        side: Name of the side.
        seconds: Seconds per step, for each round.
        steps: Steps timed together in a round.
        threads: Torch threads.
    """

    case: str
    side: str
    seconds: tuple[float, ...]
    steps: int
    threads: int | None = None

    @property
    def median(self) -> float:
        """Return the median over the rounds."""
        return median(self.seconds)


@dataclass(frozen=True)
class Pace:
    """Number and length of the timing rounds.

    Attributes:
        rounds: Number of rounds.
        batch_seconds: Approximate time of each side in a round.
        wait: Synchronises the device; does nothing on a CPU.
        clock: Returns the time in seconds.
        on_round: Called after each round with the number of rounds done.
    """

    rounds: int
    batch_seconds: float
    wait: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    on_round: Callable[[int], object] = lambda done: None


def interleave(case: str, sides: Sequence[Side], pace: Pace) -> dict[str, Timing]:
    """Time all sides in every round; the side that starts rotates from round to round.

    Args:
        case: Name of the case.
        sides: Sides to time.
        pace: Number and length of the rounds.
    """
    steps = {side.name: _calibrate(side, pace) for side in sides}
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(pace.rounds):
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            spent = _time_steps(side, steps[side.name], pace)
            seconds[side.name].append(spent / steps[side.name])
        pace.on_round(number + 1)
    return {
        side.name: Timing(
            case, side.name, tuple(seconds[side.name]), steps[side.name], side.threads
        )
        for side in sides
    }


def ratio_of(
    timings: Mapping[str, Timing], slow: str, fast: str, *, what: str | None = None
) -> BenchmarkResult:
    """Return the ratio of the times of two sides, as median and quartiles over the rounds.

    Args:
        timings: From :func:`interleave`.
        slow: Name of the side in the numerator.
        fast: Name of the side in the denominator.
        what: Name of the result; the name of ``slow`` if omitted.
    """
    pairs = zip(timings[slow].seconds, timings[fast].seconds, strict=True)
    ratios = [longer / shorter for longer, shorter in pairs]
    low, high = quartiles(ratios)
    return BenchmarkResult(
        timings[slow].case, what or slow, median(ratios), "×", low=low, high=high
    )


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile; a single value is both."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Set the number of torch threads within the block, and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _time_steps(side: Side, steps: int, pace: Pace) -> float:
    with torch_threads(side.threads):
        pace.wait()
        started = pace.clock()
        for _ in range(steps):
            side.step()
        pace.wait()
        return pace.clock() - started


def _calibrate(side: Side, pace: Pace) -> int:
    """Warm up, and return the number of steps that fill a batch."""
    if side.steps is not None:
        return side.steps
    shortest = min(_time_steps(side, 1, pace) for _ in range(WARM_UP))
    if shortest <= 0:
        return MOST_STEPS
    return max(1, min(MOST_STEPS, math.ceil(pace.batch_seconds / shortest)))
