"""One training of a link predictor: do it, and write down everything about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.atomic_file import replacing
from crossgcn.data.edge_splits import EdgeSplit
from crossgcn.errors import WorkFailed
from crossgcn.graph import SparseMatrix
from crossgcn.graph.device_inputs import choose_device
from crossgcn.training.config import RunConfig
from crossgcn.training.device_memory import enough_memory
from crossgcn.training.environment import describe_environment
from crossgcn.training.link_predictor import LinkPredictor
from crossgcn.training.link_settings import LinkSettings
from crossgcn.training.link_steps import LinkSteps
from crossgcn.training.link_training import LinkEpoch, TrainedLinks, train_links
from crossgcn.training.records import EPOCHS, clear_run, describe_dataset, digest, write_record
from crossgcn.training.workload import Record, Run

__all__ = ["LinkWorkload"]

_OF_NODES = ("splits", "train", "test_curve")
"""Settings of a configuration that are about splits of nodes."""


class LinkWorkload:
    """What all runs of one comparison share: the graph, splits of its edges, the settings.

    It has what :func:`~crossgcn.training.many_runs.train_many` asks of a workload.

    Args:
        data: The graph.
        splits: The splits that runs refer to by position.
        settings: Of the predictors.
        threads: Threads of each run.
        device: Where predictors are trained.
    """

    save_models = False

    def __init__(
        self,
        data: Data,
        splits: Sequence[EdgeSplit],
        settings: LinkSettings,
        *,
        threads: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        self.splits, self.settings = splits, settings
        self.threads = threads
        self.device = choose_device(device)
        self.description = describe_dataset(data)
        sparse = data.x.layout == torch.sparse_csr
        self.x: Tensor | SparseMatrix = SparseMatrix.from_torch(data.x) if sparse else data.x
        # Without the features, which torch would copy to other processes with warnings.
        self.graph = Data(
            edge_index=data.edge_index, edge_weight=data.get("edge_weight"), num_nodes=len(data.y)
        )

    def identity(self, run: Run) -> Record:
        """What makes a run that run; a record with the same entries is its result."""
        config = {k: v for k, v in run.config.identity().items() if k not in _OF_NODES}
        return {
            "config": config,
            "links": self.settings.describe(),
            "dataset": self.description,
            "split": {"index": run.split} | _describe_split(self.splits[run.split]),
            "seed": run.config.run_seed(run.split, run.repeat),
            "threads": self.threads,
            "device": self.device.type,
        }

    def prepare(self, runs: Iterable[Run]) -> None:
        """Nothing is shared by several runs: each split has message graphs of its own."""

    def stacks(self, runs: Mapping[int, Run]) -> list[list[int]]:
        """Every run goes alone."""
        return [[position] for position in runs]

    def train_together(
        self, runs: Sequence[Run], on_epochs: Callable[[int], None] | None = None
    ) -> list[Record | WorkFailed]:
        """Do runs one after the other, and write each down.

        Args:
            runs: Any.
            on_epochs: Called with 1 after each epoch.

        Returns:
            Each run's record; where it diverged, why.
        """
        return [self._train(run, on_epochs) for run in runs]

    def build(self, config: RunConfig) -> LinkPredictor:
        """An untrained predictor, its weights drawn by torch's generator."""
        return LinkPredictor(config.model, self.x.size(1), self.settings, **config.model_settings())

    def _train(self, run: Run, on_epochs: Callable[[int], None] | None) -> Record | WorkFailed:
        record = self.identity(run)
        threads = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            record["environment"] = describe_environment(self.device)
            started = time.perf_counter()
            result, parameters = self._fit(run, record["seed"], on_epochs)
        except WorkFailed as error:
            return WorkFailed(f"{run.config.model}, split {run.split}: {error}")
        finally:
            torch.set_num_threads(threads)
        record |= {
            "status": "done",
            "parameters": parameters,
            "best_epoch": result.best_epoch,
            "validation_auc": result.validation_auc,
            "test": result.test,
            "seconds": time.perf_counter() - started,
        }
        if run.folder is not None:
            clear_run(run.folder)
            columns = [field.name for field in fields(LinkEpoch)]
            epochs = pd.DataFrame([asdict(epoch) for epoch in result.history], columns=columns)
            with replacing(run.folder / EPOCHS) as file:
                file.write(epochs.to_csv(index=False, lineterminator="\n").encode())
            write_record(run.folder, record)
        return record

    def _fit(
        self, run: Run, seed: int, on_epochs: Callable[[int], None] | None
    ) -> tuple[TrainedLinks, int]:
        config, split = run.config, self.splits[run.split]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            predictor = self.build(config)
        parameters = sum(weight.numel() for weight in predictor.parameters())
        sizes = (
            f"{config.model} with {parameters:,} weights on {self.x.size(0):,} nodes and "
            f"{self.graph.edge_index.size(1):,} directed edges"
        )
        with enough_memory(sizes, self.device):
            predictor.to(self.device)
            steps = LinkSteps(
                self.graph,
                split,
                predictor.encoder.propagations,
                folds=self.settings.folds,
                seed=seed,
                device=self.device,
            )
            result = train_links(
                predictor,
                self.x.to(self.device),
                steps,
                split,
                seed=seed,
                hits_at=self.settings.ranks,
                epochs=config.epochs,
                learning_rate=config.learning_rate,
                weight_decay=config.weight_decay,
                precision=config.precision,
                on_epoch=None if on_epochs is None else lambda epoch: on_epochs(1),
            )
        return result, parameters


def _describe_split(split: EdgeSplit) -> dict[str, Any]:
    """How many pairs of each kind, and which."""
    return {
        field.name: {
            "pairs": getattr(split, field.name).size(1),
            "sha256": digest(getattr(split, field.name)),
        }
        for field in fields(split)
    }
