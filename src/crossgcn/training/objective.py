r"""What is minimised, and the one rule for what is decayed.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

NOTE[D5] The rule, for every model: Θ is every matrix of every layer, and the
order weights of ``"learned"``; never a bias, never a ``"gated"`` order weight,
which should grow or not by its own merit. The released code averages over the
training nodes and halves the penalty, where the paper sums and does not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.layers import CrossFeatureTransform

__all__ = ["cross_entropy", "make_optimizer", "order_weight_penalty"]


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of the class scores against the labels."""
    return functional.cross_entropy(scores, y)


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.Adam:
    r"""Adam, with the matrices' part of the penalty.

    Adam's ``weight_decay`` adds :math:`\lambda\theta` to the gradient, which
    is the gradient of :math:`\frac{\lambda}{2}\theta^2`: the same objective
    without computing the norm.
    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups: list[dict[str, Any]] = [{"params": matrices, "weight_decay": weight_decay}]
    if others:
        groups.append({"params": others, "weight_decay": 0.0})
    return torch.optim.Adam(groups, lr=learning_rate, fused=True)


def order_weight_penalty(model: nn.Module, weight_decay: float) -> Tensor | None:
    r"""The order weights' part, :math:`\frac{\lambda}{2}\sum_{k\ge2}\alpha_k^2`.

    It stands in the loss and not in the optimiser because :math:`\alpha_1` is
    not trained and must not be decayed. None when no order weight is decayed.
    """
    decayed = [
        module.order_weights[1:]
        for module in model.modules()
        if isinstance(module, CrossFeatureTransform)
        and module.order_aggregation == "learned"
        and module.order_weights is not None
    ]
    if not decayed or weight_decay == 0.0:
        return None
    return 0.5 * weight_decay * torch.cat(decayed).square().sum()
