"""One run of an experiment: train, and write down everything about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.files import digest_of_json
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.graph.prepared import choose_device
from crossgcn.graph.sampling.sampler import choose_sampler
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.progress import RESUME_POINT, Checkpoints
from crossgcn.training.batches.train import train_by_config
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_memory, describe_sizes, enough_memory, stack_limit
from crossgcn.training.distributed import processes
from crossgcn.training.full_batch import Diverged, EpochMetrics, TrainedModel, train_together
from crossgcn.training.inputs import Inputs
from crossgcn.training.model_batch import can_be_stacked
from crossgcn.training.records import (
    clear_run,
    describe_dataset,
    describe_environment,
    describe_split,
    write_epochs,
    write_record,
)

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


class Trainer:
    """What all runs of one experiment share: the graph, made ready once, and the splits.

    Args:
        data: The graph.
        splits: The splits that runs refer to by position.
        save_models: Keep the weights of each run beside its record.
        threads: Threads of each run.
        device: Where models are trained.
        preprocess: What features and classes mean; classes are numbered when left out.
        read_test: Look at the test nodes after each training; a search for settings does
            not, and its records have no test accuracy.
    """

    def __init__(
        self,
        data: Data,
        splits: Sequence[Split],
        *,
        save_models: bool = False,
        threads: int = 1,
        device: str | torch.device = "cpu",
        preprocess: Preprocess | None = None,
        read_test: bool = True,
    ) -> None:
        self.inputs = Inputs(data)
        self.y: Tensor = data.y
        self.num_classes: int = data.num_classes
        self.description = describe_dataset(data)
        self.splits = splits
        self.save_models = save_models
        self.threads = threads
        self.device = choose_device(device)
        self.read_test = read_test
        self.preprocess = preprocess or Preprocess.numbered(data.num_classes)
        if preprocess is not None:
            self.description["preprocess_sha256"] = digest_of_json(preprocess.to_json())

    def identity(self, run: Run) -> Record:
        """What makes a run that run; a record with the same entries is its result."""
        return {
            "config": run.config.identity(),
            "dataset": self.description,
            "split": {"index": run.split} | describe_split(self.splits[run.split]),
            "repeat": run.repeat,
            "seed": run.config.run_seed(run.split, run.repeat),
            "threads": self.threads,
            "device": self.device.type,
            **({} if self.read_test else {"read_test": False}),
            **({} if run.config.batch_size is None else {"sampler": choose_sampler()}),
        } | self.inputs.identity(run.config)

    def prepare(self, runs: Iterable[Run]) -> None:
        """Compute what these runs share, before processes divide them.

        Raises:
            BadInput: If that cannot be done here.
        """
        self.inputs.prepare(run.config for run in runs)

    def stacks(self, runs: Mapping[int, Run]) -> list[list[int]]:
        """Which of these runs to train together: on a GPU all of one configuration.

        On the CPU each goes alone: processes share the runs, and compiled kernels train a
        single model.

        Args:
            runs: By position.
        """
        if self.device.type == "cpu":
            return [[position] for position in runs]
        kinds: dict[RunConfig, list[int]] = {}
        for position, run in runs.items():
            kinds.setdefault(run.config, []).append(position)
        stacks = []
        for config, positions in kinds.items():
            if config.batch_size is not None:
                stacks += [[position] for position in positions]
                continue
            model, graph = self._build(config), self.inputs.of(config)
            limit = stack_limit(model, graph, self.device) if can_be_stacked(model) else 1
            stacks += [positions[i : i + limit] for i in range(0, len(positions), limit)]
        return stacks

    def train_together(
        self, runs: Sequence[Run], on_epochs: Callable[[int], None] | None = None
    ) -> list[Record | WorkFailed]:
        """Do runs of one configuration in the same steps, and write each down.

        Args:
            runs: They differ in split, repeat and folder.
            on_epochs: Called now and then with the number of epochs done since.

        Returns:
            Each run's record; where it diverged, why, with the last good weights in its folder.
        """
        config = runs[0].config
        if config.batch_size is not None:
            return [self._train_in_batches(run, on_epochs) for run in runs]
        graph = self.inputs.of(config)
        records = [self.identity(run) | self.inputs.fingerprint(config) for run in runs]
        started = time.perf_counter()
        models = []
        for record in records:
            with _seeded(record["seed"]):
                models.append(self._build(config))
            record["parameters"] = sum(weight.numel() for weight in models[-1].parameters())
            if len(runs) > 1:
                record["trained_together"] = len(runs)
        check_memory(models[0], graph, self.device)
        with (
            _on_threads(self.threads),
            enough_memory(describe_sizes(models[0], graph), self.device),
        ):
            for record in records:
                record["environment"] = describe_environment(self.device)
            results = train_together(
                models,
                graph,
                self.y,
                [self.splits[run.split] for run in runs],
                [record["seed"] for record in records],
                epochs=config.epochs,
                learning_rate=config.learning_rate,
                weight_decay=config.weight_decay,
                test_curve=config.test_curve,
                read_test=self.read_test,
                device=self.device,
                precision=config.precision,
                on_epochs=on_epochs,
            )
        seconds = (time.perf_counter() - started) / len(runs)
        return [
            self._write_down(run, record, result, seconds)
            for run, record, result in zip(runs, records, results, strict=True)
        ]

    def _build(self, config: RunConfig) -> NodeClassifier:
        in_channels = self.inputs.num_features(config)
        return build_model(config.model, in_channels, self.num_classes, **config.model_settings())

    def _train_in_batches(
        self, run: Run, on_epochs: Callable[[int], None] | None
    ) -> Record | WorkFailed:
        identity, config, group = self.identity(run), run.config, processes()
        record = identity | self.inputs.fingerprint(config)
        started = time.perf_counter()
        with _seeded(record["seed"]):
            model = self._build(config)
        record["parameters"] = sum(weight.numel() for weight in model.parameters())
        if group.world_size > 1:
            record["processes"] = group.world_size
        points = None
        if run.folder is not None:
            points = Checkpoints(run.folder / RESUME_POINT, identity, config.checkpoint_every)
        with _on_threads(self.threads):
            record["environment"] = describe_environment(self.device)
            result = train_by_config(
                config,
                model,
                self.inputs.source_of(config),
                self.splits[run.split],
                seed=record["seed"],
                read_test=self.read_test,
                device=self.device,
                checkpoints=points,
                on_epochs=on_epochs,
            )
        return self._write_down(run, record, result, time.perf_counter() - started)

    def _write_down(
        self, run: Run, record: Record, result: TrainedModel | Diverged, seconds: float
    ) -> Record | WorkFailed:
        if isinstance(result, Diverged):
            self._write(run, record | {"status": "diverged"}, result.state, result.history)
            # Not the error itself: its weights would have to travel between processes.
            name = f"{run.config.model} ({run.config.num_layers}-layer), split {run.split}"
            return WorkFailed(f"{name}: {result}")
        record |= {
            "status": "done",
            "best_epoch": result.best_epoch,
            "validation_accuracy": result.validation_accuracy,
            "test_accuracy": result.test_accuracy,
            "order_weights": _order_weights(result.state),
            "seconds": seconds,
        }
        self._write(run, record, result.state if self.save_models else None, result.history)
        return record

    def _write(
        self,
        run: Run,
        record: Record,
        state: dict[str, Tensor] | None,
        history: Sequence[EpochMetrics],
    ) -> None:
        if run.folder is None or not processes().leads:
            return
        clear_run(run.folder)
        write_epochs(run.folder, history)
        if state is not None:
            save_model(
                run.folder,
                state,
                preset=run.config.model,
                in_channels=self.inputs.num_features(run.config),
                settings=run.config.model_dump(
                    mode="json", include=set(run.config.model_settings())
                ),
                preprocess=self.preprocess,
            )
        write_record(run.folder, record)
        (run.folder / RESUME_POINT).unlink(missing_ok=True)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeded randomness, as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _on_threads(threads: int) -> Iterator[None]:
    """A set number of threads, as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _order_weights(state: dict[str, Tensor]) -> list[list[float]]:
    """α of each layer that has one, first layer first."""
    return [value.tolist() for name, value in state.items() if name.endswith("order_weights")]


