"""Score nodes with the weights as they are: to select epochs, and once on the test nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import multiplying_in
from crossgcn.training.loop import Step, fit
from crossgcn.training.metrics import (
    METRICS,
    check_defined,
    check_threshold,
    choose_threshold,
    compute,
    evaluate,
    positive_class,
    selecting_metric,
)
from crossgcn.training.model_batch import can_be_compiled
from crossgcn.training.objective import Targets
from crossgcn.training.selection import Diverged, TrainedModel

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledNetwork

Nodes = TypeVar("Nodes")
Predicted = Iterator[tuple[NDArray[Any], NDArray[Any]]]
"""Labels and scores of each model's nodes."""


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
    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted]:
        """Return losses and accuracies, ``[models]`` each, and the predictions, if kept."""

    @abstractmethod
    def _predict(self) -> Predicted:
        """Return what is predicted."""

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return losses and the metric, negated if it should shrink, ``[models]`` each."""
        if self.metric is None or self.metric == "accuracy":
            return self._score(keep=False)[:2]
        losses, accuracies, predicted = self._score(keep=True)
        sign = 1 if METRICS[self.metric].grows else -1
        values = [sign * compute(self.metric, *own, self.positive) for own in predicted]
        return losses, torch.tensor(values, dtype=torch.float64, device=accuracies.device)

    @torch.no_grad()
    def evaluate(self, thresholds: Sequence[float] | None = None) -> list[dict[str, float]]:
        """Return every metric of the task, for each model; the accuracy alone by default."""
        if thresholds is not None:
            return [
                evaluate(*own, self.positive, threshold) | {"threshold": threshold}
                for own, threshold in zip(self._predict(), thresholds, strict=True)
            ]
        if self.metric is None:
            return [{"accuracy": accuracy} for accuracy in self()[1].tolist()]
        return [evaluate(*own, self.positive) for own in self._predict()]

    @torch.no_grad()
    def choose_thresholds(self) -> list[float]:
        """Return the best decision threshold of each model on these nodes."""
        assert self.positive is not None
        return [choose_threshold(*own, self.positive, self.metric) for own in self._predict()]


def fit_and_test(
    step: Step,
    scorer: Callable[[Nodes], Scorer],
    validation: Nodes | None,
    test: Nodes,
    *,
    read_test: bool = True,
    **more: Any,
) -> list[TrainedModel | Diverged]:
    """Train for all epochs, select one on validation nodes, and only then score the test nodes.

    Args:
        scorer: Makes a scorer of nodes.
        validation: Without it, the last epoch is selected.
        **more: Further arguments of :func:`~crossgcn.training.loop.fit`.
    """
    config = step.config
    curve = scorer(test) if config.test_curve else None
    selector = None if validation is None else scorer(validation)

    def read() -> list[dict[str, float]]:
        thresholds = None
        if config.threshold is not None and selector is not None:
            thresholds = selector.choose_thresholds()
        return (curve or scorer(test)).evaluate(thresholds)

    return fit(step, validation=selector, curve=curve, test=read if read_test else None, **more)


def check_scoring(config: RunConfig, num_classes: int, *validation: Tensor) -> None:
    """Refuse a metric or a threshold that does not fit the target or the validation labels."""
    metric = selecting_metric(config.metric, num_classes)
    check_threshold(config.threshold, num_classes)
    for labels in validation if metric != "accuracy" else ():
        check_defined(metric, labels.numpy(), num_classes)


class NodeScorer(Scorer):
    """Scores nodes of a graph in memory."""

    def __init__(
        self, model: NodeClassifier, targets: Targets, config: RunConfig, y: Tensor
    ) -> None:
        super().__init__(model, config, y)
        self.targets, self.device = targets, targets.labels.device
        self._network: CompiledNetwork | None = None
        if self.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled.network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    def _score(self, *, keep: bool) -> tuple[Tensor, Tensor, Predicted]:
        if self._network is None:
            scores = self._scores()
            losses, accuracies, _ = self.targets.score(standardised(self.model, scores))
        else:
            with np.errstate(all="ignore"):
                scores = torch.from_numpy(self._network.forward())
                loss, right = self._network.loss()
            losses, accuracies = torch.tensor([loss]), torch.tensor([right])
            accuracies = accuracies / self.targets.counts.double()
        return losses, accuracies, self._by_model(scores)

    def _predict(self) -> Predicted:
        return self._by_model(self._scores())

    def _scores(self) -> Tensor:
        self.model.eval()
        with multiplying_in(self.precision, self.device):
            scores: Tensor = self.model(*self.targets.inputs)
        return scores

    def _by_model(self, scores: Tensor) -> Predicted:
        scores = scores.view(*self.targets.labels.shape, -1)[..., : self.targets.num_classes]
        counts = self.targets.counts.tolist()
        for labels, own, count in zip(self.targets.labels, scores, counts, strict=True):
            yield labels[:count].numpy(force=True), own[:count].float().numpy(force=True)


def standardised(model: NodeClassifier, scores: Tensor) -> Tensor:
    """Convert scores of a model in evaluation from the unit of the target."""
    if model.target_scale is None:
        return scores
    return (scores - model.target_scale[0]) / model.target_scale[1]
