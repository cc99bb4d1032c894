"""The most memory that a process held, counted by the system."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["peak_rss"]


def peak_rss(work: Callable[..., object], *arguments: Any) -> int:
    """Bytes that a new process holds at most while it does the work, all of it included.

    Args:
        work: A function of a module, which another process can import.
        *arguments: What it is called with.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as executor:
        return executor.submit(_measure, work, arguments).result()


def _measure(work: Callable[..., object], arguments: tuple[Any, ...]) -> int:
    work(*arguments)
    try:
        # The counter of getrusage starts with what the process was forked from.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
