"""Several graphs and protocols as one workload, for one pool of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import EpochMetrics
from crossgcn.training.workload import Record, Run, Workload

__all__ = ["SHARED_SETTINGS", "JointWorkload", "shared_settings"]

SHARED_SETTINGS = ("dataset", "splits", "num_splits", "train", "repeats", "seed")
"""What configurations must have in common to be trained on the same splits."""


def shared_settings(config: RunConfig) -> tuple[Any, ...]:
    """The dataset and the splits of a configuration."""
    return tuple(getattr(config, name) for name in SHARED_SETTINGS)


class JointWorkload:
    """Sends each run to the workload of its dataset and splits.

    Args:
        workloads: By :func:`shared_settings`.
    """

    save_models = False

    def __init__(self, workloads: Mapping[tuple[Any, ...], Workload]) -> None:
        self.workloads: dict[tuple[Any, ...], Workload] = dict(workloads)

    def of(self, run: Run) -> Workload:
        """The workload a run belongs to."""
        return self.workloads[shared_settings(run.config)]

    def identity(self, run: Run) -> Record:
        """As :meth:`Workload.identity`."""
        return self.of(run).identity(run)

    def prepare(self, runs: Iterable[Run]) -> None:
        """As :meth:`Workload.prepare`."""
        for run in runs:
            self.of(run).prepare([run])

    def train(self, run: Run, on_epoch: Callable[[EpochMetrics], None] | None = None) -> Record:
        """As :meth:`Workload.train`."""
        return self.of(run).train(run, on_epoch)