SHARED_SETTINGS = ("dataset", "splits", "num_splits", "train", "repeats", "seed")
"""What configurations must have in common to be trained on the same splits."""


def shared_settings(config: RunConfig) -> tuple[Any, ...]:
    """The dataset and the splits of a configuration."""
    return tuple(getattr(config, name) for name in SHARED_SETTINGS)


class JointTrainer:
    """Sends each run to the workload of its dataset and splits.

    Args:
        workloads: By :func:`shared_settings`.
    """

    save_models = False

    def __init__(self, workloads: Mapping[tuple[Any, ...], Trainer]) -> None:
        self.workloads: dict[tuple[Any, ...], Trainer] = dict(workloads)

    @property
    def device(self) -> torch.device:
        """Where models are trained, which is the same place for all."""
        devices = (workload.device for workload in self.workloads.values())
        return next(devices, torch.device("cpu"))

    def of(self, run: Run) -> Trainer:
        """The workload a run belongs to."""
        return self.workloads[shared_settings(run.config)]

    def identity(self, run: Run) -> Record:
        """As :meth:`Trainer.identity`."""
        return self.of(run).identity(run)

    def prepare(self, runs: Iterable[Run]) -> None:
        """As :meth:`Trainer.prepare`."""
        for run in runs:
            self.of(run).prepare([run])

    def stacks(self, runs: Mapping[int, Run]) -> list[list[int]]:
        """As :meth:`Trainer.stacks`."""
        shares: dict[int, dict[int, Run]] = {}
        for position, run in runs.items():
            shares.setdefault(id(self.of(run)), {})[position] = run
        return [
            stack
            for share in shares.values()
            for stack in self.of(next(iter(share.values()))).stacks(share)
        ]

    def train_together(
        self, runs: Sequence[Run], on_epochs: Callable[[int], None] | None = None
    ) -> list[Record | WorkFailed]:
        """As :meth:`Trainer.train_together`."""
        return self.of(runs[0]).train_together(runs, on_epochs)
