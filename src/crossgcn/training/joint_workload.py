"""Several graphs and protocols as one workload, for one pool of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from crossgcn.errors import WorkFailed
from crossgcn.training.config import RunConfig
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

    @property
    def device(self) -> torch.device:
        """Where models are trained, which is the same place for all."""
        devices = (workload.device for workload in self.workloads.values())
        return next(devices, torch.device("cpu"))

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

    def stacks(self, runs: Mapping[int, Run]) -> list[list[int]]:
        """As :meth:`Workload.stacks`."""
        shares: dict[int, dict[int, Run]] = {}
        for position, run in runs.items():
            shares.setdefault(id(self.of(run)), {})[position] = run
        return [
            stack
            for share in shares.values()
            for stack in self.of(next(iter(share.values()))).stacks(share)
        ]

    def train_together(
        self, runs: Sequence[Run], on_epochs: Callable[[int], None] | None = None
    ) -> list[Record | WorkFailed]:
        """As :meth:`Workload.train_together`."""
        return self.of(runs[0]).train_together(runs, on_epochs)
