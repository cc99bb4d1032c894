"""Training without a test set: on all labelled rows, or with some held out to select the epoch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.loop import fit
from crossgcn.training.selection import Diverged, TrainedModel
from crossgcn.training.steps.full_batch import FullBatchStep


def fit_model(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    rows: Tensor,
    held_out: Tensor | None,
    config: RunConfig,
    device: str | torch.device,
) -> TrainedModel:
    """Train a model in place.

    Args:
        model: Holds the weights of the selected epoch afterwards.
        rows: The rows to train on.
        held_out: The rows that select the epoch; without them, the last epoch is kept.
        device: ``cpu``, ``cuda``, or ``auto``.
    """
    step = FullBatchStep([model], graph, y, [rows], config, seeds=[config.seed], device=device)
    (result,) = fit(step, validation=None if held_out is None else step.scorer([held_out]))
    if isinstance(result, Diverged):
        raise WorkFailed(
            f"{result.reason}; standardise X (StandardScaler in a Pipeline), or lower "
            "learning_rate or order"
        )
    model.load_state_dict(result.state)
    return result


def hold_out(y: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Draw the same fraction of each class, but never all of it.

    Args:
        y: Class of each row, ``-1`` where it has none.

    Returns:
        The remaining rows, and the drawn ones; both sorted.
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
