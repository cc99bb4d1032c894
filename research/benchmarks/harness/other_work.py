"""Whether a machine was busy with something else while it was timed.

Other work slows a side with many threads far more than a side with one, so it does not
cancel in a ratio.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from crossgcn.cli.options import available_cores

__all__ = ["OtherWork"]

STAT = Path("/proc/stat")
WORTH_SAYING = 0.1
"""Cores; less than that is the system's own."""

_IDLE = (3, 4)
"""Which columns of a processor's line count waiting: for work, and for the disk."""


@dataclass(frozen=True)
class _Moment:
    clock: float
    own: float
    all: float


class OtherWork:
    """Measures from its making on how many cores others use."""

    def __init__(self) -> None:
        self._start = _now()

    def cores(self) -> float | None:
        """How many cores were busy with something else, on average; ``None`` if unknown."""
        now = _now()
        if now is None or self._start is None or now.clock <= self._start.clock:
            return None
        busy = (now.all - self._start.all) - (now.own - self._start.own)
        return max(0.0, busy / (now.clock - self._start.clock))

    def warning(self) -> str | None:
        """A sentence for the reader, where it was much."""
        cores = self.cores()
        if cores is None or cores < WORTH_SAYING:
            return None
        return (
            f"other work kept {cores:.1f} of {available_cores()} cores busy meanwhile, which slows "
            "sides with several threads most: repeat this on a quiet machine"
        )


def _now() -> _Moment | None:
    """Seconds that passed, that this process and its children computed, and that all did."""
    try:
        lines = STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    if sum(line[:3] == "cpu" and line[3].isdigit() for line in lines) != available_cores():
        return None
    ticks = [int(part) for part in lines[0].split()[1:9]]
    busy = sum(value for column, value in enumerate(ticks) if column not in _IDLE)
    own = os.times()
    return _Moment(
        time.monotonic(),
        own.user + own.system + own.children_user + own.children_system,
        busy / os.sysconf("SC_CLK_TCK"),
    )
