"""The nodes on which a model is scored, and the inputs that it needs to score them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.graph import PreparedGraph, stack_inputs
from crossgcn.graph.matrix import ModelInputs
from crossgcn.graph.prepared import move_inputs
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import multiplying_in
from crossgcn.training.losses import score as losses_of
from crossgcn.training.metrics import METRICS, choose_threshold, compute, evaluate
from crossgcn.training.model_batch import can_be_compiled

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledNetwork


@dataclass(frozen=True)
class Targets:
    """Nodes and labels of each model, on the model's device.

    Attributes:
        inputs: The model's inputs, cut down to the rows it needs.
        labels: ``[models, nodes]``; -1 where a model has fewer nodes than another.
        counts: Nodes of each model, ``[models]``.
        class_weights: As for :func:`crossgcn.training.losses.score`; likewise ``node_weights``
            and ``target_scale``.
    """

    inputs: ModelInputs
    labels: Tensor
    counts: Tensor
    num_classes: int
    class_weights: Tensor | None = None
    node_weights: Tensor | None = None
    target_scale: Tensor | None = None

    def score(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the losses, the accuracies and the gradient of the losses for the scores.

        Args:
            scores: ``[models, nodes, width]``, or ``[nodes, width]`` of one model; those of the
                classes come first.
        """
        losses, accuracies, slope = losses_of(
            scores.detach().view(*self.labels.shape, -1),
            self.labels,
            self.counts,
            self.num_classes,
            class_weights=self.class_weights,
            node_weights=self.node_weights,
            target_scale=self.target_scale,
        )
        return losses, accuracies, slope.view_as(scores)


def find_targets(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    nodes: Sequence[Tensor],
    device: torch.device,
) -> Targets:
    """Cut a graph down to the inputs with which a model, or several stacked, score their nodes."""
    views: dict[int, ModelInputs] = {}
    for own in nodes:
        if id(own) not in views:
            views[id(own)] = graph.view(own, model.propagations)
    inputs = [views[id(own)] for own in nodes]
    unknown = torch.nan if y.is_floating_point() else -1
    size = (len(nodes), max(own.numel() for own in nodes))
    labels = torch.full(size, unknown, dtype=y.dtype)
    for row, own in zip(labels, nodes, strict=True):
        row[: own.numel()] = y[own]
    return Targets(
        move_inputs(inputs[0] if model.num_models is None else stack_inputs(inputs), device),
        labels.to(device),
        torch.tensor([own.numel() for own in nodes], device=device),
        model.num_outputs,
        target_scale=model.target_scale,
    )


class NodeScorer:
    """Scores nodes of a graph in memory, with the weights as they are at each call."""

    def __init__(
        self,
        model: NodeClassifier,
        targets: Targets,
        precision: str = "fp32",
        metric: str | None = None,
        positive: int | None = None,
    ) -> None:
        self.positive = positive
        self.model, self.targets, self.precision = model, targets, precision
        self.metric = metric if metric or model.target_scale is None else "r2"
        self.device = targets.labels.device
        self._network: CompiledNetwork | None = None
        if self.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled.network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return losses and the metric, negated if it should shrink, ``[models]`` each."""
        if self._network is not None:
            with np.errstate(all="ignore"):
                scores = torch.from_numpy(self._network.forward())
                loss, right = self._network.loss()
            losses, accuracies = torch.tensor([loss]), torch.tensor([right])
            accuracies = accuracies / self.targets.counts.double()
        else:
            scores = self._scores()
            losses, accuracies, _ = self.targets.score(standardised(self.model, scores))
        if self.metric is None or self.metric == "accuracy":
            return losses, accuracies
        sign = 1 if METRICS[self.metric].grows else -1
        values = [
            sign * compute(self.metric, *own, self.positive) for own in self._by_model(scores)
        ]
        return losses, torch.tensor(values, dtype=torch.float64, device=self.device)

    @torch.no_grad()
    def evaluate(self, thresholds: Sequence[float] | None = None) -> list[dict[str, float]]:
        """Return every metric of the task, for each model; the accuracy alone by default."""
        if thresholds is not None:
            return [
                evaluate(*own, self.positive, threshold) | {"threshold": threshold}
                for own, threshold in zip(self._by_model(self._scores()), thresholds, strict=True)
            ]
        if self.metric is None:
            return [{"accuracy": accuracy} for accuracy in self()[1].tolist()]
        return [evaluate(*own, self.positive) for own in self._by_model(self._scores())]

    @torch.no_grad()
    def choose_thresholds(self) -> list[float]:
        """Return the best decision threshold of each model on these nodes."""
        assert self.positive is not None
        return [
            choose_threshold(*own, self.positive, self.metric)
            for own in self._by_model(self._scores())
        ]

    def _scores(self) -> Tensor:
        self.model.eval()
        with multiplying_in(self.precision, self.device):
            scores: Tensor = self.model(*self.targets.inputs)
        return scores

    def _by_model(self, scores: Tensor) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield labels and scores of each model's nodes."""
        scores = scores.view(*self.targets.labels.shape, -1)[..., : self.targets.num_classes]
        counts = self.targets.counts.tolist()
        for labels, own, count in zip(self.targets.labels, scores, counts, strict=True):
            yield labels[:count].numpy(force=True), own[:count].float().numpy(force=True)


def standardised(model: NodeClassifier, scores: Tensor) -> Tensor:
    """Convert scores of a model in evaluation from the unit of the target."""
    if model.target_scale is None:
        return scores
    return (scores - model.target_scale[0]) / model.target_scale[1]
