"""The paper's protocol: models trained on the same splits, several seeds each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from math import fsum
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.features import Preprocess
from crossgcn.data.files import holding
from crossgcn.data.graph import canonical_graph, is_labelled
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import clear_model
from crossgcn.experiments.statistics import Summary, summarise
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_precision, choose_device
from crossgcn.training.metrics import (
    DEFAULT_METRICS,
    Task,
    check_metric,
    task_of_outputs,
)
from crossgcn.training.objective import class_weights
from crossgcn.training.pool import count_epochs, train_all
from crossgcn.training.records import RECORD
from crossgcn.training.trainer import (
    SHARED_SETTINGS,
    Run,
    Trainer,
    check_columns,
    model_arguments,
)


@dataclass(frozen=True)
class RepeatedRuns:
    """All runs of one configuration.

    Attributes:
        records: One per split, in order.
        test_to_train: Test nodes per training node for splits that share nodes, as
            :func:`~crossgcn.paired_difference` takes it; 0 for other splits.
    """

    config: RunConfig
    records: tuple[dict[str, Any], ...]
    test_to_train: float = 0.0

    @property
    def num_splits(self) -> int:
        """Number of distinct training sets; with ``train="all"`` there is only one."""
        return len({record["split"]["train_sha256"] for record in self.records})

    @property
    def task(self) -> Task:
        """What is predicted: two classes, several classes, or a number."""
        task: Task = self.records[0]["task"]
        return task

    @property
    def metric(self) -> str:
        """The metric that selected the epochs."""
        metric: str = self.records[0]["metric"]
        return metric

    @property
    def test(self) -> dict[str, list[float]]:
        """Every metric of the test nodes, the selecting one first; one value per run."""
        names = sorted(self.records[0]["test"], key=lambda name: name != self.metric)
        return {name: [record["test"][name] for record in self.records] for name in names}

    @property
    def test_accuracy(self) -> list[float]:
        """The accuracy among :attr:`test`; only of runs that predict classes."""
        return self.test["accuracy"]

    @property
    def validation_score(self) -> list[float]:
        """The selecting metric of the validation nodes, negated if smaller is better."""
        return [record["validation_score"] for record in self.records]

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation of the selecting metric on the test nodes."""
        return summarise(self.test[self.metric])

    @property
    def seconds(self) -> float:
        """Total time of all runs."""
        return fsum(record["seconds"] for record in self.records)


