"""The training loop: every model of this package is trained by :func:`fit`.

A :class:`Step` does the work of one epoch, scorers evaluate the weights, and a :class:`Selection`
keeps the best ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.layers import FeatureDropout
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import WARM_UPS, capture, check_precision, multiplying_in
from crossgcn.training.metrics import (
    METRICS,
    check_defined,
    compute,
    evaluate,
    positive_class,
    selecting_metric,
)
from crossgcn.training.objective import Optimizer, compute_loss

_EPOCHS_PER_WAIT = 25
"""Epochs of a CUDA graph that are queued before the loop waits for them."""


@dataclass(frozen=True)
class EpochMetrics:
    """Metrics of one epoch.

    ``train_loss`` is the cross-entropy or half the squared error, without weight decay;
    ``train_score`` is the accuracy, or R² for numbers. Dropout is active in both.
    ``validation_score`` is the metric that selects, negated if smaller values are better.
    """

    epoch: int
    train_loss: float
    train_score: float
    validation_loss: float
    validation_score: float


@dataclass(frozen=True)
class TrainedModel:
    """A trained model: the weights of the selected epoch and their metrics.

    Attributes:
        state: The weights, on the CPU.
        best_epoch: The selected epoch, counted from 1.
        validation_score: The metric that selects, negated if smaller values are better.
        test: Every metric of the test nodes; ``None`` if there are none.
        chosen: Further choices made on the validation nodes, as written to the record.
    """

    state: dict[str, Tensor]
    best_epoch: int
    validation_score: float
    test: dict[str, float] | None
    history: tuple[EpochMetrics, ...]
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def test_accuracy(self) -> float | None:
        """Accuracy on the test nodes, if there are any and they have classes."""
        return None if self.test is None else self.test.get("accuracy")


class SharedProgress:
    """Reports the epochs of several trainings as if they were one training.

    Args:
        total: Epochs of the one training.
        stages: Number of trainings that is expected.
        on_epochs: Called with the number of further epochs.
    """

    def __init__(
        self, total: int, stages: int, on_epochs: Callable[[int], None] | None = None
    ) -> None:
        self._report = on_epochs or (lambda count: None)
        self._total, self._stages = total, stages
        self._done = self._reported = 0

    def __call__(self, epochs: int) -> None:
        """Count further epochs of the present training."""
        self._done += epochs
        self._show(min(self._done // self._stages, self._total))

    def finish(self) -> None:
        """Report the epochs that were not done."""
        self._show(self._total)

    def _show(self, done: int) -> None:
        if done > self._reported:
            self._report(done - self._reported)
            self._reported = done


class Diverged(WorkFailed):
    """A loss or a weight became infinite or NaN; ``reason`` says in which epoch."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{reason}; try a lower learning_rate, a lower --order, or smaller feature values "
            "(row-normalise or standardise them)"
        )


class Step(ABC):
    """A model in training; :meth:`run` does the work of one epoch.

    Dropout depends only on the seed and the number of the step.

    Args:
        model: Trained in place, on its device.

    Attributes:
        loss: Training loss of the last epoch, with dropout.
        accuracy: Training accuracy of the last epoch, or R² for numbers, with dropout.
        count: Steps of the optimizer so far, as a tensor on the device.
        capturable: Whether an epoch can be recorded as a CUDA graph.
    """

    loss: Tensor
    accuracy: Tensor
    capturable: bool = False

    def __init__(self, model: NodeClassifier, config: RunConfig, seed: int) -> None:
        self.model, self.config, self.seed = model, config, seed
        self.device = next(model.parameters()).device
        check_precision(config.precision, self.device)
        self.count = torch.zeros((), dtype=torch.long, device=self.device)
        self.optimizer = Optimizer(model, config.learning_rate, config.weight_decay)
        self._dropouts = [each for each in model.modules() if isinstance(each, FeatureDropout)]
        seed_on_device = torch.tensor(seed, device=self.device)
        for dropout in self._dropouts:
            dropout.follow(seed_on_device, self.count)

    @abstractmethod
    def run(self) -> None:
        """Train for one epoch."""

    @abstractmethod
    def scorer(self, nodes: Tensor) -> Scorer:
        """Return a scorer of the model on some nodes."""

    def descend(self, inputs: tuple[Any, ...], grad_of: Callable[[Tensor], Tensor]) -> None:
        """Do a step of Adam, with gradients from autograd.

        Args:
            inputs: Arguments of the model.
            grad_of: Returns the gradient of the loss with respect to the scores that it receives.
        """
        self.model.train()
        with multiplying_in(self.config.precision, self.device):
            scores = self.model(*inputs)
            gradient = grad_of(scores.detach())
            gradients = torch.autograd.grad(
                scores, self.optimizer.weights, gradient, allow_unused=True
            )
        self.optimizer.step(gradients)

    def release(self) -> None:
        """Free all memory that only training needs; no epoch follows."""
        for dropout in self._dropouts:
            dropout.follow(None, None)

    def tensors(self) -> list[Tensor]:
        """Return all tensors that an epoch changes in place."""
        return [*self.model.state_dict().values(), self.count, *self.optimizer.tensors()]


