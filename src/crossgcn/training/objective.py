r"""The objective of training, and the optimizer that minimises it.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

The loss of classes is the cross-entropy, that of a number the squared error, standardised.

NOTE[D5] The rule for every model: Θ is every matrix of every layer, and the order weights
of ``"learned"``; never a bias or a ``"gated"`` order weight. The released code averages over
the training nodes and halves the penalty, where the paper sums and does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.errors import BadInput
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier


def compute_loss(
    scores: Tensor,
    labels: Tensor,
    count: float,
    *,
    weights: Tensor | None = None,
    target_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the loss of rows, how many are predicted correctly, and the loss's gradient.

    Args:
        scores: ``[..., rows, classes]``, or ``[..., rows, 1]`` for a number; for the bags of a
            model, the first dimension.
        labels: Classes ``[..., rows]``, where rows of a negative label do not count; or
            numbers, where rows of NaN do not count.
        count: By which the gradient is divided, such as the number of rows.
        weights: Multiplies the loss of each row, ``[..., rows]``.
        target_scale: Mean and standard deviation of numbers; scores are standardised.

    Returns:
        Summed over the rows, ``[...]`` in float64: the losses; and the correct predictions or,
        for numbers, R² times their number. And the gradient, for the scores, of the sum of the
        losses divided by ``count``.
    """
    if target_scale is not None:
        mean, deviation = target_scale
        targets = ((labels - mean) / deviation).nan_to_num().to(scores.dtype)
        error = torch.where(labels.isnan(), 0.0, scores[..., 0] - targets)
        weighted = error if weights is None else error * weights
        loss = (error * weighted).sum(dim=-1).double() / 2
        known = labels.isnan().logical_not().sum(dim=-1)
        return loss, known - 2 * loss, (weighted / count).unsqueeze(-1)
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
    log_probabilities = exact.log_softmax(dim=-1)
    counted, classes = labels >= 0, labels.clamp(min=0)
    losses = -log_probabilities.gather(-1, classes.unsqueeze(-1)).squeeze(-1)
    losses = losses.where(counted, 0.0)
    correct = (scores.argmax(dim=-1) == labels) & counted
    one_hot = functional.one_hot(classes, scores.size(-1)).to(exact.dtype)
    grad = (log_probabilities.exp() - one_hot) / count
    grad = grad.where(counted.unsqueeze(-1), 0.0)
    if weights is not None:
        losses, grad = losses * weights, grad * weights.unsqueeze(-1)
    return losses.sum(dim=-1).double(), correct.sum(dim=-1).double(), grad.to(scores.dtype)


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


def training_weights(
    class_weight: str | Sequence[float] | None,
    node_weights: Tensor | None,
    y: Tensor,
    num_classes: int,
) -> Tensor | None:
    """Return the weight of each training node in the loss; ``None`` if all are one.

    Args:
        class_weight: Setting of :class:`~crossgcn.RunConfig`.
        node_weights: Of each training node; they are scaled to a mean of 1.
        y: Classes or numbers of the training nodes.
    """
    of_classes = class_weights(class_weight, y, num_classes)
    weights = None if of_classes is None else of_classes[y]
    if node_weights is None:
        return weights
    if node_weights.shape != y.shape:
        raise BadInput(
            f"{node_weights.numel()} weights for {y.numel()} training nodes; give one each"
        )
    node_weights = node_weights / node_weights.mean()
    return node_weights if weights is None else node_weights * weights


def fit_target_scale(model: NodeClassifier, y: Tensor) -> None:
    """Make a model predict numbers in their unit, by those of the training nodes."""
    numbers = y.double()
    deviation = float(numbers.std()) if numbers.numel() > 1 else 0.0
    model.predict_number(float(numbers.mean()), deviation or 1.0)


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


class AdamState(NamedTuple):
    """A weight with what Adam keeps of it.

    Attributes:
        memory: The weight as it lies in memory; ``mean`` and ``square`` lie alike.
        order: The dimensions of the weight in that order.
        mean: Running mean of the gradients.
        square: Running mean of their squares.
        step: Number of steps, a tensor.
        decay: Rate of the weight decay.
    """

    weight: Tensor
    memory: Tensor
    order: tuple[int, ...]
    mean: Tensor
    square: Tensor
    step: Tensor
    decay: float


class Optimizer:
    r"""PyTorch's fused Adam, with weight decay of matrices; frozen weights are left out.

    It updates the memory of each weight as it lies: ``torch.optim.Adam`` copies a weight with
    permuted dimensions in every step. Decay adds :math:`\lambda\theta` to the gradient, which is
    the gradient of the penalty :math:`\frac{\lambda}{2}\theta^2`.

    Attributes:
        weights: The trained weights, in the order in which :meth:`step` takes gradients.
        states: What belongs to each of them.
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float) -> None:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        matrices = [_state(weight, weight_decay) for weight in trained if weight.dim() >= 2]
        vectors = [_state(weight, 0.0) for weight in trained if weight.dim() < 2]
        self.learning_rate, self.states = learning_rate, [*matrices, *vectors]
        self.weights = [state.weight for state in self.states]
        groups = [
            {"params": [state.memory for state in states], "weight_decay": states[0].decay}
            for states in (matrices, vectors)
            if states
        ]
        self._adam = torch.optim.Adam(
            groups,
            lr=learning_rate,
            fused=True,
            capturable=any(weight.is_cuda for weight in trained),
        )
        for state in self.states:
            kept = {"step": state.step, "exp_avg": state.mean, "exp_avg_sq": state.square}
            self._adam.state[state.memory] = kept

    def tensors(self) -> list[Tensor]:
        """Return what Adam keeps of the weights: tensors that a step changes in place."""
        return [each for state in self.states for each in (state.mean, state.square, state.step)]

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Update the weights in place; a weight without a gradient is not changed."""
        for state, gradient in zip(self.states, gradients, strict=True):
            state.memory.grad = (
                None if gradient is None else gradient.permute(state.order).contiguous()
            )
        self._adam.step()


def _state(weight: Tensor, decay: float) -> AdamState:
    strides = weight.stride()
    order = tuple(sorted(range(weight.dim()), key=lambda dim: (-strides[dim], dim)))
    memory = weight.detach().permute(order)
    mean, square = torch.zeros_like(memory), torch.zeros_like(memory)
    step = torch.zeros((), device=memory.device)
    return AdamState(weight, memory, order, mean, square, step, decay)
