"""The most memory that making and running something takes."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import torch

__all__ = ["peak_bytes"]

Made = TypeVar("Made")


def peak_bytes(work: Callable[[], Made], device: str) -> tuple[Made, int]:
    """What the work returns, and the most bytes that it held at once.

    On a GPU the allocator counts. On a CPU, every allocation and release of torch is
    recorded and added up, and the most that NumPy held is added to the most that torch
    held. That is exact and repeatable; the size of the process is neither, as freed memory
    is not given back at once.

    Args:
        work: What to measure. It should have been done before, so that nothing is
            compiled now.
        device: ``cpu`` or ``cuda``.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        made = work()
        torch.cuda.synchronize()
        return made, torch.cuda.max_memory_allocated() - before
    # Else the profiler announces itself on the terminal, once for every use.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
        tracemalloc.start()
        made = work()
        _, of_numpy = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    events = profile.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    held = of_torch = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        of_torch = max(of_torch, held)
    return made, of_torch + of_numpy
