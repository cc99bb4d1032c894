"""What is assumed of a cluster of GPUs, and how long bytes travel in it.

Nothing of this was measured. The two sets of assumptions are a range, and are easily changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["FAST", "SLOW", "Links"]


@dataclass(frozen=True)
class Links:
    """What is assumed of a cluster; nothing of it was measured.

    Attributes:
        gpus_per_machine: That NVLink joins.
        gpu_bytes: Memory of a GPU.
        inside: Bytes per second that a GPU gets from others of its machine.
        between: Bytes per second that a GPU gets from other machines.
        hop_seconds: Latency of one message; an all-reduce is as many as twice the logarithm.
        drawn_edges: Neighbours per second that a GPU draws from a graph on all GPUs.
        cut: Share of edges between parts of the graph; 1 is a partition at random.
        imbalance: How much longer the slowest GPU works than the mean.
        overlap: Whether rows travel while others are multiplied.
    """

    gpus_per_machine: int
    gpu_bytes: float
    inside: float
    between: float
    hop_seconds: float
    drawn_edges: float
    cut: float
    imbalance: float
    overlap: bool

    def travel(self, size: float, gpus: int) -> float:
        """Seconds until a GPU has bytes that are spread evenly over the others.

        Both links work at once.

        Args:
            size: Bytes, none of them its own.
            gpus: How many there are.
        """
        if gpus == 1:
            return 0.0
        inside = (min(gpus, self.gpus_per_machine) - 1) / (gpus - 1)
        return max(inside * size / self.inside, (1 - inside) * size / self.between)

    def all_reduce(self, size: float, gpus: int) -> float:
        """Seconds to sum something over all GPUs.

        Of it, 2 (R - 1) / R go through every GPU; all links of a machine to others help.

        Args:
            size: Bytes.
            gpus: R.
        """
        if gpus == 1:
            return 0.0
        rate = self.inside
        if gpus > self.gpus_per_machine:
            rate = min(rate, self.gpus_per_machine * self.between)
        return 2 * size * (1 - 1 / gpus) / rate + 2 * math.log2(gpus) * self.hop_seconds


FAST = Links(8, 141e9, 360e9, 40e9, 5e-6, 1e9, cut=0.2, imbalance=1.05, overlap=True)
"""NVLink 4 (450 GB/s each way) and 400 Gb/s per GPU at 80 %, and a good partition."""

SLOW = Links(8, 141e9, 180e9, 10e9, 20e-6, 1e8, cut=1.0, imbalance=1.3, overlap=False)
"""The same NVLink at 40 %, 200 Gb/s at 40 %, and a partition at random."""
