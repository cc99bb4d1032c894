"""Measure the peak memory (resident set size) and the CPU time of a process."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ProcessCost", "cost_of", "peak_rss"]


class ProcessCost(NamedTuple):
    """What a process took, from its start on.

    Attributes:
        cpu_seconds: User and system time, of the process and of all children that ended.
        peak_bytes: Peak resident set size of the process.
        child_bytes: The largest peak of a child that ended; of no meaning without children.
        answer: Return value of the function.
    """

    cpu_seconds: float
    peak_bytes: int
    child_bytes: int
    answer: Any


def cost_of(work: Callable[..., object], *arguments: Any) -> ProcessCost:
    """Run a function in a new process and return what it took.

    Args:
        work: A module-level function, which the new process can import.
        *arguments: Arguments of the function.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as executor:
        return executor.submit(_measure, work, arguments).result()


def peak_rss(work: Callable[..., object], *arguments: Any) -> int:
    """Return the peak resident set size, in bytes, of a new process that runs a function.

    Args:
        work: A module-level function, which the new process can import.
        *arguments: Arguments of the function.
    """
    return cost_of(work, *arguments).peak_bytes


def _measure(work: Callable[..., object], arguments: tuple[Any, ...]) -> ProcessCost:
    answer = work(*arguments)
    children = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return ProcessCost(sum(os.times()[:4]), _own_peak(), children, answer)


def _own_peak() -> int:
    try:
        # After a fork, getrusage starts from the peak of the parent process.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
