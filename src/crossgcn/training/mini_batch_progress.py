"""How far a training in batches is: its history, its best epoch, and its resume point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from crossgcn.models.stack import Stack
from crossgcn.training.distributed import Processes
from crossgcn.training.full_batch import Diverged
from crossgcn.training.mini_batch_step import MiniBatchStep
from crossgcn.training.resume_point import ResumePoint, read_resume_point, write_resume_point
from crossgcn.training.selection import EpochMetrics

__all__ = ["Checkpoints", "TrainingProgress"]

State = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoints:
    """Where resume points go.

    Attributes:
        path: The file, in the leading process.
        identity: What makes the run that run.
        every: Epochs from one to the next; 0 writes none.
    """

    path: Path
    identity: Mapping[str, Any]
    every: int = 1


class TrainingProgress:
    """How far a training is, its best epoch, and its resume point.

    Args:
        model: In training, on its device.
        group: The processes that share it; the leading one writes.
        epochs: How many there are to be.
        checkpoints: Where resume points go; ``None`` writes none.

    Attributes:
        epoch: How many epochs are done.
        history: Metrics of those that were looked at.
        best_metrics: Of the selected one; ``None`` where none was looked at.
        best: Its weights.
    """

    def __init__(
        self, model: Stack, group: Processes, epochs: int, checkpoints: Checkpoints | None
    ) -> None:
        self.model, self.group = model, group
        self.epochs, self.checkpoints = epochs, checkpoints
        self.epoch = 0
        self.history: list[EpochMetrics] = []
        self.best_metrics: EpochMetrics | None = None
        self.best = self._weights()

    def look(self, metrics: EpochMetrics) -> None:
        """Take down an epoch, and keep its weights if it is the best."""
        for what, loss in (
            ("the loss", metrics.train_loss),
            ("the validation loss", metrics.validation_loss),
        ):
            if not math.isfinite(loss):
                raise self._diverged(metrics.epoch, f"{what} became {loss}")
        best = self.best_metrics
        if best is None or metrics.validation_accuracy > best.validation_accuracy:
            weights = self._weights()
            if not all(bool(value.isfinite().all()) for value in weights.values()):
                raise self._diverged(metrics.epoch, "a weight became infinite")
            self.best, self.best_metrics = weights, metrics
        self.history.append(metrics)

    def finish_epoch(self, step: MiniBatchStep) -> None:
        """Count it, and write a resume point if one is due."""
        self.epoch += 1
        place = self.checkpoints
        if place is None or not self.group.leads or place.every == 0 or self.epoch == self.epochs:
            return
        if self.epoch % place.every == 0:
            parts = {"model": self._weights(), "best": self.best, "adam": step.state()}
            tensors = {
                f"{part}.{name}": v for part, own in parts.items() for name, v in own.items()
            }
            best = 0 if self.best_metrics is None else self.best_metrics.epoch
            point = ResumePoint(self.epoch, best, tuple(self.history), tensors)
            write_resume_point(place.path, point, place.identity)

    def resume(self, step: MiniBatchStep) -> None:
        """Go on from the resume point, if there is one: the leading process's, in all."""
        place = self.checkpoints
        if place is None:
            return
        found = read_resume_point(place.path, place.identity) if self.group.leads else None
        tensors = self.group.share_tensors(None if found is None else found.tensors)
        progress = self.group.share(lambda: None if found is None else _describe(found))
        if tensors is None or progress is None:
            return
        parts: dict[str, State] = {"model": {}, "best": {}, "adam": {}}
        for name, value in tensors.items():
            part, _, own = name.partition(".")
            parts[part][own] = value
        self.model.load_state_dict(parts["model"])
        step.load_state(parts["adam"])
        self.best = {
            name: value.to(self.best[name].device) for name, value in parts["best"].items()
        }
        self.epoch = progress["epoch"]
        self.history = [EpochMetrics(*values) for values in progress["history"]]
        chosen = (metrics for metrics in self.history if metrics.epoch == progress["best_epoch"])
        self.best_metrics = next(chosen, None)

    def _weights(self) -> State:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def _diverged(self, epoch: int, what: str) -> Diverged:
        state = {name: value.cpu() for name, value in self.best.items()}
        return Diverged(epoch, what, self.best_metrics, state, self.history)


def _describe(point: ResumePoint) -> dict[str, Any]:
    history = [list(vars(metrics).values()) for metrics in point.history]
    return {"epoch": point.epoch, "best_epoch": point.best_epoch, "history": history}
