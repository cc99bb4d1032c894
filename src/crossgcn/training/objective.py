r"""The objective of training, and the rule for weight decay.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

NOTE[D5] The rule for every model: Θ is every matrix of every layer, and the order weights
of ``"learned"``; never a bias or a ``"gated"`` order weight. The released code averages over
the training nodes and halves the penalty, where the paper sums and does not.

:class:`~crossgcn.models.baselines.SemiEmb` adds a term over all edges, and
:class:`~crossgcn.models.cross_grand.CrossGrand` one over all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crossgcn.graph import ModelBatchMatrix, PreparedGraph, SparseMatrix, mean_laplacian
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.baselines import SemiEmb
from crossgcn.models.cross_grand import CrossGrand
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
        accuracies: ``[models]``.
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
        model: Its mode, training or evaluation, is not changed.
        graph: Features and adjacency.
        y: Class of each node.
        nodes: The training nodes of each model.
        weight_decay: λ.
        device: Where the model is.
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
        self.laplacian: SparseMatrix | None = None
        if isinstance(model, SemiEmb) and model.laplacian_weight > 0:
            laplacian = mean_laplacian(graph.adjacency)
            if model.num_models is not None:
                laplacian = ModelBatchMatrix([laplacian] * model.num_models)
            self.laplacian = laplacian.to(device)
        if isinstance(model, CrossGrand) or self.laplacian is not None:
            everyone = torch.arange(graph.x.size(0))
            self.inputs = find_targets(model, graph, y, [everyone] * len(nodes), device).inputs
            self.rows = torch.nn.utils.rnn.pad_sequence(list(nodes), batch_first=True).to(device)
        if isinstance(model, CrossGrand):
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
        penalties: list[Tensor] = []
        if isinstance(self.model, CrossGrand):
            scores = self._draw(self.model, penalties)
        else:
            scores = self.model(*self.inputs)
            if self.laplacian is not None and isinstance(self.model, SemiEmb):
                unlike = laplacian_penalty(self._of_classes(scores), self.laplacian)
                penalties.append(self.model.laplacian_weight * unlike)
                scores = self._at_nodes(scores)
        decay = order_weight_penalty(self.model, self.weight_decay)
        if decay is not None:
            penalties.append(decay)
        losses, accuracies, slope = self.targets.score(scores)
        return Pass(scores, slope, losses, accuracies, tuple(penalties))

    def _draw(self, model: CrossGrand, penalties: list[Tensor]) -> Tensor:
        """Return the scores of the training nodes in every draw, one after the other."""
        draws = []
        for draw in range(model.draws):
            model.choose_draw(draw)
            draws.append(model(*self.inputs))
        if model.consistency > 0:
            unlike = consistency_penalty(
                [self._of_classes(scores) for scores in draws], model.temperature
            )
            if self.step is not None and model.warm_up > 0:
                unlike = unlike * (self.step / model.warm_up).clamp(max=1)
            penalties.append(model.consistency * unlike)
        return torch.cat([self._at_nodes(scores) for scores in draws], dim=1)

    def _at_nodes(self, scores: Tensor) -> Tensor:
        """Return the rows of the training nodes, ``[models, nodes, width]``."""
        if scores.dim() == 2:
            scores = scores.unsqueeze(0)
        return scores.gather(1, self.rows.unsqueeze(-1).expand(-1, -1, scores.size(-1)))

    def _of_classes(self, scores: Tensor) -> Tensor:
        return scores[..., : self.targets.num_classes]


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
        and module.order_aggregation == "learned"
        and module.order_weights is not None
        and module.order_weights.requires_grad
    ]
    if not decayed or weight_decay == 0.0:
        return None
    return 0.5 * weight_decay * torch.cat([weights.flatten() for weights in decayed]).square().sum()


def consistency_penalty(draws: Sequence[Tensor], temperature: float) -> Tensor:
    r"""Return the squared distance of several draws' predictions from their sharpened mean.

    .. math:: \frac{1}{SN}\sum_{s,i} \|\mathbf{p}^{(s)}_i - \bar{\mathbf{p}}'_i\|^2, \qquad
        \bar{p}'_{ic} = \bar{p}_{ic}^{1/T} \Big/ \sum_{c'} \bar{p}_{ic'}^{1/T}

    The mean is detached. The penalties of stacked models are added up.

    Args:
        draws: Class scores of all nodes, ``[..., nodes, classes]``, one for each draw.
        temperature: :math:`T`.
    """
    predictions = torch.stack(list(draws)).softmax(dim=-1)
    with torch.no_grad():
        # In logarithms: a high power of a small probability would underflow.
        agreed = (predictions.mean(dim=0).log() / temperature).softmax(dim=-1)
    return (predictions - agreed).square().sum() / (len(draws) * predictions.size(-2))


def laplacian_penalty(scores: Tensor, laplacian: SparseMatrix) -> Tensor:
    r"""Return the mean squared difference of the predictions of neighbours.

    .. math:: \mathrm{tr}(\mathbf{P}^{\top}\mathbf{L}\mathbf{P})
        = \frac{1}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2

    Args:
        scores: Class scores of all nodes; :math:`\mathbf{P}` is their softmax.
        laplacian: :func:`~crossgcn.graph.mean_laplacian` of the graph.
    """
    predictions = scores.softmax(dim=-1)
    return (predictions * (laplacian @ predictions)).sum()
