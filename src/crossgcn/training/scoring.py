"""Score nodes with the weights as they are: to select epochs, and once on the test nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import Checkpoint
from crossgcn.training.compiled import can_be_compiled
from crossgcn.training.config import RunConfig
from crossgcn.training.device import multiplying_in
from crossgcn.training.loop import Step, fit
from crossgcn.training.metrics import (
    METRICS,
    check_defined,
    compute,
    evaluate,
    positive_class,
    selecting_metric,
)
from crossgcn.training.objective import Loss, Targets
from crossgcn.training.selection import Diverged, EpochMetrics, TrainedModel

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledNetwork

Predicted = tuple[NDArray[Any], NDArray[Any]]
"""Labels and scores of the nodes."""


class Scorer(ABC):
    """Scores nodes with the weights as they are at each call.

    Args:
        y: Class or number of every node of the graph.
    """

    def __init__(self, model: NodeClassifier, config: RunConfig, y: Tensor) -> None:
        self.model, self.precision = model, config.precision
        self.metric = config.metric if model.target_scale is None else config.metric or "r2"
        self.positive = positive_class(y.numpy(force=True)) if model.num_outputs == 2 else None

    @abstractmethod
    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted | None]:
        """Return loss and accuracy, and the predictions, if kept."""

    @abstractmethod
    def _predict(self) -> Predicted:
        """Return what is predicted."""

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return the loss, and the metric, negated if it should shrink."""
        if self.metric is None or self.metric == "accuracy":
            return self._score(keep=False)[:2]
        loss, accuracy, predicted = self._score(keep=True)
        assert predicted is not None
        sign = 1 if METRICS[self.metric].grows else -1
        value = sign * compute(self.metric, *predicted, self.positive)
        return loss, torch.tensor(value, dtype=torch.float64, device=accuracy.device)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Return every metric of the task; the accuracy alone by default."""
        if self.metric is None:
            return {"accuracy": float(self()[1])}
        return evaluate(*self._predict(), self.positive)


def fit_and_test(
    step: Step,
    scorer: Callable[[Tensor], Scorer],
    validation: Tensor | None,
    test: Tensor,
    *,
    read_test: bool = True,
    checkpoint: Checkpoint | None = None,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel | Diverged:
    """Train for all epochs, select one on validation nodes, and only then score the test nodes.

    Args:
        scorer: Makes a scorer of some nodes.
        validation: Without it, the last epoch is selected.
        read_test: Score the test nodes.
        checkpoint: As for :func:`~crossgcn.training.loop.fit`, like ``on_epochs`` and
            ``on_metrics``.
    """
    config = step.config
    curve = scorer(test) if config.test_curve else None
    selector = None if validation is None else scorer(validation)

    def read() -> dict[str, float]:
        return (curve or scorer(test)).evaluate()

    return fit(
        step,
        validation=selector,
        curve=curve,
        test=read if read_test else None,
        checkpoint=checkpoint,
        on_epochs=on_epochs,
        on_metrics=on_metrics,
    )


def check_scoring(config: RunConfig, num_classes: int, *validation: Tensor) -> None:
    """Refuse a metric that does not fit the target or the validation labels."""
    metric = selecting_metric(config.metric, num_classes)
    for labels in validation if metric != "accuracy" else ():
        check_defined(metric, labels.numpy(), num_classes)


class NodeScorer(Scorer):
    """Scores nodes of a graph in memory."""

    def __init__(
        self, model: NodeClassifier, targets: Targets, config: RunConfig, y: Tensor
    ) -> None:
        super().__init__(model, config, y)
        self.targets, self.device = targets, targets.labels.device
        self._loss = Loss(model.num_outputs, target_scale=model.target_scale)
        self._network: CompiledNetwork | None = None
        if self.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled.network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted | None]:
        labels = self.targets.labels
        if self._network is None:
            scores = self._scores()
            loss, accuracy, _ = self._loss(standardised(self.model, scores), labels, labels.numel())
        else:
            scores = torch.from_numpy(self._network.forward())
            mean, correct = self._network.loss()
            loss = torch.tensor(mean)
            accuracy = torch.tensor(correct / labels.numel(), dtype=torch.float64)
        return loss, accuracy, self._with_labels(scores) if keep else None

    def _predict(self) -> Predicted:
        return self._with_labels(self._scores())

    def _scores(self) -> Tensor:
        self.model.eval()
        with multiplying_in(self.precision, self.device):
            scores: Tensor = self.model(*self.targets.inputs)
        return scores

    def _with_labels(self, scores: Tensor) -> Predicted:
        exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return self.targets.labels.numpy(force=True), exact.numpy(force=True)


def standardised(model: NodeClassifier, scores: Tensor) -> Tensor:
    """Convert scores of a model in evaluation from the unit of the target."""
    if model.target_scale is None:
        return scores
    return (scores - model.target_scale[0]) / model.target_scale[1]
