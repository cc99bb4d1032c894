"""Training without a test set: on every labelled row, or with some held out to choose the epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import Diverged, train_full_batch
from crossgcn.training.steps.step import TrainingStep


@dataclass(frozen=True)
class Fitted:
    """How a training went.

    Attributes:
        epoch: The epoch whose weights the model holds, counted from 1.
        losses: Mean cross-entropy of the training rows in each epoch, with dropout.
        validation_accuracies: Of each epoch, where rows were held out.
    """

    epoch: int
    losses: list[float]
    validation_accuracies: list[float] | None = None


def fit_all_epochs(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    rows: Tensor,
    config: RunConfig,
    device: str | torch.device,
) -> Fitted:
    """Train for all epochs; the model holds the last weights.

    Args:
        model: Trained in place.
        graph: Features and adjacency.
        y: Class of each row.
        rows: Those that are trained on.
        config: How to train.
        device: ``cpu``, ``cuda``, or ``auto``.

    Raises:
        WorkFailed: If a loss or a weight is not finite.
    """
    step = TrainingStep(
        [model],
        graph,
        y,
        [rows],
        seeds=[config.seed],
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        device=device,
        precision=config.precision,
    )
    losses = torch.cat([step().clone() for _ in range(config.epochs)]).tolist()
    (state,) = step.states
    finite = np.isfinite(losses)
    if not finite.all():
        raise _diverged(int(np.argmin(finite)) + 1)
    if not all(bool(value.isfinite().all()) for value in state.values()):
        raise _diverged(config.epochs)
    model.load_state_dict(state)
    return Fitted(config.epochs, losses)


def fit_best_epoch(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    rows: Tensor,
    validation: Tensor,
    config: RunConfig,
    device: str | torch.device,
) -> Fitted:
    """Train, and keep the first epoch of strictly best accuracy on rows that were held out.

    Args:
        model: Trained in place.
        graph: Features and adjacency.
        y: Class of each row.
        rows: Those that are trained on.
        validation: Those that choose the epoch.
        config: How to train.
        device: ``cpu``, ``cuda``, or ``auto``.

    Raises:
        WorkFailed: If a loss or a weight is not finite.
    """
    # A classifier has no test rows. The accuracy on them is not read.
    split = Split(rows, validation, test=validation)
    try:
        trained = train_full_batch(
            model,
            graph,
            y,
            split,
            seed=config.seed,
            epochs=config.epochs,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            device=device,
            precision=config.precision,
        )
    except Diverged as error:
        raise _diverged(len(error.history) + 1) from None
    return Fitted(
        trained.best_epoch,
        [epoch.train_loss for epoch in trained.history],
        [epoch.validation_accuracy for epoch in trained.history],
    )


def hold_out(y: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Draw the same fraction of each class, but never all of it.

    Args:
        y: Class of each row, ``-1`` where it has none.
        fraction: Between 0 and 1.
        seed: Decides which rows.

    Returns:
        The rows that remain, and those that were drawn; both sorted.
    """
    if not 0 < fraction < 1:
        raise BadInput(
            f"validation_fraction is {fraction}; give a number between 0 and 1, or None to train "
            "on all labelled rows"
        )
    generator = np.random.default_rng(seed)
    labels = y.numpy()
    held = np.zeros(len(labels), dtype=bool)
    for label in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == label)
        count = min(round(fraction * len(rows)), len(rows) - 1)
        held[generator.permutation(rows)[:count]] = True
    if not held.any():
        raise BadInput(
            f"validation_fraction is {fraction}, which is no row of any class; raise it, label "
            "more rows, or give None to train on all of them"
        )
    kept, drawn = (np.flatnonzero(mask) for mask in ((labels >= 0) & ~held, held))
    return torch.from_numpy(kept), torch.from_numpy(drawn)


def _diverged(epoch: int) -> WorkFailed:
    return WorkFailed(
        f"training diverged in epoch {epoch}: a loss or a weight is not finite; standardise X "
        "(StandardScaler in a Pipeline), or lower learning_rate or order"
    )
