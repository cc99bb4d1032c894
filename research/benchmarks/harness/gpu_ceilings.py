"""Measure the peak rates of this GPU and the time of each kernel of a step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from crossgcn.training.config import Precision
from research.benchmarks.harness.peer_training import matmul_precision
from research.benchmarks.harness.roofline import Ceilings

__all__ = ["kernel_seconds", "measure_ceilings"]

REPEATS = 50


def measure_ceilings(precision: Precision) -> Ceilings:
    """Measure a large matrix product, a large copy, and copies within the cache."""
    return Ceilings(
        _product_rate(precision),
        _copy_rate(2**29, 2**30),
        _copy_rate(2**21, 2**23),
    )


def kernel_seconds(step: Callable[[], object], steps: int = 20) -> dict[str, float]:
    """Return the seconds of each kernel in one step, longest first.

    Args:
        step: Runs one step.
        steps: Number of steps to profile.
    """
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    for event in profile.key_averages():
        found: Any = event
        spent[found.key[:80]] += found.self_device_time_total
    return {name: micro / 1e6 / steps for name, micro in spent.most_common() if micro > 0}


def _product_rate(precision: Precision, size: int = 8192) -> float:
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    left = torch.randn(size, size, device="cuda", dtype=dtype)
    right = torch.randn(size, size, device="cuda", dtype=dtype)
    with matmul_precision(precision):
        return 2 * size**3 / _seconds(lambda: left @ right, repeats=10)


def _copy_rate(small: int, large: int) -> float:
    """Return bytes read and written per second; two copy sizes cancel the launch overhead.

    Args:
        small: Bytes of the small copy.
        large: Bytes of the large copy.
    """
    seconds = []
    for size in (small, large):
        source = torch.zeros(size // 4, device="cuda")
        target = torch.empty_like(source)
        seconds.append(_seconds(lambda a=source, b=target: torch.mul(a, 1.0, out=b)))  # type: ignore[misc]
    return 2 * (large - small) / (seconds[1] - seconds[0])


def _seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the seconds of one call: the median of five replays of a CUDA graph of many."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            work()
    spent = []
    for _ in range(6):
        started = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        spent.append((time.perf_counter() - started) / repeats)
    return sorted(spent[1:])[2]
