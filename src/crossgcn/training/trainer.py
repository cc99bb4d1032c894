"""One run of an experiment: train a model and write its record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import Preprocess, name_label
from crossgcn.data.files import sha256_of_json
from crossgcn.data.relations import Relation, relations_of, shape_of
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.graph.hops import HopColumns, HopPlan, RelationNames, named
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.graph.standardise import HopRows, Scale, fit_scale
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import choose_device
from crossgcn.training.few_columns import train_hops
from crossgcn.training.full_batch import train_full_batch
from crossgcn.training.loop import Diverged, TrainedModel
from crossgcn.training.metrics import (
    evaluate_constant,
    positive_class,
    selecting_metric,
    task_of_outputs,
)
from crossgcn.training.records import (
    clear_run,
    describe_dataset,
    describe_environment,
    describe_split,
    write_epochs,
    write_record,
)
from crossgcn.training.saved_models import save_model

Record = dict[str, Any]
OnEpochs = Callable[[int], None]

SHARED_SETTINGS = ("dataset", "splits", "num_splits", "train", "seed")
"""Settings that configurations must share to be trained on the same splits."""

_COPIES, _SHARE = 3, 0.5
"""Copies of the columns that exist at once, and the share of a GPU's free memory for them."""


@dataclass(frozen=True)
class Run:
    """One training: a configuration on one of its splits.

    Attributes:
        folder: The folder for the record; ``None`` if it is not written.
    """

    config: RunConfig
    split: int
    folder: Path | None = None


class Trainer:
    """Trains the runs of one experiment, which share the graph and the splits.

    The inputs of the models, the graph or the columns of neighbourhoods, are prepared once. A GPU
    with enough memory computes and keeps the columns.

    Args:
        splits: The splits that runs refer to by position.
        preprocess: The names of features and classes; by default classes are numbered.
        training: How to train the models again; saved with them.
        node_weights: Weight of each training node of the splits in the loss.
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
        training: Mapping[str, Any] | None = None,
        node_weights: Tensor | None = None,
    ) -> None:
        self.device = choose_device(device)
        self.y: Tensor = data.y
        self.num_features = int(data.x.size(1))
        self.num_classes: int = data.num_classes
        self.description = describe_dataset(data)
        self.splits = splits
        self.save_models = save_models
        self.threads = threads
        self.training = training
        self.node_weights = node_weights
        self.preprocess = preprocess or Preprocess.numbered(data.num_classes)
        if preprocess is not None:
            self.description["preprocess_sha256"] = sha256_of_json(preprocess.to_json())
        self._data: Data | None = data
        self.relations = tuple(named(each) for each in relations_of(data))
        self._shape = shape_of(relations_of(data))
        self._times: Tensor | None = data.get("node_time")
        self._graph: PreparedGraph | None = None
        self._hops: dict[int, HopColumns] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the prepared inputs for worker processes, without the data."""
        return {**self.__dict__, "_data": None}

    @property
    def data(self) -> Data:
        """The graph; worker processes have only what was prepared from it."""
        assert self._data is not None, "the process that started this one should have prepared this"
        return self._data

    def identity(self, run: Run) -> Record:
        """Return the entries that identify a run; a record with equal entries is its result."""
        return {
            "config": run.config.identity(),
            "dataset": self.description,
            "split": {"index": run.split} | describe_split(self.splits[run.split]),
            "seed": run.config.run_seed(run.split),
            "threads": self.threads,
            "device": self.device.type,
        }

    def prepare(self, runs: Iterable[Run]) -> None:
        """Prepare the inputs of these runs, before workers start."""
        for run in runs:
            if run.config.takes_hops:
                self._hops_of(HopPlan.hops if run.config.hops is None else run.config.hops)
            else:
                self.graph()

    def graph(self) -> PreparedGraph:
        """Return the graph, prepared for models that take features and edges."""
        if self._graph is None:
            data = self.data
            self._graph = PreparedGraph(data.x, data.edge_index, data.edge_weight)
        return self._graph

    def hop_columns(self, hops: int, split: Split, *, labels: bool) -> Tensor:
        """Return the columns of all nodes and their neighbourhoods, not standardised.

        With ``labels``, the labels of neighbours among the split's training nodes are included.
        """
        columns = self._hops_of(hops)
        if not labels:
            return columns.without_labels.to("cpu")
        return columns.with_labels(self._neighbour_labels(split))

    def _neighbour_labels(self, split: Split) -> NeighbourLabels:
        return neighbour_labels(self.y, split.train, self.num_classes, self._times)

    def hop_rows(self, model: CrossHops, split: Split) -> HopRows:
        """Return the standardised columns of a model, and set their scale and smoothing in it."""
        hops = self._hops_of(model.plan.hops)
        parts, scales = [hops.without_labels], [hops.scale]
        if model.plan.num_labels:
            labels = hops.label_columns(self._neighbour_labels(split))
            parts.append(labels)
            scales.append(fit_scale(labels, 0))
        fitted = zip(scales, parts, strict=True)
        bounded = [each.with_range_of(part, split.train) for each, part in fitted]
        scale = Scale(*map(torch.cat, zip(*bounded, strict=True)))
        model.set_scale(scale, hops.smoothing)
        return HopRows(parts, scale, self.y)

    def _hops_of(self, hops: int) -> HopColumns:
        if hops not in self._hops:
            data = self.data
            device = self.device if _fits_on(self.device, data, hops) else None
            self._hops[hops] = HopColumns(data.x, relations_of(data), hops=hops, device=device)
        return self._hops[hops]

    def train(self, run: Run, on_epochs: OnEpochs | None = None) -> Record | WorkFailed:
        """Train a run, write its folder, and return its record, or the error if it diverged."""
        started, record = time.perf_counter(), self.identity(run)
        model = self.build(run)
        record["parameters"] = sum(weight.numel() for weight in model.parameters())
        with using_threads(self.threads):
            record["environment"] = describe_environment(self.device)
            try:
                result = self.fit(run, model, on_epochs)
            except Diverged as error:
                name = f"{run.config.model} ({run.config.num_layers}-layer), split {run.split}"
                return WorkFailed(f"{name}: {error}")
        record |= self._describe(run, result)
        record["seconds"] = time.perf_counter() - started
        if run.folder is not None:
            self._write(run, run.folder, record, result)
        return record

    def build(self, run: Run) -> NodeClassifier:
        """Return the model of a run with its initial weights."""
        config = run.config
        with seeded(config.run_seed(run.split)):
            settings = config.model_settings(self._shape)
            model = build_model(config.model, self.num_features, self.num_classes, **settings)
        if self.num_classes == 1:
            numbers = self.y[self.splits[run.split].train].double()
            deviation = float(numbers.std()) if numbers.numel() > 1 else 0.0
            model.predict_number(float(numbers.mean()), deviation or 1.0)
        return model

    def fit(
        self, run: Run, model: NodeClassifier, on_epochs: OnEpochs | None = None
    ) -> TrainedModel:
        """Train the model of a run; nothing is written.

        Raises:
            Diverged: When a loss, or a selected weight, is not finite.
        """
        config, split = run.config, self.splits[run.split]
        seed = config.run_seed(run.split)
        if not isinstance(model, CrossHops):
            return train_full_batch(
                model,
                self.graph(),
                self.y,
                split,
                config,
                seed=seed,
                device=self.device,
                node_weights=self.node_weights,
                on_epochs=on_epochs,
            )
        return train_hops(
            model,
            self.hop_rows(model, split),
            split,
            config,
            name_columns(model.plan, self.preprocess, self.relations),
            without=[each.name for each in self.relations].index(config.without)
            if config.without
            else None,
            seed=seed,
            device=self.device,
            node_weights=self.node_weights,
            on_epochs=on_epochs,
        )

    def _describe(self, run: Run, result: TrainedModel) -> Record:
        """Return the entries of a record that describe a result."""
        metric = selecting_metric(run.config.metric, self.num_classes)
        split, y, positive = self.splits[run.split], self.y.numpy(), None
        described: Record = {"status": "done", "task": task_of_outputs(self.num_classes)}
        if self.num_classes == 2:
            positive = positive_class(y)
            described["positive_class"] = self.preprocess.classes[positive]
        if metric == "accuracy":
            described["validation_accuracy"] = result.validation_score
        described |= result.chosen
        if split.test.numel():
            described["constant_test"] = evaluate_constant(
                y[split.train], y[split.test], self.num_classes, positive
            )
        weights = result.state.items()
        return described | {
            "metric": metric,
            "best_epoch": result.best_epoch,
            "validation_score": result.validation_score,
            "test_accuracy": result.test_accuracy,
            "test": result.test,
            "order_weights": [x.tolist() for name, x in weights if name.endswith("order_weights")],
        }

    def _write(self, run: Run, folder: Path, record: Record, result: TrainedModel) -> None:
        """Write a record, the metrics of every epoch, and the model if models are saved."""
        clear_run(folder)
        write_epochs(folder, result.history)
        if self.save_models:
            settings = run.config.model_settings(self._shape)
            chosen = result.chosen.get("settings", {})
            units = chosen.get("hidden_channels", settings["hidden_channels"])
            save_model(
                folder,
                result.state,
                preset=run.config.model,
                in_channels=self.num_features,
                settings=settings | {"hidden_channels": units},
                preprocess=self.preprocess,
                training=self.training,
            )
        write_record(folder, record)


