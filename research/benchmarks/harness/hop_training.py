"""Training of cross-hops on a graph folder; importable by a separate process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch

from crossgcn.data.splits import make_splits
from crossgcn.data.stored.open import open_dataset
from crossgcn.experiments.experiment import Experiment
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.batches.step import MiniBatchStep, batches_of
from crossgcn.training.config import RunConfig
from crossgcn.training.distributed import Processes
from crossgcn.training.inputs import Inputs

__all__ = ["HopSize", "hop_step", "train_hops"]


@dataclass(frozen=True)
class HopSize:
    """Sizes of a graph: nodes, undirected edges drawn, and columns per node."""

    nodes: int = 1_000_000
    edges: int = 10_000_000
    columns: int = 50

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return f"{self.nodes:,} nodes, {self.edges:,} edges, {self.columns} columns"


def _config(folder: Path) -> RunConfig:
    settings: dict[str, Any] = {"model": "cross-hops", "splits": "public", "metric": "roc_auc"}
    return RunConfig.create(dataset=str(folder), epochs=1, **settings)


def train_hops(folder: str, out: str, threads: int) -> None:
    """Open a graph, compute its columns, train for an epoch, select and test."""
    Experiment([_config(Path(folder))]).run(out=Path(out), save_models=True, threads=threads)


def hop_step(folder: Path, out: Path) -> Callable[[], None]:
    """Return a function that trains on the next batch of training nodes."""
    data, config = open_dataset(folder), _config(folder)
    torch.manual_seed(0)
    settings = config.model_settings()
    model = build_model(config.model, data.stored.num_features, data.num_classes, **settings)
    assert isinstance(model, CrossHops)
    (split,) = make_splits(data, config.splits)
    source = Inputs(data, folder=out).hop_source(model, split)
    assert config.batch_size is not None
    batches = batches_of(model, source, split.train, fanouts=None, batch_size=config.batch_size)
    bags = torch.rand(model.bags, data.num_nodes) < 0.9
    step = MiniBatchStep(model, batches, config, seed=0, processes=Processes(), in_bag=bags)
    endless = chain.from_iterable(map(batches.epoch, count(1)))
    return lambda: step.train_on(next(endless))
