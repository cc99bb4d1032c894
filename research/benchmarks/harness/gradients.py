"""Scores and gradients of both sides, in the paper's letters."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import multiplying_in
from crossgcn.training.steps.full_batch import FullBatchStep
from research.benchmarks.harness.peer_training import PeerTraining
from research.benchmarks.harness.peers import NaiveCrossConv, PeerModel

__all__ = [
    "Gradients",
    "apart",
    "first_gradients",
    "gradient_errors",
    "our_scores",
    "peer_gradients",
]

FIRST_MEAN: Final = 0.1
"""What Adam's first mean takes of the first gradient."""

Gradients = list[dict[str, Tensor]]
"""For each layer, by letter: ``W1``, ``W2`` and ``alpha``."""


def our_scores(step: FullBatchStep) -> Tensor:
    """Scores of the training nodes; nothing is trained."""
    with torch.no_grad(), multiplying_in(step.config.precision, step.device):
        return step.objective().scores[0, :, : step.objective.targets.num_classes]


def first_gradients(step: FullBatchStep, start: NodeClassifier) -> Gradients:
    """The gradients of the first step, from what Adam remembers after it.

    Adam's first mean is a tenth of the gradient and the decay. So these are the
    gradients of the step that is timed, compiled or captured as it may be.

    Args:
        step: After its first call.
        start: The model as it was before.
    """
    found: dict[int, Tensor] = {}
    initial = dict(start.named_parameters())
    names = {id(weight): name for name, weight in step.model.named_parameters()}
    for group in step.optimizer.groups:
        for weight, order, mean in zip(group.weights, group.orders, group.means, strict=True):
            inverse = [order.index(dim) for dim in range(len(order))]
            decay = group.weight_decay * initial[names[id(weight)]].detach().cpu()
            taken = mean.permute(inverse)[0].cpu()
            for dim, length in enumerate(decay.shape):
                taken = taken.narrow(dim, 0, length)
            found[id(weight)] = taken / FIRST_MEAN - decay
    return [_layer_gradients(layer, found) for layer in step.model.layers]


def peer_gradients(peer: PeerTraining) -> tuple[Tensor, Gradients]:
    """The same of a peer."""
    peer.model.zero_grad()
    scores = peer.scores()
    peer.loss().backward()  # type: ignore[no-untyped-call]
    return scores, _peer_layers(peer.model)


def gradient_errors(ours: Gradients, theirs: Gradients) -> dict[str, float]:
    """How far each gradient is off."""
    return {
        f"{letter} in layer {layer}": apart(ours[layer - 1][letter], reference)
        for layer, gradients in enumerate(theirs, 1)
        for letter, reference in gradients.items()
    }


def apart(ours: Tensor, theirs: Tensor) -> float:
    """The norm of the difference, relative to that of the second.

    Not the largest difference: of millions of hidden units, one or two lie so near zero that
    rounding decides on which side of the ReLU they fall, in one row of the sum.
    """
    ours, theirs = ours.detach().double().cpu(), theirs.detach().double().cpu()
    return float((ours - theirs).norm() / theirs.norm())


def _layer_gradients(layer: Any, of: dict[int, Tensor]) -> dict[str, Tensor]:
    transform = layer.transform
    found = {f"W{order}": each for order, each in enumerate(of[id(transform.weight)], 1)}
    if transform.order > 1:
        found["alpha"] = of[id(transform.order_weights)][1:]
    return found


def _peer_layers(model: PeerModel) -> Gradients:
    gradients: list[dict[str, Any]] = []
    for layer in model.convolutions:
        if isinstance(layer, NaiveCrossConv):
            gradients.append(
                {
                    "W1": layer.first.weight.grad,
                    "W2": layer.second.weight.grad,
                    "alpha": layer.order_weight.grad,
                }
            )
        else:
            convolution: Any = layer
            gradients.append({"W1": convolution.lin.weight.grad})
    return gradients
