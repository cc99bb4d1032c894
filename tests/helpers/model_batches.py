"""Models trained side by side, with settings given one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from crossgcn import PreparedGraph, RunConfig, Split
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.full_batch import train_model_batch
from crossgcn.training.selection import Diverged, TrainedModel

__all__ = ["train_together"]


def train_together(
    models: Sequence[NodeClassifier],
    graph: PreparedGraph,
    y: Tensor,
    splits: Sequence[Split],
    seeds: Sequence[int],
    *,
    device: str = "cpu",
    **settings: Any,
) -> list[TrainedModel | Diverged]:
    config = RunConfig(**settings)
    return train_model_batch(models, graph, y, splits, config, seeds, device=device)
