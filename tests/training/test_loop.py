"""The one loop, apart from the functions in front of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import PreparedGraph, RunConfig, build_model, make_splits
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.loop import fit
from crossgcn.training.selection import Diverged, TrainedModel

EPOCHS = 9


class _Stop(Exception):
    pass


def train(
    data: Data,
    *,
    validate: bool = True,
    learning_rate: float = 0.02,
    checkpoint: Checkpoint | None = None,
    on_epochs: Callable[[int], None] | None = None,
) -> list[TrainedModel | Diverged]:
    """Train two models side by side."""
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(build_model("cross-gcn", data.x.size(1), 3, hidden_channels=8))
    splits = make_splits(data, "random", num_splits=2, train=5)
    step = FullBatchStep(
        models,
        PreparedGraph(data.x, data.edge_index),
        data.y,
        [split.train for split in splits],
        RunConfig(epochs=EPOCHS, learning_rate=learning_rate),
        seeds=[0, 1],
    )
    validation = step.scorer([split.validation for split in splits]) if validate else None
    return fit(
        step,
        validation=validation,
        test=lambda: step.scorer([split.test for split in splits]).evaluate(),
        checkpoint=checkpoint,
        on_epochs=on_epochs,
    )


def test_a_model_batch_resumes_from_its_checkpoint_to_the_same_bits(
    small_graph: Data, tmp_path: Path
) -> None:
    whole = train(small_graph)
    checkpoint, done = Checkpoint(tmp_path / CHECKPOINT, {"run": 1}), 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done == 4:
            raise _Stop

    with pytest.raises(_Stop):
        train(small_graph, checkpoint=checkpoint, on_epochs=stop)
    counts: list[int] = []
    resumed = train(small_graph, checkpoint=checkpoint, on_epochs=counts.append)
    assert counts == [4, 1, 1, 1, 1, 1]
    for ours, theirs in zip(resumed, whole, strict=True):
        assert isinstance(ours, TrainedModel) and isinstance(theirs, TrainedModel)
        assert ours.history == theirs.history and len(ours.history) == EPOCHS
        assert (ours.best_epoch, ours.test_accuracy) == (theirs.best_epoch, theirs.test_accuracy)
        assert all(torch.equal(value, theirs.state[name]) for name, value in ours.state.items())


def test_without_validation_nodes_the_last_epoch_is_selected(small_graph: Data) -> None:
    for result in train(small_graph, validate=False):
        assert isinstance(result, TrainedModel)
        assert result.best_epoch == len(result.history) == EPOCHS
        assert result.validation_score != result.validation_score  # NaN
        assert result.test_accuracy is not None


@pytest.mark.parametrize("validate", [True, False])
def test_the_loop_ends_once_every_model_has_diverged(small_graph: Data, validate: bool) -> None:
    counts: list[int] = []
    done = train(small_graph, validate=validate, learning_rate=1e30, on_epochs=counts.append)
    assert all(isinstance(result, Diverged) for result in done)
    assert sum(counts) < EPOCHS
