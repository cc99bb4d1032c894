"""What every benchmark shares: sides timed in turns, checks of agreement, peak memory."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from crossgcn import WorkFailed

Unit = Literal["×", "%", "s", "GiB"]

GIB = 2**30
WARM_UP = 3
MOST_STEPS = 5000
BATCH_SECONDS, QUICK_BATCH_SECONDS = 0.5, 0.1


@dataclass(frozen=True)
class Result:
    """A headline result of a benchmark.

    Attributes:
        case: The case, such as ``citeseer`` or ``fp32, E 32``.
        what: The other side of a ratio, or the quantity.
        value: Median over the rounds.
        unit: Unit of ``value``.
        low: Lower quartile over the rounds, if there are several.
        high: Upper quartile.
    """

    case: str
    what: str
    value: float
    unit: Unit = "×"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Check:
    """How far two sides are apart that should compute the same."""

    case: str
    what: str
    error: float
    tolerance: float

    def require(self) -> Check:
        """Return the check if the sides agree.

        Raises:
            WorkFailed: If the error exceeds the tolerance, or is not a number.
        """
        if self.error <= self.tolerance:
            return self
        raise WorkFailed(
            f"{self.case}: {self.what} differ by {self.error:.2g}, more than "
            f"{self.tolerance:.2g}, so their times cannot be compared"
        )


@dataclass
class Measurement:
    """What a benchmark returns; ``notes`` are sentences that are shown with the results."""

    results: list[Result] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """Options of a benchmark run.

    Attributes:
        quick: Whether to measure a smaller problem for a quick look.
        rounds: Number of timing rounds.
        seed: Seed of splits, weights and dropout.
        device: ``cpu`` or ``cuda``.
    """

    quick: bool = False
    rounds: int = 7
    seed: int = 0
    device: str = "cpu"

    def show(self, what: str) -> None:
        """Say on the error stream what is measured now."""
        print(f"  {what}", file=sys.stderr, flush=True)

    def pace(self, what: str, rounds: int | None = None) -> Pace:
        """Return the pace for :func:`interleave`."""
        self.show(what)
        return Pace(
            rounds or self.rounds,
            QUICK_BATCH_SECONDS if self.quick or self.device == "cuda" else BATCH_SECONDS,
            wait=torch.cuda.synchronize if self.device == "cuda" else lambda: None,
        )


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
    """Seconds per step of one side, for each round."""

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
    """

    rounds: int
    batch_seconds: float
    wait: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.perf_counter


def interleave(case: str, sides: Sequence[Side], pace: Pace) -> dict[str, Timing]:
    """Time all sides in every round; the side that starts rotates from round to round.

    A slowdown of the machine then affects all sides.
    """
    steps = {side.name: _calibrate(side, pace) for side in sides}
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(pace.rounds):
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            spent = _time_steps(side, steps[side.name], pace)
            seconds[side.name].append(spent / steps[side.name])
    return {
        side.name: Timing(
            case, side.name, tuple(seconds[side.name]), steps[side.name], side.threads
        )
        for side in sides
    }


def ratio_of(
    timings: Mapping[str, Timing], slow: str, fast: str, *, what: str | None = None
) -> Result:
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
    return Result(timings[slow].case, what or slow, median(ratios), "×", low, high)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile; a single value is both."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Return the norm of the difference, relative to the norm of the second argument.

    The largest difference is not used: among millions of hidden units, one or two are so close to
    zero that rounding decides their ReLU, which changes one row of the sum.
    """
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    return float((found - expected).norm() / expected.norm())


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Set the number of torch threads within the block, and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def crossgcn(*arguments: str, threads: int | None = None) -> ProcessCost:
    """Run a command of crossgcn in a new process; ``answer`` is what its ``--json`` printed.

    Args:
        *arguments: Arguments of the command, without ``--json``.
        threads: Value of ``OMP_NUM_THREADS``; that of this process if omitted.

    Raises:
        WorkFailed: If the command failed.
    """
    return cost_of(_run_command, arguments, threads)


class ProcessCost(NamedTuple):
    """What a process took, from its start on.

    Attributes:
        seconds: Wall-clock time.
        cpu_seconds: User and system time, of the process and of all children that ended.
        peak_bytes: The largest resident set size of the process or of a child.
        answer: Return value of the function.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    answer: Any


def cost_of(work: Callable[..., object], *arguments: Any) -> ProcessCost:
    """Run a function in a new process and return what it took.

    Args:
        work: A module-level function, which the new process can import.
        *arguments: Arguments of the function.
    """
    context = multiprocessing.get_context("spawn")
    started = time.perf_counter()
    with ProcessPoolExecutor(1, context) as executor:
        cpu_seconds, peak, answer = executor.submit(_measure, work, arguments).result()
    return ProcessCost(time.perf_counter() - started, cpu_seconds, peak, answer)


def _run_command(arguments: tuple[str, ...], threads: int | None) -> Any:
    import json

    more = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "crossgcn", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | more)
    if done.returncode:
        raise WorkFailed(f"crossgcn {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _measure(work: Callable[..., object], arguments: tuple[Any, ...]) -> tuple[float, int, Any]:
    answer = work(*arguments)
    children = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return sum(os.times()[:4]), max(_own_peak(), children), answer


def _own_peak() -> int:
    try:
        # After a fork, getrusage starts from the peak of the parent process.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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