class Scorer(ABC):
    """Scores some nodes with the current weights.

    Args:
        y: Class or number of every node of the graph.
        labels: Classes or numbers of the nodes to score.
    """

    def __init__(self, model: NodeClassifier, config: RunConfig, y: Tensor, labels: Tensor) -> None:
        self.model, self.config, self.labels = model, config, labels
        self.metric = selecting_metric(config.metric, model.num_outputs)
        self.positive = positive_class(y.numpy(force=True)) if model.num_outputs == 2 else None

    @abstractmethod
    def read(self) -> Iterable[tuple[tuple[Any, ...], Tensor]]:
        """Yield batches of the nodes: the model's arguments and the labels."""

    @torch.no_grad()
    def score(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the accuracy, and the scores of the nodes."""
        model, count = self.model.eval(), self.labels.numel()
        device, scale, batches = next(model.parameters()).device, model.target_scale, []
        totals = torch.zeros(2, dtype=torch.float64, device=device)
        with multiplying_in(self.config.precision, device):
            for inputs, labels in self.read():
                scores = model(*inputs)
                batches.append(scores)
                if scale is not None:
                    scores = (scores - scale[0]) / scale[1]
                loss, num_correct, _ = compute_loss(scores, labels, count, target_scale=scale)
                totals += torch.stack([loss, num_correct])
        loss, accuracy = totals / count
        return loss, accuracy, torch.cat(batches)

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return the loss, and the metric that selects, negated if smaller values are better."""
        loss, accuracy, scores = self.score()
        if self.metric == "accuracy":
            return loss, accuracy
        value = compute(self.metric, *self._as_arrays(scores), self.positive)
        value *= METRICS[self.metric].sign
        return loss, torch.tensor(value, dtype=torch.float64, device=accuracy.device)

    def check_metric(self) -> None:
        """Refuse a metric that is not defined on the labels of these nodes."""
        if self.metric != "accuracy":
            check_defined(self.metric, self.labels.numpy(force=True), self.model.num_outputs)

    def evaluate(self) -> dict[str, float]:
        """Return every metric of the task; the accuracy alone if no metric was chosen."""
        _, accuracy, scores = self.score()
        if self.config.metric is None and self.model.num_outputs > 1:
            return {"accuracy": float(accuracy)}
        return evaluate(*self._as_arrays(scores), self.positive)

    def _as_arrays(self, scores: Tensor) -> tuple[Any, Any]:
        return self.labels.numpy(force=True), scores.double().numpy(force=True)


class Selection:
    """Keeps the weights of the first epoch of strictly best validation score (NOTE[D6]).

    Without validation nodes, it keeps the weights of the last epoch. All tensors stay on the
    model's device, so that no epoch waits for a GPU. If a loss or the selected weights are not
    finite, the model is no longer ``sound``, and no further weights are kept.

    Args:
        model: The model in training.
        patience: Epochs without improvement after which training ends; ``None`` for never.
    """

    def __init__(self, model: nn.Module, epochs: int, patience: int | None) -> None:
        self.patience = epochs if patience is None else patience
        self.validates = False
        self.live = {name: value.detach() for name, value in model.state_dict().items()}
        self.best = {name: value.clone() for name, value in self.live.items()}
        device = next(iter(self.live.values())).device
        self.best_score = torch.full((), -math.inf, dtype=torch.float64, device=device)
        self.best_epoch = torch.zeros((), dtype=torch.long, device=device)
        self.sound = torch.ones((), dtype=torch.bool, device=device)
        self.epoch = torch.zeros((), dtype=torch.long, device=device)
        # The fields of EpochMetrics without the epoch, and whether the model was sound.
        rows = max(epochs, WARM_UPS)
        self.history = torch.full((rows, 5), math.nan, dtype=torch.float64, device=device)
        self._unknown = torch.full_like(self.best_score, math.nan)

    def record(
        self, loss: Tensor, accuracy: Tensor, validation: tuple[Tensor, Tensor] | None
    ) -> None:
        """Record the metrics of one more epoch, and keep its weights if they are the best.

        Args:
            validation: The loss and the score of the validation nodes, if there are any.
        """
        finite, score = loss.isfinite(), self.epoch.double()  # without validation, later is better
        self.validates = validation is not None
        if validation is None:
            validation = (self._unknown, self._unknown)
        else:
            finite, score = finite & validation[0].isfinite(), validation[1]
        better = self.sound & finite & (score > self.best_score)
        better = better & (self.epoch - self.best_epoch < self.patience)
        # Reading `better` would wait for a GPU, so a GPU always computes the rest.
        may_be_better = better.is_cuda or bool(better)
        if may_be_better:
            weights = torch.stack([value.isfinite().all() for value in self.live.values()]).all()
            finite = finite & (weights | ~better)
            better = better & weights
        self.sound &= finite
        row = torch.stack([x.double() for x in (loss, accuracy, *validation, self.sound)])
        self.history.index_copy_(0, self.epoch.view(1), row.unsqueeze(0))
        self.epoch += 1
        if may_be_better:
            for name, value in self.live.items():
                self.best[name].copy_(torch.where(better, value, self.best[name]))
            self.best_score.copy_(torch.where(better, score, self.best_score))
            self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))

    def goes_on(self) -> bool:
        """Whether the model has not diverged and may still improve."""
        return bool(self.sound & (self.epoch - self.best_epoch < self.patience))

    def tensors(self) -> list[Tensor]:
        """Return all tensors that :meth:`record` changes in place."""
        own = [self.best_score, self.best_epoch, self.sound, self.epoch, self.history]
        return [*own, *self.best.values()]

    def metrics(self, first: int = 0) -> list[EpochMetrics]:
        """Return the metrics of the epochs after ``first``, while the model is sound."""
        rows = self.history[first : int(self.epoch)].tolist()
        return [
            EpochMetrics(epoch, *metrics)
            for epoch, (*metrics, is_sound) in enumerate(rows, first + 1)
            if is_sound
        ]

    def restore(self) -> None:
        """Put the selected weights into the model; raise :class:`Diverged` if it is not sound."""
        for name, value in self.live.items():
            value.copy_(self.best[name])
        if self.sound:
            return
        epochs = len(self.metrics())  # the number of sound epochs; none follows an unsound one
        train_loss, _, validation_loss, *_ = self.history[epochs].tolist()
        what = "a weight became infinite"
        if not math.isfinite(train_loss):
            what = f"the loss became {train_loss}"
        elif self.validates and not math.isfinite(validation_loss):
            what = f"the validation loss became {validation_loss}"
        raise Diverged(f"training diverged: {what} in epoch {epochs + 1}")

    def result(self, test: dict[str, float] | None) -> TrainedModel:
        """Return the selected weights, and all metrics."""
        state = {
            name: value.to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, value in self.best.items()
        }
        history, best_epoch = tuple(self.metrics()), int(self.best_epoch)
        validation_score = history[best_epoch - 1].validation_score
        return TrainedModel(state, best_epoch, validation_score, test, history)


