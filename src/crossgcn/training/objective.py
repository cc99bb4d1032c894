r"""The objective of training, and the optimizer that minimises it.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

The loss is the cross-entropy of classes, or half the squared error of a standardised number.

NOTE[D5] The rule for every model: Θ is every matrix of every layer, and the order weights
of ``"learned"``; never a bias or a ``"gated"`` order weight. The released code averages over
the training nodes and halves the penalty, where the paper sums and does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.errors import BadInput
from crossgcn.layers import CrossFeatureTransform


def compute_loss(
    scores: Tensor,
    labels: Tensor,
    count: float,
    *,
    weights: Tensor | None = None,
    target_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the loss of rows, the number of correct predictions, and the gradient of the loss.

    Args:
        scores: Logits, ``[..., rows, classes]``, or standardised numbers, ``[..., rows, 1]``. Bags
            of a model are the first dimension.
        labels: Classes or numbers, ``[..., rows]``. Negative classes and NaN are ignored.
        count: Divides the gradient; the number of rows, for example.
        weights: Multiplies the loss of each row, ``[..., rows]``.
        target_scale: Mean and standard deviation of the numbers.

    Returns:
        The losses summed over rows, and the number of correct predictions (for numbers, R² times
        the number of rows), both ``[...]`` in float64. The gradient of the summed losses divided
        by ``count``, with respect to the scores.
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


def training_weights(
    class_weight: str | Sequence[float] | None,
    node_weights: Tensor | None,
    y: Tensor,
    num_classes: int,
) -> Tensor | None:
    """Return the weight of each training node in the loss; ``None`` if all are one.

    Args:
        class_weight: One weight per class; or ``"balanced"``, the same total weight for every
            class, as in scikit-learn.
        node_weights: One weight per training node, scaled to a mean of 1.
        y: Classes or numbers of the training nodes.
        num_classes: 1 for numbers.
    """
    weights = None
    if class_weight is not None:
        if num_classes == 1:
            raise BadInput("class_weight is for classes, and the target is a number; leave it out")
        if isinstance(class_weight, str):
            counts = torch.bincount(y, minlength=num_classes).clamp(min=1)
            per_class = y.numel() / (num_classes * counts.float())
        else:
            per_class = torch.tensor(class_weight, dtype=torch.float32)
        if len(per_class) != num_classes:
            raise BadInput(
                f"class_weight has {len(per_class)} weights for {num_classes} classes; give one "
                "per class"
            )
        weights = per_class[y]
    if node_weights is None:
        return weights
    if node_weights.shape != y.shape:
        raise BadInput(
            f"{node_weights.numel()} weights for {y.numel()} training nodes; give one each"
        )
    node_weights = node_weights / node_weights.mean()
    return node_weights if weights is None else node_weights * weights


class Optimizer:
    r"""PyTorch's fused Adam, with weight decay (NOTE[D5]); frozen weights are left out.

    Order weights decay from the second on, because :math:`\alpha_1` is not trained.

    Weights are passed to Adam with their dimensions in memory order, because ``torch.optim.Adam``
    copies a permuted weight in every step. Decay adds :math:`\lambda\theta` to the gradient, which
    is the gradient of the penalty :math:`\frac{\lambda}{2}\theta^2`.

    Attributes:
        weights: The trained weights, in the order in which :meth:`step` takes gradients.
        orders: For each weight, the permutation that puts its dimensions in memory order.
        memory: The permuted weights.
        states: Adam's state of each permuted weight.
        decayed: The order weights that decay.
    """

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float) -> None:
        trained: list[Tensor] = [each for each in model.parameters() if each.requires_grad]
        self.weights = sorted(trained, key=lambda weight: weight.dim() < 2)
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.decayed = {
            module.order_weights
            for module in model.modules()
            if isinstance(module, CrossFeatureTransform) and module.decays_order_weights
        }
        self.orders = [_order_in_memory(weight) for weight in self.weights]
        in_order = zip(self.weights, self.orders, strict=True)
        self.memory = [weight.detach().permute(order) for weight, order in in_order]
        matrices = [each for each in self.memory if each.dim() >= 2]
        vectors = [each for each in self.memory if each.dim() < 2]
        groups: list[dict[str, Any]] = [
            {"params": matrices},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self._adam = torch.optim.Adam(
            [group for group in groups if group["params"]],
            lr=learning_rate,
            weight_decay=weight_decay,
            fused=True,
            capturable=any(weight.is_cuda for weight in trained),
        )
        self.states: list[dict[str, Tensor]] = [
            {
                "step": torch.zeros((), device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
            for weight in self.memory
        ]
        self._adam.state.update(zip(self.memory, self.states, strict=True))

    def tensors(self) -> list[Tensor]:
        """Return the tensors of Adam's state, which a step changes in place."""
        return [tensor for state in self.states for tensor in state.values()]

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Update the weights in place; a weight without a gradient is not changed."""
        given = zip(self.weights, self.memory, self.orders, gradients, strict=True)
        for weight, memory, order, gradient in given:
            memory.grad = None if gradient is None else gradient.permute(order).contiguous()
            if weight in self.decayed and memory.grad is not None:
                memory.grad[1:] += self.weight_decay * memory[1:]
        self._adam.step()


def _order_in_memory(weight: Tensor) -> tuple[int, ...]:
    strides = weight.stride()
    return tuple(sorted(range(weight.dim()), key=lambda dim: (-strides[dim], dim)))
