"""Extrapolate from the time of one epoch to that of a whole training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from research.benchmarks.harness.rounds import Timing

__all__ = ["added", "multiplied"]


def multiplied(timing: Timing, count: int) -> Timing:
    """Return the time of ``count`` steps from that of one step, round by round."""
    return replace(timing, seconds=tuple(count * each for each in timing.seconds))


def added(case: str, side: str, timings: Sequence[Timing]) -> Timing:
    """Return the total time of consecutive steps, round by round."""
    rounds = zip(*(timing.seconds for timing in timings), strict=True)
    return Timing(case, side, tuple(sum(each) for each in rounds), timings[0].steps)
