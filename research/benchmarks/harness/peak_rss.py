"""Measure the peak memory of a process (resident set size)."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["peak_rss"]


def peak_rss(work: Callable[..., object], *arguments: Any) -> int:
    """Return the peak resident set size, in bytes, of a new process that runs a function.

    Args:
        work: A module-level function, which the new process can import.
        *arguments: Arguments of the function.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as executor:
        return executor.submit(_measure, work, arguments).result()


def _measure(work: Callable[..., object], arguments: tuple[Any, ...]) -> int:
    work(*arguments)
    try:
        # After a fork, getrusage starts from the peak of the parent process.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
