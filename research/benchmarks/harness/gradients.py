"""Scores and gradients of both sides, named by the paper's letters."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import multiplying_in
from crossgcn.training.full_batch import FullBatchStep
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
"""The factor of the first gradient in Adam's first moment, 1 - beta1."""

Gradients = list[dict[str, Tensor]]
"""For each layer, the gradients by letter: ``W1``, ``W2`` and ``alpha``."""


def our_scores(step: FullBatchStep) -> Tensor:
    """Return the scores of the training nodes, without training."""
    with torch.no_grad(), multiplying_in(step.config.precision, step.device):
        return step.objective().scores[0, :, : step.objective.targets.num_classes]


def first_gradients(step: FullBatchStep, start: NodeClassifier) -> Gradients:
    """Return the gradients of the first step, recovered from the state of Adam.

    After one step, Adam's first moment is a tenth of the gradient plus weight decay. The recovered
    gradients are therefore those of the timed step, even if the step is compiled or captured.

    Args:
        step: The step, after its first call.
        start: The model before the step.
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
    """Return the gradients of a peer."""
    peer.model.zero_grad()
    scores = peer.scores()
    peer.loss().backward()  # type: ignore[no-untyped-call]
    return scores, _peer_layers(peer.model)


def gradient_errors(ours: Gradients, theirs: Gradients) -> dict[str, float]:
    """Return the relative error of each gradient."""
    return {
        f"{letter} in layer {layer}": apart(ours[layer - 1][letter], reference)
        for layer, gradients in enumerate(theirs, 1)
        for letter, reference in gradients.items()
    }


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Return the norm of the difference, relative to the norm of the second argument.

    The maximum difference is not used: among millions of hidden units, one or two are so close to
    zero that rounding decides their ReLU, which changes one row of the sum.
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
