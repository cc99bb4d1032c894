r"""The objective of training, and the rule for weight decay.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

NOTE[D5] The rule for every model: Θ is every matrix of every layer, and the order weights
of ``"learned"``; never a bias or a ``"gated"`` order weight. The released code averages over
the training nodes and halves the penalty, where the paper sums and does not.

A model may add a term over the predictions of all nodes, see
:meth:`NodeClassifier.penalty <crossgcn.models.node_classifier.NodeClassifier.penalty>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crossgcn.graph import ModelBatchMatrix, PreparedGraph, SparseMatrix
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.adam import Adam
from crossgcn.training.steps.targets import find_targets


@dataclass(frozen=True)
class Pass:
    """The results of one forward pass.

    Attributes:
        scores: Of the training nodes, ``[models, nodes, width]``; those of the classes first.
        slope: Gradient of the losses for the scores.
        losses: Mean cross-entropy of each model, ``[models]``, detached.
        penalties: Further terms of the objective, without those that the optimiser decays.
    """

    scores: Tensor
    slope: Tensor
    losses: Tensor
    accuracies: Tensor
    penalties: tuple[Tensor, ...]

    def gradients(self, weights: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
        """Return the gradient of the objective for each weight; ``None`` where it has none."""
        return torch.autograd.grad(
            [self.scores, *self.penalties],
            list(weights),
            [self.slope, *(None for _ in self.penalties)],
            allow_unused=True,
        )


class Objective:
    """The objective of one model or several stacked; a call is one forward pass.

    The pass computes only the rows that the objective depends on: those of the training nodes,
    or all if the objective has a term over all nodes. A model with several draws makes as many
    passes, and the scores of all draws are concatenated.

    Args:
        nodes: The training nodes of each model.
        step: The number of the step, which its owner counts up. Without it, terms with a warm-up
            have their full weight.
    """

    def __init__(
        self,
        model: NodeClassifier,
        graph: PreparedGraph,
        y: Tensor,
        nodes: Sequence[Tensor],
        weight_decay: float,
        device: torch.device | str = "cpu",
        step: Tensor | None = None,
    ) -> None:
        device = torch.device(device)
        self.step = step
        self.model = model
        self.weight_decay = weight_decay
        self.targets = find_targets(model, graph, y, nodes, device)
        self.inputs = self.targets.inputs
        self.matrix: SparseMatrix | None = None
        if model.penalty_reason is not None:
            matrix = model.penalty_matrix(graph)
            if matrix is not None and model.num_models is not None:
                matrix = ModelBatchMatrix([matrix] * model.num_models)
            self.matrix = None if matrix is None else matrix.to(device)
            everyone = torch.arange(graph.x.size(0))
            self.inputs = find_targets(model, graph, y, [everyone] * len(nodes), device).inputs
            self.rows = torch.nn.utils.rnn.pad_sequence(list(nodes), batch_first=True).to(device)
        if model.draws > 1:
            self.targets = replace(
                self.targets,
                labels=self.targets.labels.repeat(1, model.draws),
                counts=self.targets.counts * model.draws,
            )

    @property
    def input_rows(self) -> int:
        """Rows of features that a pass reads, of the model that reads most."""
        x = self.inputs[0]
        return x.shape[0] if isinstance(x, SparseMatrix) else x.shape[-2]

    def __call__(self) -> Pass:
        """Run the model over its inputs."""
        scores, penalties = self._scores()
        decay = order_weight_penalty(self.model, self.weight_decay)
        if decay is not None:
            penalties.append(decay)
        losses, accuracies, slope = self.targets.score(scores)
        return Pass(scores, slope, losses, accuracies, tuple(penalties))

    def _scores(self) -> tuple[Tensor, list[Tensor]]:
        """Return the scores of the training nodes in every draw, and the model's penalty."""
        model = self.model
        if model.penalty_reason is None:
            return model(*self.inputs), []
        draws = []
        for draw in range(model.draws):
            model.choose_draw(draw)
            draws.append(model(*self.inputs))
        of_classes = [scores[..., : self.targets.num_classes] for scores in draws]
        penalty = model.penalty(of_classes, self.matrix, self.step)
        scores = torch.cat([self._at_nodes(scores) for scores in draws], dim=1)
        return scores, [] if penalty is None else [penalty]

    def _at_nodes(self, scores: Tensor) -> Tensor:
        """Return the rows of the training nodes, ``[models, nodes, width]``."""
        if scores.dim() == 2:
            scores = scores.unsqueeze(0)
        return scores.gather(1, self.rows.unsqueeze(-1).expand(-1, -1, scores.size(-1)))


def make_optimizer(model: torch.nn.Module, learning_rate: float, weight_decay: float) -> Adam:
    """Return Adam with weight decay of the matrices; frozen weights are left out."""
    least = 2 if getattr(model, "num_models", None) is None else 3
    trained = [p for p in model.parameters() if p.requires_grad]
    return Adam(
        (p for p in trained if p.dim() >= least),
        (p for p in trained if p.dim() < least),
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )


def order_weight_penalty(model: torch.nn.Module, weight_decay: float) -> Tensor | None:
    r"""Return the penalty of order weights, :math:`\frac{\lambda}{2}\sum_{k\ge2}\alpha_k^2`.

    It is part of the loss and not of the optimiser because :math:`\alpha_1` is not trained and
    must not be decayed. ``None`` when no order weight is decayed.
    """
    decayed = [
        module.order_weights[..., 1:]
        for module in model.modules()
        if isinstance(module, CrossFeatureTransform)
        and module.decays_order_weights
        and module.order_weights is not None
        and module.order_weights.requires_grad
    ]
    if not decayed or weight_decay == 0.0:
        return None
    return 0.5 * weight_decay * torch.cat([weights.flatten() for weights in decayed]).square().sum()
