"""The one loop, apart from the functions in front of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import PreparedGraph, RunConfig, build_model, make_splits
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.loop import Diverged, TrainedModel, fit

EPOCHS = 9


def train(
    data: Data,
    *,
    validate: bool = True,
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
    return fit(step, split, on_epochs=on_epochs)


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
