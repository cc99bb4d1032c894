"""One run of an experiment: train a model and write its record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data

from crossgcn.data.files import sha256_of_json
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.graph.hops import HopColumns
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint, save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.device import choose_device
from crossgcn.training.full_batch import fit_full_batch
from crossgcn.training.inputs import Inputs
from crossgcn.training.metrics import positive_class, selecting_metric, task_of_outputs
from crossgcn.training.objective import fit_target_scale
from crossgcn.training.records import (
    clear_run,
    describe_dataset,
    describe_environment,
    describe_split,
    write_epochs,
    write_record,
)
from crossgcn.training.rows import train_rows
from crossgcn.training.selection import Diverged, TrainedModel

Record = dict[str, Any]
OnEpochs = Callable[[int], None]


@dataclass(frozen=True)
class Run:
    """One training: a configuration, and one of its splits.

    Attributes:
        folder: Where its record is written, if anywhere.
    """

    config: RunConfig
    split: int
    folder: Path | None = None


class Trainer:
    """Trains the runs of one experiment, which share the graph and the splits.

    Args:
        splits: The splits that runs refer to by position.
        preprocess: The meaning of features and classes; classes are numbered when left out.
        columns: Columns of neighbourhoods; see :class:`~crossgcn.training.inputs.Inputs`.
        training: Saved with the models: how to train them again.
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
        columns: HopColumns | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.device = choose_device(device)
        self.inputs = Inputs(data, columns=columns, device=self.device)
        self.y: Tensor = data.y
        self.num_classes: int = data.num_classes
        self.description = describe_dataset(data)
        self.splits = splits
        self.save_models = save_models
        self.threads = threads
        self.training = training
        self.preprocess = preprocess or Preprocess.numbered(data.num_classes)
        if preprocess is not None:
            self.description["preprocess_sha256"] = sha256_of_json(preprocess.to_json())

    def identity(self, run: Run) -> Record:
        """Return what makes a run this run; a record with equal entries is its result."""
        return {
            "config": run.config.identity(),
            "dataset": self.description,
            "split": {"index": run.split} | describe_split(self.splits[run.split]),
            "seed": run.config.run_seed(run.split),
            "threads": self.threads,
            "device": self.device.type,
        }

    def prepare(self, runs: Iterable[Run]) -> None:
        """Compute what these runs share, before processes divide them."""
        self.inputs.prepare(run.config for run in runs)

    def train(self, run: Run, on_epochs: OnEpochs | None = None) -> Record | WorkFailed:
        """Train a run; return its record, or why it diverged.

        Its folder holds the record, and of a run that diverged the last good weights.
        """
        started = time.perf_counter()
        record = self.identity(run)
        with seeded(record["seed"]):
            model = self._build(run.config, self.splits[run.split])
        record["parameters"] = sum(weight.numel() for weight in model.parameters())
        with using_threads(self.threads):
            record["environment"] = describe_environment(self.device)
            result = self._fit(run, model, on_epochs)
        return self._write(run, record, result, time.perf_counter() - started)

    def _build(self, config: RunConfig, split: Split | None = None) -> NodeClassifier:
        in_channels, settings = self.inputs.num_features, self._settings(config)
        model = build_model(config.model, in_channels, self.num_classes, **settings)
        if split is not None and self.num_classes == 1:
            fit_target_scale(model, self.y[split.train])
        return model

    def _settings(self, config: RunConfig) -> Record:
        settings = config.model_settings()
        return settings | {"directed": True} if self.inputs.is_directed(config) else settings

    def _fit(
        self, run: Run, model: NodeClassifier, on_epochs: OnEpochs | None
    ) -> TrainedModel | Diverged:
        config, split = run.config, self.splits[run.split]
        seed = config.run_seed(run.split)
        if not isinstance(model, CrossHops):
            graph = self.inputs.graph()
            return fit_full_batch(
                model,
                graph,
                self.y,
                split,
                config,
                seed=seed,
                device=self.device,
                on_epochs=on_epochs,
            )
        checkpoint = None
        if run.folder is not None:
            path = run.folder / CHECKPOINT
            checkpoint = Checkpoint(path, self.identity(run))
        return train_rows(
            model,
            self.inputs.hop_rows(model, split),
            split,
            config,
            seed=seed,
            device=self.device,
            checkpoint=checkpoint,
            on_epochs=on_epochs,
        )

    def _write(
        self, run: Run, record: Record, result: TrainedModel | Diverged, seconds: float
    ) -> Record | WorkFailed:
        """Complete a record, and write it with the metrics of every epoch and the weights."""
        metric = selecting_metric(run.config.metric, self.num_classes)
        if diverged := isinstance(result, Diverged):
            record["status"] = "diverged"
        else:
            if self.num_classes == 2:
                record["positive_class"] = self.preprocess.classes[positive_class(self.y.numpy())]
            record |= {
                "status": "done",
                "best_epoch": result.best_epoch,
                "task": task_of_outputs(self.num_classes),
                "metric": metric,
                "validation_score": result.validation_score,
                **(
                    {"validation_accuracy": result.validation_score} if metric == "accuracy" else {}
                ),
                "test_accuracy": result.test_accuracy,
                "test": result.test,
                "order_weights": [
                    value.tolist()
                    for name, value in result.state.items()
                    if name.endswith("order_weights")
                ],
                "seconds": seconds,
            }
        if run.folder is not None:
            clear_run(run.folder)
            write_epochs(run.folder, result.history)
            if self.save_models or diverged:
                names = set(run.config.model_settings())
                settings = run.config.model_dump(mode="json", include=names)
                save_model(
                    run.folder,
                    result.state,
                    preset=run.config.model,
                    in_channels=self.inputs.num_features,
                    settings=self._settings(run.config) | settings,
                    preprocess=self.preprocess,
                    training=self.training,
                )
            write_record(run.folder, record)
            (run.folder / CHECKPOINT).unlink(missing_ok=True)
        if diverged:
            # Not the error itself: its weights would have to travel between processes.
            name = f"{run.config.model} ({run.config.num_layers}-layer), split {run.split}"
            return WorkFailed(f"{name}: {result}")
        return record


class seeded(TorchFunctionMode):
    """Draw all random numbers of this thread within a block from a generator of its own.

    The weights are those after ``torch.manual_seed(seed)``, but torch's own generator, which all
    threads share, is neither read nor changed.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function of torch; one that draws uses the generator."""
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in _DRAWING and kwargs.get("generator") is None:
            kwargs["generator"] = self._generator
        return function(*args, **kwargs)


_DRAWING = {
    *("uniform_", "normal_", "bernoulli_", "random_", "exponential_", "trunc_normal_"),
    *("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"),
    *("kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_"),
}


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Set the number of threads within a block, and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


SHARED_SETTINGS = ("dataset", "splits", "num_splits", "train", "seed")
"""Settings that configurations must have in common to be trained on the same splits."""
