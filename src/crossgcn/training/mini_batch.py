"""Train on batches of nodes with sampled neighbours, and judge on whole neighbourhoods.

Training sees a draw of each neighbourhood; validation and test nodes never do: their scores
are those of the model on the whole graph (:mod:`~crossgcn.training.mini_batch_scoring`). The
selected epoch is full-batch training's: the first of strictly best validation accuracy
(NOTE[D6]). Several processes share every batch and give what one gives, up to rounding and
to which entries are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.device_inputs import choose_device
from crossgcn.graph.graph_source import GraphSource
from crossgcn.graph.node_batches import NodeBatches
from crossgcn.models.calibrate import calibrate
from crossgcn.models.cross_grand import CrossGrand
from crossgcn.models.semi_emb import SemiEmb
from crossgcn.models.stack import Stack
from crossgcn.training.distributed import Processes, processes
from crossgcn.training.full_batch import Diverged, TrainedModel
from crossgcn.training.mini_batch_scoring import ExactScorer
from crossgcn.training.mini_batch_step import MiniBatchStep
from crossgcn.training.precision import check_precision
from crossgcn.training.resume_point import ResumePoint, read_resume_point, write_resume_point
from crossgcn.training.selection import EpochMetrics

__all__ = ["Checkpoints", "hop_fanouts", "refuse_batches", "train_mini_batch"]

FANOUT = 25
"""Neighbours drawn for each node in each hop, unless told otherwise."""

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


def refuse_batches(model: Stack) -> None:
    """Refuse models whose objective is over all nodes at once.

    Raises:
        BadInput: With the reason.
    """
    reason = None
    if isinstance(model, CrossGrand):
        reason = "makes several draws of all nodes agree"
    elif isinstance(model, SemiEmb) and model.laplacian_weight > 0:
        reason = "makes predictions agree along all edges"
    if reason is not None:
        raise BadInput(
            f"{type(model).__name__} {reason} in each step, so it cannot be trained in batches: "
            "leave out --batch-size, or choose another --model"
        )


def hop_fanouts(
    fanout: int | Sequence[int] | None, propagations: Sequence[Any]
) -> tuple[int, ...] | None:
    """Neighbours to draw in each hop, nearest first; ``None`` where nothing is sampled.

    Args:
        fanout: For all hops or one per hop, -1 for all neighbours. When left out, 25 in each
            hop of a model that has several; one hop is exact.
        propagations: The model's.

    Raises:
        BadInput: If there are more or fewer numbers than hops.
    """
    hops = len(propagations)
    if fanout is None:
        fanout = FANOUT if hops > 1 else -1
    each = (fanout,) * hops if isinstance(fanout, int) else tuple(fanout)
    if len(each) != hops:
        raise BadInput(
            f"fanout {','.join(map(str, each))} is for {len(each)} hops, but the model has {hops}: "
            "give one number for all hops or one per hop"
        )
    return None if all(number == -1 for number in each) else each


def train_mini_batch(
    model: Stack,
    source: GraphSource,
    split: Split,
    *,
    batch_size: int,
    fanout: int | Sequence[int] | None = None,
    seed: int = 0,
    epochs: int = 500,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    evaluate_every: int = 1,
    test_curve: bool = False,
    read_test: bool = True,
    device: str | torch.device = "cpu",
    precision: str = "fp32",
    checkpoints: Checkpoints | None = None,
    on_epochs: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Minimise full-batch training's objective in steps of a few nodes each.

    Args:
        model: Trained in place; holds the selected weights afterwards.
        source: The graph, in memory or on disk, with its labels.
        split: Which nodes train, select and test.
        batch_size: Training nodes of a step, over all processes together.
        fanout: As :func:`hop_fanouts` takes it.
        seed: Decides the batches, what is sampled and what is dropped.
        epochs: Passes over the training nodes.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        evaluate_every: Epochs from one look at the validation nodes to the next; the last
            epoch is always looked at.
        test_curve: Also look at the test nodes each time, for a figure; it decides nothing.
        read_test: Look at the test nodes at the end.
        device: ``cpu``, ``cuda``, or ``auto``.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        checkpoints: Where to write resume points; one that is there is continued from.
        on_epochs: Called with the number of epochs done since; may raise to stop.

    Raises:
        Diverged: At the first loss, or selected weights, that are not finite.
        BadInput: If the model cannot be trained in batches.
    """
    refuse_batches(model)
    place = choose_device(device)
    check_precision(precision, place)
    fanouts = hop_fanouts(fanout, model.propagations)
    group = processes()
    sampling: dict[str, Any] = {"fanouts": fanouts, "batch_size": batch_size, "seed": seed}
    if not model.is_calibrated:
        # By the same nodes however many processes there are.
        whole = NodeBatches(source, split.train, model.propagations, **sampling)
        first = next(iter(whole.epoch(0)))
        calibrate(model, first.x, first.blocks)
    batches = NodeBatches(
        source,
        split.train,
        model.propagations,
        rank=group.rank,
        world_size=group.world_size,
        **sampling,
    )
    training = _Training(model.to(place), group, epochs, checkpoints)
    step = MiniBatchStep(
        model,
        seed=seed,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        device=place,
        precision=precision,
        processes=group,
    )

    def scorer(nodes: Tensor) -> ExactScorer:
        return ExactScorer(model, source, nodes, place, precision, group)

    validation = scorer(split.validation)
    curve = scorer(split.test) if test_curve else None
    training.resume(step)
    report = on_epochs or (lambda count: None)
    report(training.epoch)
    while training.epoch < epochs:
        number = training.epoch + 1
        step.clear()
        for batch in batches.epoch(number):
            step(batch)
        loss, right = (group.add_up(step.totals) / split.train.numel()).tolist()
        if number % evaluate_every == 0 or number == epochs or not math.isfinite(loss):
            test_accuracy = curve()[1] if curve is not None else None
            training.look(EpochMetrics(number, loss, right, *validation(), test_accuracy))
        training.finish_epoch(step)
        report(1)
    model.load_state_dict(training.best)
    test = (curve or scorer(split.test))()[1] if read_test else None
    best = training.best_metrics
    assert best is not None
    return TrainedModel(
        {name: value.detach().cpu().clone() for name, value in training.best.items()},
        best.epoch,
        best.validation_accuracy,
        test,
        tuple(training.history),
    )


class _Training:
    """How far a training is, its best epoch, and its resume point."""

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
