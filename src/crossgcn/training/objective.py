r"""What is minimised, and the one rule for what is decayed.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

NOTE[D5] The rule, for every model: Θ is every matrix of every layer, and the
order weights of ``"learned"``; never a bias, never a ``"gated"`` order weight,
which should grow or not by its own merit. The released code averages over the
training nodes and halves the penalty, where the paper sums and does not.

:class:`~crossgcn.models.semi_emb.SemiEmb` adds a third term, over all edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.graph import PreparedGraph, SparseMatrix, mean_laplacian
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.semi_emb import SemiEmb
from crossgcn.models.stack import Stack

__all__ = [
    "Objective",
    "Step",
    "cross_entropy",
    "laplacian_penalty",
    "make_optimizer",
    "order_weight_penalty",
]


@dataclass(frozen=True)
class Step:
    """What one pass of the model gives.

    Attributes:
        scores: Of the training nodes.
        loss: Their mean cross-entropy.
        total: All that is minimised, but for what the optimiser decays.
    """

    scores: Tensor
    loss: Tensor
    total: Tensor


class Objective:
    """What is minimised for one model on one training set; a call is one pass.

    The pass computes the rows the objective depends on and no others: those of
    the training nodes, or all where neighbours are to agree.

    Args:
        model: Read at every call, in whatever mode it is then.
        graph: Features and adjacency.
        y: Class of each node.
        nodes: The training nodes.
        weight_decay: λ.
    """

    def __init__(
        self, model: Stack, graph: PreparedGraph, y: Tensor, nodes: Tensor, weight_decay: float
    ) -> None:
        self.model = model
        self.weight_decay = weight_decay
        self.labels = y[nodes]
        self.laplacian_weight, self.laplacian = 0.0, None
        rows: Tensor | slice = slice(None)
        computed = nodes
        if isinstance(model, SemiEmb) and model.laplacian_weight > 0:
            self.laplacian_weight = model.laplacian_weight
            self.laplacian = mean_laplacian(graph.adjacency)
            rows, computed = nodes, torch.arange(graph.x.size(0))
        self.rows = rows
        self.inputs = graph.view(computed, model.num_hops)

    def __call__(self) -> Step:
        """Run the model over its inputs."""
        scores = self.model(*self.inputs)
        loss = cross_entropy(scores[self.rows], self.labels)
        total = loss
        decay = order_weight_penalty(self.model, self.weight_decay)
        if decay is not None:
            total = total + decay
        if self.laplacian is not None:
            total = total + self.laplacian_weight * laplacian_penalty(scores, self.laplacian)
        return Step(scores[self.rows], loss, total)


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


def laplacian_penalty(scores: Tensor, laplacian: SparseMatrix) -> Tensor:
    r"""How unlike neighbours are predicted.

    .. math:: \mathrm{tr}(\mathbf{P}^{\top}\mathbf{L}\mathbf{P})
        = \frac{1}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2

    Args:
        scores: Class scores of all nodes; :math:`\mathbf{P}` is their softmax.
        laplacian: :func:`~crossgcn.graph.mean_laplacian` of the graph.
    """
    predictions = scores.softmax(dim=1)
    return (predictions * (laplacian @ predictions)).sum()