class Experiment:
    """Models to be trained on the same splits of the same graph.

    The constructor loads the data and checks every configuration, so that a mistake is
    found before training starts.

    Args:
        configs: The models. They must agree on the dataset and the splits, so that their
            results can be paired.
        data: The graph, unless it is to be loaded by name: ``x``, ``edge_index``, ``y``,
            roles or PyG's masks, and optionally ``edge_weight``.
        preprocess: The meaning of features and classes, saved with the models.
        folders: One folder per configuration, relative to ``out``; by default named after
            the model, its depth, and the settings in which configurations of one model differ.
    """

    def __init__(
        self,
        configs: Sequence[RunConfig],
        data: Data | None = None,
        preprocess: Preprocess | None = None,
        *,
        folders: Sequence[str] | None = None,
    ) -> None:
        _check_shared_settings(configs)
        self.folders = _folder_names(configs) if folders is None else list(folders)
        first = configs[0]
        self.data = load_dataset(first.dataset) if data is None else canonical_graph(data)
        self.preprocess = preprocess
        known = {} if data is None else {"dataset": self.data.name}
        if task_of_outputs(self.data.num_classes) == "regression" and first.metric is None:
            known["metric"] = DEFAULT_METRICS["regression"]
        alone = {} if self.data.edge_index.numel() else {"hops": 0}
        self.configs = tuple(
            config.model_copy(update=known | (alone if config.takes_hops else {}))
            for config in configs
        )
        self.splits = make_splits(
            self.data,
            first.splits,
            num_splits=first.num_splits,
            train=first.train,
            seed=first.seed,
        )
        for given in configs:
            if given.hops and alone:
                raise BadInput(
                    f"{self.data.name}: hops is {given.hops}, but there are no edges; leave out "
                    "--hops"
                )
        models = [_check_model(config, self.data) for config in self.configs]
        check_columns(self.configs, models, preprocess or Preprocess.numbered(0))

    def run(
        self,
        *,
        out: Path | None = None,
        workers: int = 1,
        threads: int = 1,
        save_models: bool = False,
        device: str = "cpu",
        training: Mapping[str, Any] | None = None,
        on_epochs: Callable[[int, int], None] | None = None,
    ) -> list[RepeatedRuns]:
        """Train every model on every split.

        Args:
            out: Folder for the records; a finished run found there is not repeated.
            workers: Number of processes. With more than one, a script must guard its entry
                with ``if __name__ == "__main__"``.
            threads: Threads of each run.
            save_models: Save the weights of each run beside its record. A model chosen from
                earlier runs in ``out`` is removed.
            device: ``cpu``, ``cuda`` (all runs in this process) or ``auto``.
            training: Saved with the models: how to train them again.
            on_epochs: Called with the epochs done and the epochs in total.
        """
        with nullcontext() if out is None else holding(out):
            trainer = self.trainer(
                device=device, threads=threads, save_models=save_models, training=training
            )
            runs = [
                run
                for config, name in zip(self.configs, self.folders, strict=True)
                for run in self.runs_of(config, out and out / name)
            ]
            if out is not None:
                self._refuse_other_runs(out, runs)
                if save_models:
                    clear_model(out)
            count = count_epochs(runs, on_epochs)
            records = iter(train_all(trainer, runs, workers=workers, on_epochs=count))
            size = len(self.splits)
            return [
                RepeatedRuns(config, tuple(islice(records, size)), self.test_to_train)
                for config in self.configs
            ]

    def _refuse_other_runs(self, out: Path, runs: Sequence[Run]) -> None:
        """Refuse a folder with runs of splits that this experiment does not have."""
        planned = {run.folder for run in runs}
        for name in self.folders:
            for path in sorted((out / name).glob(f"split-*/{RECORD}")):
                if path.parent not in planned:
                    raise BadInput(
                        f"{out}: run `{path.parent.name}` is not among the {len(planned)} of this "
                        "training: the folder would mix two trainings; give another --out"
                    )

    @property
    def test_to_train(self) -> float:
        """Test nodes per training node of stratified splits, which share nodes; else 0."""
        split = self.splits[0]
        stratified = self.configs[0].splits == "stratified"
        return len(split.test) / len(split.train) if stratified else 0.0

    def trainer(
        self, kind: type[Trainer] = Trainer, *, device: str = "cpu", **options: Any
    ) -> Trainer:
        """Return a trainer for the graph and the splits; ``options`` are those of its class."""
        place = choose_device(device)
        for config in self.configs:
            check_precision(config.precision, place)
        return kind(
            self.data,
            self.splits,
            device=place,
            preprocess=self.preprocess,
            **options,
        )

    def runs_of(self, config: RunConfig, folder: Path | None) -> Iterator[Run]:
        """Yield the runs of a configuration, each with its own subfolder of ``folder``."""
        for split in range(len(self.splits)):
            yield Run(config, split, folder and folder / f"split-{split:02d}")


def _folder_names(configs: Sequence[RunConfig]) -> list[str]:
    """Name the folder of each configuration; add the settings in which equal names differ."""
    names: list[str] = []
    for config in configs:
        kind = config.model, config.num_layers
        name = f"{config.model}-{config.num_layers}-layer"
        alike = [other for other in configs if (other.model, other.num_layers) == kind]
        for setting in RunConfig.model_fields:
            if len({getattr(other, setting) for other in alike}) > 1:
                value = getattr(config, setting)
                words = "-".join(map(str, value)) if isinstance(value, tuple) else value
                name += f"-{setting.replace('_', '-')}-{words}"
        if name in names:
            raise BadInput(f"{config.model} is given twice with the same settings: leave one out")
        names.append(name)
    return names


def _check_shared_settings(configs: Sequence[RunConfig]) -> None:
    """Refuse to train nothing, and models whose splits or seeds differ."""
    if not configs:
        raise BadInput("there is nothing to train: give at least one model")
    for config in configs:
        for name in (*SHARED_SETTINGS, "metric"):
            ours, theirs = getattr(configs[0], name), getattr(config, name)
            if ours != theirs:
                raise BadInput(
                    f"models compared must share {name}: {ours!r} and {theirs!r} were given"
                )


def _check_model(config: RunConfig, data: Data) -> NodeClassifier:
    """Return the model; refuse one that does not fit the graph or cannot be made."""
    if config.metric is not None:
        check_metric(config.metric, task_of_outputs(data.num_classes))
    class_weights(config.class_weight, data.y[is_labelled(data.y)], data.num_classes)
    arguments = model_arguments(config, data.get("directed") is True)
    try:
        return build_model(config.model, data.x.size(1), data.num_classes, **arguments)
    except (RuntimeError, TypeError) as error:
        raise BadInput(
            f"model {config.model!r} cannot be made ({str(error).splitlines()[0]}); "
            "lower hidden_channels, num_layers or order"
        ) from None
