"""Training of cross-hops on a graph folder; importable by a separate process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.data.stored.open import open_dataset
from crossgcn.errors import WorkFailed
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.sklearn_models import _dense, _fit_boosting
from crossgcn.graph.sampling.batches import Batch
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.batches.step import BAG_SHARE, MiniBatchStep, batches_of
from crossgcn.training.config import RunConfig
from crossgcn.training.distributed import Processes
from crossgcn.training.inputs import Inputs
from crossgcn.workflows.table_settings import hop_settings

__all__ = ["HopFits", "HopSize", "hop_step", "perceptron_step", "train_hops"]

BAGS = 8


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


def perceptron_step(batch: Batch, model: CrossHops) -> Callable[[], None]:
    """Return a step of a perceptron in plain PyTorch with about as many weights as a model."""
    x, units, classes = batch.x, model.transform.num_projections, model.readout.out_channels
    assert isinstance(x, Tensor)
    peer = nn.Sequential(nn.Linear(x.size(1), units), nn.ReLU(), nn.Linear(units, classes))
    optimizer = torch.optim.Adam(peer.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss = functional.cross_entropy(peer(x), batch.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


class HopFits:
    """A whole training of cross-hops with bags, and a fit of boosting on the same columns.

    Both read the columns of the first split without labels of neighbours, stop early by the
    validation nodes, and use one thread.

    Args:
        data: The graph; its target is classes or a number.
        settings: Further settings of cross-hops.
    """

    def __init__(self, data: Data, **settings: Any) -> None:
        self.metric = "r2" if data.y.is_floating_point() else "accuracy"
        usual = hop_settings(data.x.size(1))
        self.config = RunConfig.create(
            model="cross-hops",
            metric=self.metric,
            bags=BAGS,
            defaults={"splits": "stratified", "num_splits": 1},
            instead=usual,
            **settings,
        )
        experiment = Experiment([self.config], data)
        self.trainer, self.split = experiment.trainer(), experiment.splits[0]
        self.runs = list(experiment.runs_of(self.config, None))
        self.trainer.prepare(self.runs)
        columns = self.trainer.inputs.hop_columns(self.config.hops or 2, self.split, labels=False)
        self.columns, self.y = _dense(columns), experiment.data.y.numpy()

    def ours(self) -> float:
        """Train, select and test; return the test score."""
        (record,) = self.trainer.train(self.runs)
        if isinstance(record, WorkFailed):
            raise record
        return float(record["test"][self.metric])

    def step(self) -> tuple[CrossHops, Batch, Callable[[], None]]:
        """Return a model, a batch, and a function that trains the model on the batch."""
        model = self.trainer._build(self.config, self.split)
        assert isinstance(model, CrossHops) and self.config.batch_size is not None
        source, size = self.trainer.inputs.hop_source(model, self.split), self.config.batch_size
        batches = batches_of(model, source, self.split.train, fanouts=None, batch_size=size)
        bags = torch.rand(model.bags, self.trainer.y.numel()) < BAG_SHARE
        step = MiniBatchStep(
            model, batches, self.config, seed=0, processes=Processes(), in_bag=bags
        )
        batch = next(iter(batches.epoch(1)))
        return model, batch, lambda: step.train_on(batch)

    def boosting(self) -> float:
        """Fit, and score the test nodes."""
        train, validation, test = (
            part.numpy() for part in (self.split.train, self.split.validation, self.split.test)
        )
        outputs = self.trainer.num_classes
        stages = _fit_boosting(
            *(self.columns[train], self.y[train], self.columns[validation], self.y[validation]),
            outputs,
            class_weight=None,
            seed=0,
        )
        *_, (_, last) = stages
        scores, y = last(self.columns[test]), self.y[test]
        if outputs == 1:
            return float(1 - np.square(scores[:, 0] - y).sum() / np.square(y - y.mean()).sum())
        return float((scores.argmax(axis=1) == y).mean())
