"""How far a training in batches is: its history, its best epoch, and its resume point."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from crossgcn.data.files import replacing
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.step import MiniBatchStep
from crossgcn.training.distributed import Processes
from crossgcn.training.full_batch import Diverged, EpochMetrics
from crossgcn.training.records import differing

RESUME_POINT = "resume.safetensors"
FORMAT = 1

State = dict[str, Tensor]


@dataclass(frozen=True)
class ResumePoint:
    """What is needed to go on as if nothing had happened.

    Attributes:
        epoch: How many epochs are done.
        best_epoch: The one selected so far; 0 where none was looked at.
        history: Metrics of the epochs that were looked at.
        tensors: Weights, best weights and the optimiser's state, on the CPU.
    """

    epoch: int
    best_epoch: int
    history: tuple[EpochMetrics, ...]
    tensors: State


def write_resume_point(path: Path, point: ResumePoint, identity: Mapping[str, Any]) -> None:
    """Replace what stands there, as a whole or not at all.

    Args:
        path: The file; its folder is made if it is not there.
        point: Where the training stands.
        identity: What makes the run that run.

    Raises:
        WorkFailed: If it cannot be written; the one before is kept.
    """
    text = json.dumps(
        {
            "format": FORMAT,
            "epoch": point.epoch,
            "best_epoch": point.best_epoch,
            "history": [asdict(metrics) for metrics in point.history],
            "run": dict(identity),
        }
    )
    tensors = {name: value.detach().cpu().contiguous() for name, value in point.tensors.items()}
    header = {"training": text, "sha256": _digest(text, tensors)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(tensors_to_bytes(tensors, header))
    except OSError as error:
        raise WorkFailed(
            f"{path}: the resume point of epoch {point.epoch} cannot be written "
            f"({error.strerror}); the one before is kept: make room, and continue with --resume, "
            "or give a larger --checkpoint-every"
        ) from None


def read_resume_point(path: Path, identity: Mapping[str, Any]) -> ResumePoint | None:
    """Where a run stood, if it was begun.

    Args:
        path: What :func:`write_resume_point` wrote.
        identity: What makes the run that run.

    Raises:
        BadInput: If it is damaged, or another run's.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    try:
        header = _metadata(content)
        tensors = tensors_from_bytes(content)
        text = header["training"]
        if header["sha256"] != _digest(text, tensors):
            raise ValueError("its SHA-256 is another one")
        training = json.loads(text)
        if training["format"] != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}")
        history = tuple(EpochMetrics(**metrics) for metrics in training["history"])
        found, epoch, best_epoch = training["run"], training["epoch"], training["best_epoch"]
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path}: is damaged or no resume point ({error}); remove it to train this run anew"
        ) from None
    for name, value in json.loads(json.dumps(dict(identity))).items():
        if found.get(name) != value:
            raise BadInput(
                f"{path}: is of a run with another {differing(name, found, value)}: give another "
                "--out, the settings of that run to continue it, or remove the file"
            )
    return ResumePoint(epoch, best_epoch, history, tensors)


def _metadata(content: bytes) -> dict[str, str]:
    """The header's texts: its length is in the first eight bytes, and it is JSON."""
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    metadata: dict[str, str] = header["__metadata__"]
    return metadata


def _digest(text: str, tensors: State) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        sha.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        sha.update(value.numpy().tobytes())
    return sha.hexdigest()


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
        self, model: NodeClassifier, group: Processes, epochs: int, checkpoints: Checkpoints | None
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
