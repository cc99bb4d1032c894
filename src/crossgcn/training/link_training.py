"""Train a link predictor, select an epoch, and only then score the test pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from crossgcn.data.edge_splits import EdgeSplit
from crossgcn.errors import WorkFailed
from crossgcn.graph import SparseMatrix
from crossgcn.layers import FeatureDropout
from crossgcn.models.calibrate import calibrate
from crossgcn.training.adam import Adam
from crossgcn.training.link_metrics import Scores, area_under_curve, link_metrics
from crossgcn.training.link_predictor import LinkPredictor
from crossgcn.training.link_steps import LinkSteps
from crossgcn.training.objective import order_weight_penalty
from crossgcn.training.precision import multiplying_in

__all__ = ["LinkEpoch", "TrainedLinks", "train_links"]


@dataclass(frozen=True)
class LinkEpoch:
    """What is known after one epoch; the loss is that of its own step, with dropout."""

    epoch: int
    train_loss: float
    validation_auc: float


@dataclass(frozen=True)
class TrainedLinks:
    """The outcome of a training.

    Attributes:
        state: Weights of the selected epoch; the predictor holds them too.
        best_epoch: The selected epoch, counted from 1.
        validation_auc: At that epoch.
        test: Every metric of :func:`~crossgcn.training.link_metrics.link_metrics` on the test
            pairs with those weights, computed once.
        history: Of all epochs.
    """

    state: dict[str, Tensor]
    best_epoch: int
    validation_auc: float
    test: dict[str, float]
    history: tuple[LinkEpoch, ...]


def train_links(
    predictor: LinkPredictor,
    x: Tensor | SparseMatrix,
    steps: LinkSteps,
    split: EdgeSplit,
    *,
    seed: int,
    hits_at: Sequence[int],
    epochs: int = 200,
    learning_rate: float = 0.01,
    weight_decay: float = 0.0,
    precision: str = "fp32",
    on_epoch: Callable[[LinkEpoch], None] | None = None,
) -> TrainedLinks:
    """Minimise the cross-entropy of edges against drawn pairs; keep the best validation epoch.

    The selected epoch is the first with the strictly best area under the curve on the
    validation pairs. Those and the test pairs are scored with all training edges as
    message graph, and with no other edge; an encoder with ``scaling="unit"`` is calibrated on
    that graph beforehand.

    Args:
        predictor: Trained in place, where it is; holds the selected weights afterwards.
        x: Features of all nodes, on the same device.
        steps: What each step is given.
        split: The pairs that select and test.
        seed: Decides what is dropped.
        hits_at: The ranks of Hits@K.
        epochs: Steps of the optimiser.
        learning_rate: Adam's.
        weight_decay: λ, on every matrix and on learned order weights, as for classifiers.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.
        on_epoch: Called with what is known after each epoch; may raise to stop.

    Raises:
        WorkFailed: At the first loss or score that is not finite.
    """
    device = next(predictor.parameters()).device
    count = torch.zeros((), dtype=torch.long, device=device)
    seeds = torch.tensor([seed], device=device)
    for module in predictor.modules():
        if isinstance(module, FeatureDropout):
            module.follow(seeds, count)
    if not predictor.encoder.is_calibrated:
        calibrate(predictor.encoder, x, steps.all_edges)
    trained = [weight for weight in predictor.parameters() if weight.requires_grad]
    optimizer = Adam(
        (weight for weight in trained if weight.dim() >= 2),
        (weight for weight in trained if weight.dim() < 2),
        learning_rate=learning_rate,
        weight_decay=weight_decay,
    )
    history: list[LinkEpoch] = []
    best: LinkEpoch | None = None
    best_state: dict[str, Tensor] = {}
    for epoch in range(1, epochs + 1):
        count += 1
        step = steps.step(epoch)
        predictor.train()
        with multiplying_in(precision, device):
            scores = predictor(x, step.edges, step.pairs)
            loss = binary_cross_entropy_with_logits(scores, step.labels)
            penalty = order_weight_penalty(predictor, weight_decay)
            minimised = loss if penalty is None else loss + penalty
            gradients = torch.autograd.grad(minimised, optimizer.weights, allow_unused=True)
        optimizer.step(gradients)
        train_loss = float(loss.detach())
        held_out = _score(
            predictor, x, steps.all_edges, (split.validation, split.validation_negatives), precision
        )
        if not (math.isfinite(train_loss) and all(map(_are_finite, held_out))):
            raise WorkFailed(
                f"training diverged: a loss or score is not finite in epoch {epoch}; try a lower "
                "--learning-rate, a lower --order, or smaller feature values"
            )
        history.append(LinkEpoch(epoch, train_loss, area_under_curve(*held_out)))
        if best is None or history[-1].validation_auc > best.validation_auc:
            best = history[-1]
            best_state = {
                name: value.detach().clone() for name, value in predictor.state_dict().items()
            }
        if on_epoch is not None:
            on_epoch(history[-1])
    assert best is not None
    predictor.load_state_dict(best_state)
    test = _score(predictor, x, steps.all_edges, (split.test, split.test_negatives), precision)
    return TrainedLinks(
        best_state,
        best.epoch,
        best.validation_auc,
        link_metrics(*test, hits_at),
        tuple(history),
    )


@torch.no_grad()
def _score(
    predictor: LinkPredictor,
    x: Tensor | SparseMatrix,
    edges: Sequence[SparseMatrix],
    pairs: tuple[Tensor, Tensor],
    precision: str,
) -> tuple[Scores, Scores]:
    """Scores of edges and of pairs that are none."""
    device = next(predictor.parameters()).device
    predictor.eval()
    with multiplying_in(precision, device):
        scores = predictor(x, edges, torch.cat(pairs, dim=1).to(device))
    positives, negatives = scores.float().cpu().split([part.size(1) for part in pairs])
    return positives.numpy(), negatives.numpy()


def _are_finite(scores: Scores) -> bool:
    return bool(torch.from_numpy(scores).isfinite().all())
