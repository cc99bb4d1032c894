r"""The objective of training.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

The loss of classes is the cross-entropy, that of a number the squared error, standardised.

NOTE[D5] The rule for every model: Θ is every matrix of every layer, and the order weights
of ``"learned"``; never a bias or a ``"gated"`` order weight. The released code averages over
the training nodes and halves the penalty, where the paper sums and does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph
from crossgcn.graph.sparse_matrix import ModelInputs
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier


@dataclass(frozen=True)
class Loss:
    """The mean loss over rows, its gradient, and the accuracy or R².

    Attributes:
        num_classes: 1 for a number.
        class_weights: Multiplies the loss of each row, ``[num_classes]``.
        target_scale: Mean and standard deviation of numbers; scores are standardised.
    """

    num_classes: int
    class_weights: Tensor | None = None
    target_scale: Tensor | None = None

    def __call__(
        self,
        scores: Tensor,
        labels: Tensor,
        count: float,
        node_weights: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss.

        Args:
            scores: ``[..., rows, num_classes]``; for the bags of a model, the first dimension.
            labels: Classes ``[..., rows]``, where rows of a negative label do not count; or
                numbers, where rows of NaN do not count.
            count: By which sums over the rows are divided.
            node_weights: Multiplies the loss of each row, ``[..., rows]``; their mean is 1.

        Returns:
            The loss ``[...]``; the accuracy, or R² for numbers, ``[...]`` in float64; and the
            gradient of the loss for the scores.
        """
        if labels.is_floating_point():
            return self._squared_error(scores, labels, count, node_weights)
        exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
        log_probabilities = exact.log_softmax(dim=-1)
        counted, classes = labels >= 0, labels.clamp(min=0)
        losses = -log_probabilities.gather(-1, classes.unsqueeze(-1)).squeeze(-1)
        losses = losses.where(counted, 0.0)
        correct = (scores.argmax(dim=-1) == labels) & counted
        one_hot = functional.one_hot(classes, self.num_classes).to(exact.dtype)
        grad = (log_probabilities.exp() - one_hot) / count
        grad = grad.where(counted.unsqueeze(-1), 0.0)
        weights = node_weights
        if self.class_weights is not None:
            by_class = self.class_weights[classes].to(exact.dtype)
            weights = by_class if weights is None else weights * by_class
        if weights is not None:
            losses, grad = losses * weights, grad * weights.unsqueeze(-1)
        accuracy = correct.sum(dim=-1).double() / count
        return losses.sum(dim=-1) / count, accuracy, grad.to(scores.dtype)

    def _squared_error(
        self,
        scores: Tensor,
        labels: Tensor,
        count: float,
        node_weights: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        assert self.target_scale is not None
        mean, deviation = self.target_scale
        targets = ((labels - mean) / deviation).nan_to_num().to(scores.dtype)
        error = torch.where(labels.isnan(), 0.0, scores[..., 0] - targets)
        weighted = error if node_weights is None else error * node_weights
        loss = (error * weighted).sum(dim=-1) / (2 * count)
        return loss, (1 - 2 * loss).double(), (weighted / count).unsqueeze(-1)


def score_rows(
    loss_of: Loss, scores: Tensor, labels: Tensor, count: int, node_weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Score some of ``count`` nodes.

    Returns:
        The sum of the losses and the number of correct predictions (of numbers, what adds up to
        R² times their number), in float64, and the gradient, for the scores, of the loss divided
        by ``count``.
    """
    mean, accuracy, grad = loss_of(scores.detach(), labels.to(scores.device), count, node_weights)
    loss, num_correct = mean.double() * count, (accuracy * count).round()
    if labels.is_floating_point():
        num_correct = labels.numel() - 2 * loss  # so that the parts add up to the whole
    return loss, num_correct, grad


def class_weights(
    setting: str | Sequence[float] | None, y: Tensor, num_classes: int
) -> Tensor | None:
    """Return the weight of each class in the loss, ``[num_classes]``; ``None`` if all are one.

    ``setting`` is ``class_weight``, and ``y`` the classes of the training nodes.
    ``"balanced"`` gives every class the same total, as in scikit-learn.
    """
    if setting is None:
        return None
    if num_classes == 1:
        raise BadInput("class_weight is for classes, and the target is a number; leave it out")
    if isinstance(setting, str):
        counts = torch.bincount(y, minlength=num_classes).clamp(min=1)
        return y.numel() / (num_classes * counts.float())
    if len(setting) != num_classes:
        raise BadInput(
            f"class_weight has {len(setting)} weights for {num_classes} classes; give one per class"
        )
    return torch.tensor(setting, dtype=torch.float32)


def training_loss(
    model: NodeClassifier, class_weight: str | Sequence[float] | None, y: Tensor
) -> Loss:
    """Return the loss that a model minimises on training nodes of these classes or numbers."""
    weights = class_weights(class_weight, y, model.num_outputs)
    if weights is not None:
        weights = weights.to(next(model.parameters()).device)
    return Loss(model.num_outputs, weights, model.target_scale)


def scale_node_weights(weights: Tensor | None, num_nodes: int) -> Tensor | None:
    """Return weights of training nodes with a mean of 1, after checking their number."""
    if weights is None:
        return None
    if weights.shape != (num_nodes,):
        raise BadInput(f"{weights.numel()} weights for {num_nodes} training nodes; give one each")
    return weights / weights.mean()


def fit_target_scale(model: NodeClassifier, y: Tensor) -> None:
    """Make a model predict numbers in their unit, by those of the training nodes."""
    numbers = y.double()
    deviation = float(numbers.std()) if numbers.numel() > 1 else 0.0
    model.predict_number(float(numbers.mean()), deviation or 1.0)


@dataclass(frozen=True)
class Targets:
    """The nodes on which a model is scored, on its device.

    Attributes:
        inputs: The model's inputs, cut down to the rows it needs.
        labels: ``[nodes]``.
    """

    inputs: ModelInputs
    labels: Tensor


def find_targets(
    model: NodeClassifier, graph: PreparedGraph, y: Tensor, nodes: Tensor, device: torch.device
) -> Targets:
    """Cut a graph down to the inputs with which a model scores some nodes."""
    x, blocks = graph.view(nodes, model.propagations)
    inputs = x.to(device), tuple(block.to(device) for block in blocks)
    return Targets(inputs, y[nodes].to(device))


def order_weight_penalty(model: nn.Module, weight_decay: float) -> Tensor | None:
    r"""Return the penalty of order weights, :math:`\frac{\lambda}{2}\sum_{k\ge2}\alpha_k^2`.

    It is part of the loss and not of the optimizer because :math:`\alpha_1` is not trained and
    must not be decayed. ``None`` when no order weight is decayed.
    """
    decayed = [
        module.order_weights[1:]
        for module in model.modules()
        if isinstance(module, CrossFeatureTransform)
        and module.decays_order_weights
        and module.order_weights is not None
        and module.order_weights.requires_grad
    ]
    if not decayed or weight_decay == 0.0:
        return None
    return 0.5 * weight_decay * torch.cat(decayed).square().sum()