def fit(
    step: Step,
    split: Split,
    *,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel:
    """Train for all epochs of the configuration, select one, and only then score the test nodes.

    Training ends early when the model has not improved for ``config.patience`` epochs. An epoch
    of a step that is ``capturable`` is recorded as a CUDA graph and replayed.

    Args:
        step: Trains its model for one epoch, from the current weights. Afterwards the model has the
            selected weights, and the step cannot be used any more.
        split: Without validation nodes, the last epoch is selected; without test nodes, none are
            scored. The training nodes are those of the step.
        on_epochs: Called regularly with the number of epochs done since the last call; an
            exception raised in it stops the training.
        on_metrics: Called with the metrics of each epoch.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    config, report = step.config, on_epochs or (lambda count: None)
    validation = step.scorer(split.validation) if split.validation.numel() else None
    if validation is not None:
        validation.check_metric()
    selection = Selection(step.model, config.epochs, config.patience)

    def run_epoch() -> None:
        step.run()
        validated = None if validation is None else validation()
        selection.record(step.loss, step.accuracy, validated)

    run, epochs_per_wait = run_epoch, 1
    if step.capturable:
        run = capture(run_epoch, step.tensors() + selection.tensors(), step.device)
        epochs_per_wait = _EPOCHS_PER_WAIT
    reported = 0
    for epoch in range(1, config.epochs + 1):
        run()
        if epoch % epochs_per_wait and epoch != config.epochs:
            continue
        goes_on = selection.goes_on()  # waits for a GPU
        if on_metrics is not None:
            for metrics in selection.metrics(first=reported):
                on_metrics(metrics)
        report(epoch - reported)
        reported = epoch
        if not goes_on:
            break
    if reported < config.epochs and selection.sound:
        report(config.epochs - reported)  # stopped early: no epochs are left
    del run  # a CUDA graph keeps memory
    step.release()
    selection.restore()
    tested = step.scorer(split.test).evaluate() if split.test.numel() else None
    return selection.result(tested)
