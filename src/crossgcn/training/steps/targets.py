"""The nodes on which a model is scored, and the inputs that it needs to score them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crossgcn import kernels
from crossgcn.graph import PreparedGraph, stack_inputs
from crossgcn.graph.matrix import ModelInputs
from crossgcn.graph.prepared import move_inputs
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import multiplying_in
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
    """

    inputs: ModelInputs
    labels: Tensor
    counts: Tensor
    num_classes: int

    def score(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the losses, the accuracies and the gradient of the losses for the scores.

        Args:
            scores: ``[models, nodes, width]``, or ``[nodes, width]`` of one model; those of the
                classes come first.
        """
        losses, accuracies, slope = kernels.score(
            scores.detach().view(*self.labels.shape, -1), self.labels, self.counts, self.num_classes
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
    labels = torch.full((len(nodes), max(own.numel() for own in nodes)), -1)
    for row, own in zip(labels, nodes, strict=True):
        row[: own.numel()] = y[own]
    return Targets(
        move_inputs(inputs[0] if model.num_models is None else stack_inputs(inputs), device),
        labels.to(device),
        torch.tensor([own.numel() for own in nodes], device=device),
        model.num_scores or int(model.layers[-1].out_channels),  # type: ignore[arg-type]
    )


class NodeScorer:
    """Scores nodes of a graph in memory, with the weights as they are at each call."""

    def __init__(self, model: NodeClassifier, targets: Targets, precision: str = "fp32") -> None:
        self.model, self.targets, self.precision = model, targets, precision
        self.device = targets.labels.device
        self._network: CompiledNetwork | None = None
        if self.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled.network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Return losses and accuracies, ``[models]`` each."""
        if self._network is not None:
            with np.errstate(all="ignore"):
                self._network.forward()
                loss, right = self._network.loss()
            return torch.tensor([loss]), torch.tensor([right]) / self.targets.counts.double()
        self.model.eval()
        with multiplying_in(self.precision, self.device):
            scores = self.model(*self.targets.inputs)
        losses, accuracies, _ = self.targets.score(scores)
        return losses, accuracies
