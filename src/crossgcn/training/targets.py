"""The nodes whose scores a model is judged by, and what it must see to score them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.graph import PreparedGraph, stack_inputs
from crossgcn.graph.device_inputs import move_inputs
from crossgcn.graph.stacked_matrix import Inputs
from crossgcn.models.stack import Stack

__all__ = ["Targets", "find_targets"]

_NO_NODE = -100


@dataclass(frozen=True)
class Targets:
    """Nodes and labels of each model, on the model's device.

    Attributes:
        inputs: What the model takes, cut down to the rows it needs.
        labels: ``[models, nodes]``; where a model has fewer nodes than another,
            a number that is no class.
        counts: Nodes of each model, ``[models]``.
    """

    inputs: Inputs
    labels: Tensor
    counts: Tensor

    def losses(self, scores: Tensor) -> Tensor:
        """Mean cross-entropy of each model's scores, ``[models]``."""
        each = functional.cross_entropy(
            scores.flatten(0, -2), self.labels.flatten(), reduction="none", ignore_index=_NO_NODE
        )
        return each.view_as(self.labels).sum(1) / self.counts

    def accuracies(self, scores: Tensor) -> Tensor:
        """Fraction of each model's nodes scored right, ``[models]``, float64."""
        right = scores.argmax(dim=-1).view_as(self.labels) == self.labels
        return right.sum(1) / self.counts.double()


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
            views[id(own)] = graph.view(own, model.num_hops)
    inputs = [views[id(own)] for own in nodes]
    labels = torch.full((len(nodes), max(own.numel() for own in nodes)), _NO_NODE)
    for row, own in zip(labels, nodes, strict=True):
        row[: own.numel()] = y[own]
    return Targets(
        move_inputs(inputs[0] if model.num_models is None else stack_inputs(inputs), device),
        labels.to(device),
        torch.tensor([own.numel() for own in nodes], device=device),
    )
