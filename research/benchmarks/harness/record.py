"""The record of a benchmark: results, environment and options in one JSON file."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from crossgcn.cli.options import available_cores
from crossgcn.training.records import describe_environment
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.rounds import Timing, quartiles
from research.pages.benchmarks import BenchmarkResult

__all__ = ["Measurement", "Record", "describe_hardware", "make_record"]

Record = dict[str, Any]


@dataclass
class Measurement:
    """The return value of a benchmark script.

    Attributes:
        results: Headline results.
        timings: Times of every round and side.
        checks: Checks that both sides compute the same function.
        notes: Sentences that are shown with the results.
        extra: Further values for the record, by name.
    """

    results: list[BenchmarkResult] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


def make_record(
    name: str, measurement: Measurement, options: Mapping[str, Any], seconds: float
) -> Record:
    """Combine a measurement with its environment and options.

    Args:
        name: Name of the benchmark.
        options: ``quick``, ``rounds``, ``seed`` and ``device``.
        seconds: Duration of the benchmark.
    """
    return {
        "benchmark": name,
        **options,
        "wall_seconds": seconds,
        "hardware": describe_hardware(),
        "environment": describe_environment(),
        "results": [asdict(result) for result in measurement.results],
        "timings": [_describe_timing(timing) for timing in measurement.timings],
        "checks": [asdict(check) for check in measurement.checks],
        "notes": measurement.notes,
        **measurement.extra,
    }


def describe_hardware() -> dict[str, Any]:
    """Return processor, available cores, memory, and the GPU if there is one."""
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    return {
        "processor": _processor(),
        "cores": available_cores(),
        "memory_bytes": _memory(),
        "gpu": None if gpu is None else gpu.name,
        "gpu_memory_bytes": None if gpu is None else gpu.total_memory,
    }


def _describe_timing(timing: Timing) -> dict[str, Any]:
    return {
        **asdict(timing),
        "median": timing.median,
        "quartiles": list(quartiles(timing.seconds)),
    }


def _processor() -> str:
    named = (
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    )
    return next(named, "") or platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _lines(path: Path) -> Sequence[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
