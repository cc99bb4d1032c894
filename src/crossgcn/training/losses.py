"""The loss of each task: cross-entropy of classes, squared error of a standardised number."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn import kernels
from crossgcn.errors import BadInput


def score(
    scores: Tensor,
    labels: Tensor,
    counts: Tensor,
    num_classes: int,
    *,
    class_weights: Tensor | None = None,
    target_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the loss, a score that should grow, and the gradient, of each model.

    Args:
        scores: ``[models, rows, width]``; those of the classes come first.
        labels: Classes ``[models, rows]``, where rows of a negative label do not count; or
            numbers, where rows of NaN do not count.
        counts: Rows of each model that count, ``[models]``.
        class_weights: Multiplies the loss of each row, ``[num_classes]``, or one row per model.
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
        losses = error.square().sum(dim=1) / (2 * counts)
        slope = torch.zeros_like(scores)
        slope[..., 0] = error / counts.unsqueeze(1)
        return losses, (1 - 2 * losses).double(), slope
    losses, accuracies, slope = kernels.score(scores, labels, counts, num_classes)
    if class_weights is not None:
        of_models = class_weights.expand(labels.size(0), num_classes)
        own = of_models.gather(1, labels.clamp(min=0)).to(scores.dtype)
        chances = scores[..., :num_classes].log_softmax(dim=-1)
        each = -chances.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        losses = (each * own * (labels >= 0)).sum(dim=1) / counts
        slope = slope * own.unsqueeze(-1)
    return losses, accuracies, slope


def balanced_weights(y: Tensor, num_classes: int) -> Tensor:
    """Return weights that give every class the same total, as scikit-learn's ``"balanced"``."""
    if y.is_floating_point():
        raise BadInput("class_weight is for classes, but the target is a number: leave it out")
    counts = torch.bincount(y, minlength=num_classes).clamp(min=1)
    return y.numel() / (num_classes * counts.float())
