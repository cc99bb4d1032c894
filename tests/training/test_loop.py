"""The one loop, apart from the functions in front of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import PreparedGraph, RunConfig, build_model, make_splits
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.loop import Diverged, TrainedModel, fit

EPOCHS = 9


class _Stop(Exception):
    pass


def train(
    data: Data,
    *,
    validate: bool = True,
    checkpoint: Checkpoint | None = None,
    on_epochs: Callable[[int], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    torch.manual_seed(0)
    model = build_model("cross-gcn", data.x.size(1), 3, hidden_channels=8)
    split = make_splits(data, "random", num_splits=1, train=5)[0]
    config = RunConfig(**{"epochs": EPOCHS, "learning_rate": 0.02} | settings)
    graph = PreparedGraph(data.x, data.edge_index)
    step = FullBatchStep(model, graph, data.y, split.train, config, seed=0)
    if not validate:
        split = replace(split, validation=split.validation[:0])
    return fit(step, split, checkpoint=checkpoint, on_epochs=on_epochs)


def test_a_training_resumes_from_its_checkpoint_to_the_same_bits(
    small_graph: Data, tmp_path: Path
) -> None:
    whole = train(small_graph)
    checkpoint, done = Checkpoint(tmp_path / CHECKPOINT, {"run": 1}, seconds=0), 0

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
    assert resumed.history == whole.history and len(resumed.history) == EPOCHS
    assert (resumed.best_epoch, resumed.test_accuracy) == (whole.best_epoch, whole.test_accuracy)
    assert all(torch.equal(value, whole.state[name]) for name, value in resumed.state.items())


def test_without_validation_nodes_the_last_epoch_is_selected(small_graph: Data) -> None:
    result = train(small_graph, validate=False)
    assert result.best_epoch == len(result.history) == EPOCHS
    assert result.validation_score != result.validation_score  # NaN
    assert result.test_accuracy is not None


@pytest.mark.parametrize("validate", [True, False])
def test_the_loop_ends_once_the_model_has_diverged(small_graph: Data, validate: bool) -> None:
    counts: list[int] = []
    with pytest.raises(Diverged):
        train(small_graph, validate=validate, learning_rate=1e30, on_epochs=counts.append)
    assert sum(counts) < EPOCHS
