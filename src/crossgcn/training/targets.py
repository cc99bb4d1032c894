"""The nodes whose scores a model is judged by, and what it must see to score them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgcn import kernels
from crossgcn.graph import PreparedGraph, stack_inputs
from crossgcn.graph.device_inputs import move_inputs
from crossgcn.graph.stacked_matrix import Inputs
from crossgcn.models.stack import Stack

__all__ = ["Targets", "find_targets"]

_NO_NODE = -1


@dataclass(frozen=True)
class Targets:
    """Nodes and labels of each model, on the model's device.

    Attributes:
        inputs: What the model takes, cut down to the rows it needs.
        labels: ``[models, nodes]``; where a model has fewer nodes than another,
            a number that is no class.
        counts: Nodes of each model, ``[models]``.
        num_classes: How many classes there are.
    """

    inputs: Inputs
    labels: Tensor
    counts: Tensor
    num_classes: int

    def score(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How well each model does; no graph of it is kept.

        Args:
            scores: ``[models, nodes, width]``, or ``[nodes, width]`` of one model; the
                classes' are the first.

        Returns:
            Each model's mean cross-entropy, the fraction of its nodes scored right, and the
            gradient of the cross-entropy for the scores.
        """
        losses, accuracies, slope = kernels.score(
            scores.detach().view(*self.labels.shape, -1), self.labels, self.counts, self.num_classes
        )
        return losses, accuracies, slope.view_as(scores)


def find_targets(
    model: Stack, graph: PreparedGraph, y: Tensor, nodes: Sequence[Tensor], device: torch.device
) -> Targets:
    """Cut a graph down to what a model must see to score some nodes.

    Args:
        model: One model, or several stacked.
        graph: Features and adjacency.
        y: Class of each node.
        nodes: The nodes of each model.
        device: Where the model is.
    """
    views: dict[int, Inputs] = {}
    for own in nodes:
        if id(own) not in views:
            views[id(own)] = graph.view(own, model.propagations)
    inputs = [views[id(own)] for own in nodes]
    labels = torch.full((len(nodes), max(own.numel() for own in nodes)), _NO_NODE)
    for row, own in zip(labels, nodes, strict=True):
        row[: own.numel()] = y[own]
    return Targets(
        move_inputs(inputs[0] if model.num_models is None else stack_inputs(inputs), device),
        labels.to(device),
        torch.tensor([own.numel() for own in nodes], device=device),
        model.num_scores or int(model.layers[-1].out_channels),  # type: ignore[arg-type]
    )
