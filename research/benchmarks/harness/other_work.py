"""Detect other load on the machine during a measurement.

Other load slows a side with many threads far more than a side with one, so it does not
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
"""Cores; a lower load is attributed to the operating system."""

_IDLE = (3, 4)
"""Columns of ``/proc/stat`` that count idle time and I/O wait."""


@dataclass(frozen=True)
class _Moment:
    clock: float
    own: float
    all: float


class OtherWork:
    """Measure the number of cores used by other processes, from construction on."""

    def __init__(self) -> None:
        self._start = _now()

    def cores(self) -> float | None:
        """Return the mean number of cores used by other processes; ``None`` if unknown."""
        now = _now()
        if now is None or self._start is None or now.clock <= self._start.clock:
            return None
        busy = (now.all - self._start.all) - (now.own - self._start.own)
        return max(0.0, busy / (now.clock - self._start.clock))

    def warning(self) -> str | None:
        """Return a warning if other processes used much of the machine."""
        cores = self.cores()
        if cores is None or cores < WORTH_SAYING:
            return None
        return (
            f"other work kept {cores:.1f} of {available_cores()} cores busy meanwhile, which slows "
            "sides with several threads most: repeat this on a quiet machine"
        )


def _now() -> _Moment | None:
    """Return the wall-clock time and the CPU seconds of this process, its children and all."""
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