def name_columns(
    plan: HopPlan, preprocess: Preprocess, relations: Sequence[RelationNames]
) -> list[str]:
    """Return, for each feature of a model, the name of its table column."""
    space, tables = preprocess.space, (preprocess.encoding or {}).get("plan", {})
    return plan.name_columns(
        [f"feature {n}" for n in range(plan.num_features)] if space is None else space.fields,
        [name_label(preprocess.classes, tables.get("target"))] * plan.num_labels,
        relations,
    )


def check_columns(
    configs: Sequence[RunConfig],
    models: Sequence[NodeClassifier],
    preprocess: Preprocess,
    relations: Sequence[Relation],
) -> None:
    """Refuse a number of columns that exceeds the columns of every model."""
    plans = [model.plan for model in models if isinstance(model, CrossHops)]
    names = [named(each) for each in relations]
    most = max((len(set(name_columns(plan, preprocess, names))) for plan in plans), default=0)
    for config in configs:
        if isinstance(config.columns, int) and config.columns > most:
            raise BadInput(
                f"columns is {config.columns}, but there are {most}, those of neighbours included; "
                f"give at most {most}, auto or all"
            )


def _fits_on(device: torch.device, data: Data, hops: int) -> bool:
    """Return whether a GPU has room for the graph and the columns of neighbourhoods."""
    if device.type != "cuda":
        return False
    num_nodes, num_features = data.x.shape
    relations = relations_of(data)
    columns = 4 * num_nodes * HopPlan.of(num_features, hops, relations).num_columns
    edges = 32 * sum(each.edge_index.size(1) for each in relations)
    return bool(_COPIES * columns + edges <= _SHARE * torch.cuda.mem_get_info(device)[0])


_seeding = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generator within a block, and restore it afterwards.

    All threads share that generator, so only one of them is in such a block at a time.
    """
    with _seeding, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    """Set the number of threads within a block, and restore it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
