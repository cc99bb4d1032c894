r"""The objective of training: losses, further terms, and the rule for weight decay.

.. math:: \Gamma = \frac{1}{M}\sum_{i=1}^{M} l(\hat{\mathbf{y}}_i, \mathbf{y}_i)
    + \frac{\lambda}{2}\|\mathbf{\Theta}\|_F^2

The loss of classes is the cross-entropy, that of a number the squared error, standardised.

NOTE[D5] The rule for every model: Θ is every matrix of every layer, and the order weights
of ``"learned"``; never a bias or a ``"gated"`` order weight. The released code averages over
the training nodes and halves the penalty, where the paper sums and does not.

A model may add a term over the predictions of all nodes, see
:meth:`NodeClassifier.penalty <crossgcn.models.node_classifier.NodeClassifier.penalty>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph, SparseMatrix, stack_inputs
from crossgcn.graph.matrix import ModelInputs
from crossgcn.graph.prepared import move_inputs
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.adam import Adam


@dataclass(frozen=True)
class Loss:
    """The loss of one model or several, its gradient, and a score that should grow.

    Attributes:
        class_weights: Multiplies the loss of each row, ``[num_classes]``, or one row per model.
        target_scale: Mean and standard deviation of numbers; scores are standardised.
    """

    num_classes: int
    class_weights: Tensor | None = None
    target_scale: Tensor | None = None

    def __call__(
        self, scores: Tensor, labels: Tensor, counts: Tensor, node_weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss of each model.

        Args:
            scores: ``[models, rows, width]``; those of the classes come first.
            labels: Classes ``[models, rows]``, where rows of a negative label do not count; or
                numbers, where rows of NaN do not count.
            counts: Rows of each model that count, ``[models]``.
            node_weights: Multiplies the loss of each row, ``[models, rows]``; their mean is 1.

        Returns:
            The mean loss ``[models]``; the accuracy, or R² for numbers, ``[models]`` in float64;
            and the gradient of the loss for the scores.
        """
        if labels.is_floating_point():
            assert self.target_scale is not None
            mean, deviation = self.target_scale
            known = ~labels.isnan()
            wanted = ((labels - mean) / deviation).nan_to_num().to(scores.dtype)
            error = torch.where(known, scores[..., 0] - wanted, 0.0)
            weighted = error if node_weights is None else error * node_weights
            losses = (error * weighted).sum(dim=1) / (2 * counts)
            slope = torch.zeros_like(scores)
            slope[..., 0] = weighted / counts.unsqueeze(1)
            return losses, (1 - 2 * losses).double(), slope
        losses, accuracies, slope = kernels.score(scores, labels, counts, self.num_classes)
        own = node_weights
        if self.class_weights is not None:
            of_models = self.class_weights.expand(labels.size(0), self.num_classes)
            of_rows = of_models.gather(1, labels.clamp(min=0)).to(scores.dtype)
            own = of_rows if own is None else own * of_rows
        if own is not None:
            chances = scores[..., : self.num_classes].log_softmax(dim=-1)
            each = -chances.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            losses = (each * own * (labels >= 0)).sum(dim=1) / counts
            slope = slope * own.unsqueeze(-1)
        return losses, accuracies, slope


def class_weights(
    wanted: str | Sequence[float] | None, y: Tensor, num_classes: int
) -> Tensor | None:
    """Return the weight of each class in the loss, ``[num_classes]``; ``None`` if all are one.

    ``wanted`` is the setting ``class_weight``, and ``y`` the classes of the training nodes.
    ``"balanced"`` gives every class the same total, as in scikit-learn.
    """
    if wanted is None:
        return None
    if num_classes == 1:
        raise BadInput("class_weight is for classes, and the target is a number; leave it out")
    if isinstance(wanted, str):
        counts = torch.bincount(y, minlength=num_classes).clamp(min=1)
        return y.numel() / (num_classes * counts.float())
    if len(wanted) != num_classes:
        raise BadInput(
            f"class_weight has {len(wanted)} weights for {num_classes} classes; give one per class"
        )
    return torch.tensor(wanted, dtype=torch.float32)


def scale_node_weights(weights: Tensor | None, num_nodes: int) -> Tensor | None:
    """Return weights of training nodes with a mean of 1, after checking their number."""
    if weights is None:
        return None
    if weights.shape != (num_nodes,):
        raise BadInput(f"{weights.numel()} weights for {num_nodes} training nodes; give one each")
    return weights / weights.mean()


def fit_target_scale(model: NodeClassifier, y: Tensor) -> None:
    """Make a model predict numbers in their unit, by those of the training nodes."""
    own = y.double()
    deviation = float(own.std()) if own.numel() > 1 else 0.0
    model.predict_number(float(own.mean()), deviation or 1.0)


@dataclass(frozen=True)
class Targets:
    """The nodes on which models are scored, on the models' device.

    Attributes:
        inputs: The model's inputs, cut down to the rows it needs.
        labels: ``[models, nodes]``; -1 where a model has fewer nodes than another.
        counts: Nodes of each model, ``[models]``.
        node_weights: As for :class:`Loss`.
    """

    inputs: ModelInputs
    labels: Tensor
    counts: Tensor
    loss: Loss
    node_weights: Tensor | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes; 1 for a number."""
        return self.loss.num_classes

    def score(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return losses, accuracies and gradient of scores ``[models, nodes, width]``.

        Scores of one model may have two dimensions.
        """
        of_models = scores.detach().view(*self.labels.shape, -1)
        losses, accuracies, slope = self.loss(
            of_models, self.labels, self.counts, self.node_weights
        )
        return losses, accuracies, slope.view_as(scores)


def find_targets(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    nodes: Sequence[Tensor],
    device: torch.device,
) -> Targets:
    """Cut a graph down to the inputs with which a model, or several stacked, score their nodes."""
    views: dict[int, ModelInputs] = {}
    for own in nodes:
        if id(own) not in views:
            views[id(own)] = graph.view(own, model.propagations)
    inputs = [views[id(own)] for own in nodes]
    unknown = torch.nan if y.is_floating_point() else -1
    size = (len(nodes), max(own.numel() for own in nodes))
    labels = torch.full(size, unknown, dtype=y.dtype)
    for row, own in zip(labels, nodes, strict=True):
        row[: own.numel()] = y[own]
    return Targets(
        move_inputs(inputs[0] if model.num_models is None else stack_inputs(inputs), device),
        labels.to(device),
        torch.tensor([own.numel() for own in nodes], device=device),
        Loss(model.num_outputs, target_scale=model.target_scale),
    )


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

    The pass computes only the rows that the objective depends on, those of the training nodes.
    """

    def __init__(
        self,
        model: NodeClassifier,
        graph: PreparedGraph,
        y: Tensor,
        nodes: Sequence[Tensor],
        weight_decay: float,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model = model
        self.weight_decay = weight_decay
        self.targets = find_targets(model, graph, y, nodes, torch.device(device))
        self.inputs = self.targets.inputs

    @property
    def input_rows(self) -> int:
        """Rows of features that a pass reads, of the model that reads most."""
        x = self.inputs[0]
        return x.shape[0] if isinstance(x, SparseMatrix) else x.shape[-2]

    def __call__(self) -> Pass:
        """Run the model over its inputs."""
        scores = self.model(*self.inputs)
        decay = order_weight_penalty(self.model, self.weight_decay)
        losses, accuracies, slope = self.targets.score(scores)
        return Pass(scores, slope, losses, accuracies, () if decay is None else (decay,))


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
