"""One run of an experiment: train, and write down everything about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.models.registry import build_model
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.environment import describe_environment
from crossgcn.training.full_batch import Diverged, EpochMetrics, train_full_batch
from crossgcn.training.records import (
    clear_run,
    describe_dataset,
    describe_split,
    write_epochs,
    write_record,
)

__all__ = ["Record", "Run", "Workload"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One training: a configuration, one of its splits, one repeat of that split."""

    config: RunConfig
    split: int
    repeat: int = 0
    folder: Path | None = None


class Workload:
    """What all runs of one experiment share: the graph, made ready once, and the splits.

    Args:
        data: The graph.
        splits: The splits that runs refer to by position.
        save_models: Keep the weights of each run beside its record.
        threads: Threads of each run.
    """

    def __init__(
        self, data: Data, splits: Sequence[Split], *, save_models: bool = False, threads: int = 1
    ) -> None:
        self.graph = PreparedGraph(data.x, data.edge_index, getattr(data, "edge_weight", None))
        self.y: Tensor = data.y
        self.num_features: int = data.x.size(1)
        self.num_classes: int = data.num_classes
        self.description = describe_dataset(data)
        self.splits = splits
        self.save_models = save_models
        self.threads = threads

    def identity(self, run: Run) -> Record:
        """What makes a run that run; a record with the same entries is its result."""
        return {
            "config": run.config.model_dump(mode="json", exclude={"num_splits", "repeats"}),
            "dataset": self.description,
            "split": {"index": run.split} | describe_split(self.splits[run.split]),
            "repeat": run.repeat,
            "seed": run.config.run_seed(run.split, run.repeat),
            "threads": self.threads,
        }

    def train(self, run: Run, on_epoch: Callable[[EpochMetrics], None] | None = None) -> Record:
        """Do one run and write it down.

        Raises:
            WorkFailed: If it diverged, with the last good weights in the run's folder.
        """
        config, record = run.config, self.identity(run)
        started = time.perf_counter()
        with _seeded(record["seed"], self.threads):
            model = build_model(
                config.model, self.num_features, self.num_classes, **config.model_settings()
            )
            record["parameters"] = sum(parameter.numel() for parameter in model.parameters())
            record["environment"] = describe_environment()
            try:
                trained = train_full_batch(
                    model,
                    self.graph,
                    self.y,
                    self.splits[run.split],
                    epochs=config.epochs,
                    learning_rate=config.learning_rate,
                    weight_decay=config.weight_decay,
                    on_epoch=on_epoch,
                )
            except Diverged as error:
                self._write(run, record | {"status": "diverged"}, error.state, error.history)
                # Not the error itself: its weights would have to travel between processes.
                name = f"{config.model} ({config.num_layers}-layer), split {run.split}"
                raise WorkFailed(f"{name}: {error}") from error
        record |= {
            "status": "done",
            "best_epoch": trained.best_epoch,
            "validation_accuracy": trained.validation_accuracy,
            "test_accuracy": trained.test_accuracy,
            "order_weights": _order_weights(trained.state),
            "seconds": time.perf_counter() - started,
        }
        self._write(run, record, trained.state if self.save_models else None, trained.history)
        return record

    def _write(
        self,
        run: Run,
        record: Record,
        state: dict[str, Tensor] | None,
        history: Sequence[EpochMetrics],
    ) -> None:
        if run.folder is None:
            return
        clear_run(run.folder)
        write_epochs(run.folder, history)
        if state is not None:
            save_model(
                run.folder,
                state,
                preset=run.config.model,
                in_channels=self.num_features,
                classes=[str(label) for label in range(self.num_classes)],
                settings=run.config.model_dump(
                    mode="json", include=set(run.config.model_settings())
                ),
            )
        write_record(run.folder, record)


@contextmanager
def _seeded(seed: int, threads: int) -> Iterator[None]:
    """Seeded randomness and a set number of threads, both as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)


def _order_weights(state: dict[str, Tensor]) -> list[list[float]]:
    """α of each layer that has one, first layer first."""
    return [value.tolist() for name, value in state.items() if name.endswith("order_weights")]
