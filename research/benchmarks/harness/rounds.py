"""Timing several sides in turns, so that a slow minute of the machine hits all of them."""

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
    """Something to be timed.

    Attributes:
        name: What to call it.
        step: Does the work once.
        threads: Threads of torch while it runs; as they are when left out.
        steps: How often in each round; as often as fills the batch when left out.
    """

    name: str
    step: Callable[[], object]
    threads: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Timing:
    """What the rounds gave for one side.

    Attributes:
        case: What was measured.
        side: Which side.
        seconds: Seconds of one step, for each round.
        steps: Steps timed together in a round.
        threads: Threads of torch.
    """

    case: str
    side: str
    seconds: tuple[float, ...]
    steps: int
    threads: int | None = None

    @property
    def median(self) -> float:
        """Over the rounds."""
        return median(self.seconds)


@dataclass(frozen=True)
class Pace:
    """How much is timed.

    Attributes:
        rounds: How many rounds.
        batch_seconds: About how long each side runs in each of them.
        wait: Waits until a device has done its work; nothing on a CPU.
        clock: Seconds.
        on_round: Called with the number of rounds done after each.
    """

    rounds: int
    batch_seconds: float
    wait: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    on_round: Callable[[int], object] = lambda done: None


def interleave(case: str, sides: Sequence[Side], pace: Pace) -> dict[str, Timing]:
    """Time all sides in every round, each round starting with another side.

    Args:
        case: What is measured.
        sides: They take turns.
        pace: How much is timed.
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
    """How many times longer one side takes, as median and quartiles over the rounds.

    Args:
        timings: From :func:`interleave`.
        slow: The side that is divided.
        fast: The side that divides.
        what: What to call the result; the name of ``slow`` when left out.
    """
    pairs = zip(timings[slow].seconds, timings[fast].seconds, strict=True)
    ratios = [longer / shorter for longer, shorter in pairs]
    low, high = quartiles(ratios)
    return BenchmarkResult(
        timings[slow].case, what or slow, median(ratios), "×", low=low, high=high
    )


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one; of a single value, itself."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Torch's threads within the block, as before afterwards."""
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
    """Warm up, and find how many steps fill a batch."""
    if side.steps is not None:
        return side.steps
    shortest = min(_time_steps(side, 1, pace) for _ in range(WARM_UP))
    if shortest <= 0:
        return MOST_STEPS
    return max(1, min(MOST_STEPS, math.ceil(pace.batch_seconds / shortest)))
