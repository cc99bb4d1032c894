"""Measure peak memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import torch

__all__ = ["peak_bytes"]

Made = TypeVar("Made")


def peak_bytes(work: Callable[[], Made], device: str) -> tuple[Made, int]:
    """Return the result of a function and the peak of the bytes it held.

    On a GPU the peak comes from the CUDA allocator. On a CPU, every allocation and release of
    torch is recorded and summed, and NumPy's peak is added to torch's peak. These counts are
    repeatable. The size of the process is not, because freed memory is not returned at once.

    Args:
        work: Function to measure. Call it once before, so that compilation is not measured.
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
    # Suppress the message that the profiler prints at every use.
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
