"""The loss of each task: cross-entropy of classes, squared error of a standardised number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.models.node_classifier import NodeClassifier


def score(
    scores: Tensor,
    labels: Tensor,
    counts: Tensor,
    num_classes: int,
    *,
    class_weights: Tensor | None = None,
    node_weights: Tensor | None = None,
    target_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the loss, a score that should grow, and the gradient, of each model.

    Args:
        scores: ``[models, rows, width]``; those of the classes come first.
        labels: Classes ``[models, rows]``, where rows of a negative label do not count; or
            numbers, where rows of NaN do not count.
        counts: Rows of each model that count, ``[models]``.
        class_weights: Multiplies the loss of each row, ``[num_classes]``, or one row per model.
        node_weights: Multiplies the loss of each row, ``[models, rows]``; their mean is 1.
        target_scale: Mean and standard deviation of numbers; scores are standardised.

    Returns:
        The mean loss ``[models]``; the accuracy, or R² for numbers, ``[models]`` in float64; and
        the gradient of the loss for the scores.
    """
    if labels.is_floating_point():
        assert target_scale is not None
        mean, deviation = target_scale
        known = ~labels.isnan()
        wanted = ((labels - mean) / deviation).nan_to_num().to(scores.dtype)
        error = torch.where(known, scores[..., 0] - wanted, 0.0)
        weighted = error if node_weights is None else error * node_weights
        losses = (error * weighted).sum(dim=1) / (2 * counts)
        slope = torch.zeros_like(scores)
        slope[..., 0] = weighted / counts.unsqueeze(1)
        return losses, (1 - 2 * losses).double(), slope
    losses, accuracies, slope = kernels.score(scores, labels, counts, num_classes)
    own = node_weights
    if class_weights is not None:
        of_models = class_weights.expand(labels.size(0), num_classes)
        of_rows = of_models.gather(1, labels.clamp(min=0)).to(scores.dtype)
        own = of_rows if own is None else own * of_rows
    if own is not None:
        chances = scores[..., :num_classes].log_softmax(dim=-1)
        each = -chances.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        losses = (each * own * (labels >= 0)).sum(dim=1) / counts
        slope = slope * own.unsqueeze(-1)
    return losses, accuracies, slope


def class_weights(
    wanted: str | Sequence[float] | None, y: Tensor, num_classes: int
) -> Tensor | None:
    """Return the weight of each class in the loss, ``[num_classes]``; ``None`` if all are one.

    Args:
        wanted: The setting ``class_weight``. ``"balanced"`` gives every class the same total, as
            in scikit-learn.
        y: Classes of the training nodes.
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
