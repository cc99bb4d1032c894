"""One run of an experiment: train, and write down everything about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.models.registry import build_model
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.environment import describe_environment
from crossgcn.training.full_batch import Diverged, EpochMetrics, train_full_batch
from crossgcn.training.inputs import Inputs
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
    """One training: a configuration, one of its splits, one repeat of that split.

    Attributes:
        config: The configuration.
        split: Position of the split.
        repeat: Which repeat of it.
        folder: Where its record goes, if anywhere.
        cost: What one of its epochs counts for in reports of progress.
    """

    config: RunConfig
    split: int
    repeat: int = 0
    folder: Path | None = None
    cost: int = 1


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
        self.inputs = Inputs(data)
        self.y: Tensor = data.y
        self.num_classes: int = data.num_classes
        self.description = describe_dataset(data)
        self.splits = splits
        self.save_models = save_models
        self.threads = threads

    def identity(self, run: Run) -> Record:
        """What makes a run that run; a record with the same entries is its result."""
        return {
            "config": run.config.identity(),
            "dataset": self.description,
            "split": {"index": run.split} | describe_split(self.splits[run.split]),
            "repeat": run.repeat,
            "seed": run.config.run_seed(run.split, run.repeat),
            "threads": self.threads,
        } | self.inputs.identity(run.config)

    def prepare(self, runs: Iterable[Run]) -> None:
        """Compute what these runs share, before processes divide them.

        Raises:
            BadInput: If that cannot be done here.
        """
        self.inputs.prepare(run.config for run in runs)

    def train(self, run: Run, on_epoch: Callable[[EpochMetrics], None] | None = None) -> Record:
        """Do one run and write it down.

        Raises:
            WorkFailed: If it diverged, with the last good weights in the run's folder.
        """
        config, graph = run.config, self.inputs.of(run.config)
        record = self.identity(run) | self.inputs.fingerprint(config)
        started = time.perf_counter()
        with _seeded(record["seed"], self.threads):
            model = build_model(
                config.model, graph.x.size(1), self.num_classes, **config.model_settings()
            )
            record["parameters"] = sum(parameter.numel() for parameter in model.parameters())
            record["environment"] = describe_environment()
            try:
                trained = train_full_batch(
                    model,
                    graph,
                    self.y,
                    self.splits[run.split],
                    seed=record["seed"],
                    epochs=config.epochs,
                    learning_rate=config.learning_rate,
                    weight_decay=config.weight_decay,
                    test_curve=config.test_curve,
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
                in_channels=self.inputs.of(run.config).x.size(1),
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
