"""The paper's protocol: models trained on the same splits, several seeds each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, cast

from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.features import Preprocess
from crossgcn.data.files import holding
from crossgcn.data.graph import canonical_graph, is_labelled
from crossgcn.data.relations import has_edges, relations_of, shape_of
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.run_folder import clear_model
from crossgcn.experiments.statistics import Summary, summarise
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_precision
from crossgcn.training.metrics import (
    DEFAULT_METRICS,
    Task,
    check_metric,
    task_of_outputs,
)
from crossgcn.training.objective import training_weights
from crossgcn.training.pool import count_epochs, train_all
from crossgcn.training.records import RECORD
from crossgcn.training.trainer import (
    SHARED_SETTINGS,
    Run,
    Trainer,
    check_columns,
)


@dataclass(frozen=True)
class RepeatedRuns:
    """All runs of one configuration.

    Attributes:
        records: One per split, in order.
        test_to_train: Argument of :func:`~crossgcn.paired_difference`: test nodes per training
            node if splits share nodes, else 0.
    """

    config: RunConfig
    records: tuple[dict[str, Any], ...]
    test_to_train: float = 0.0

    @property
    def num_splits(self) -> int:
        """Number of distinct training sets."""
        return len({record["split"]["train_sha256"] for record in self.records})

    @property
    def task(self) -> Task:
        """What is predicted: two classes, several classes, or a number."""
        return cast("Task", self.records[0]["task"])

    @property
    def metric(self) -> str:
        """The metric that selected the epochs."""
        return str(self.records[0]["metric"])

    @property
    def test(self) -> dict[str, list[float]]:
        """Every metric of the test nodes, the selecting one first; one value per run."""
        names = sorted(self.records[0]["test"], key=lambda name: name != self.metric)
        return {name: [record["test"][name] for record in self.records] for name in names}

    @property
    def test_accuracy(self) -> list[float]:
        """The accuracy of each run on the test nodes; only for classes."""
        return self.test["accuracy"]

    @property
    def validation_score(self) -> list[float]:
        """The metric that selects, on the validation nodes, negated if smaller is better."""
        return [record["validation_score"] for record in self.records]

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation of the metric that selects, on the test nodes."""
        return summarise(self.test[self.metric])

    @property
    def seconds(self) -> float:
        """Total time of all runs."""
        return fsum(record["seconds"] for record in self.records)


class Experiment:
    """Models to be trained on the same splits of the same graph.

    The constructor loads the data and checks every configuration, so that mistakes are found before
    training starts.

    Args:
        configs: The models. They must agree on the dataset and the splits, so that their results
            can be paired.
        data: The graph: ``x``, ``edge_index``, ``y``, roles or PyG's masks, and optionally
            ``edge_weight``. By default the dataset that the configurations name is loaded.
        preprocess: The names of features and classes, saved with the models.
        folders: One folder per configuration, relative to ``out``; by default named after the
            model, its depth, and the settings in which configurations of one model differ.
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
        first, self.preprocess = configs[0], preprocess
        self.data = load_dataset(first.dataset) if data is None else canonical_graph(data)
        relations = relations_of(self.data)
        linked = has_edges(self.data)
        replaced = {} if data is None else {"dataset": self.data.name}
        if task_of_outputs(self.data.num_classes) == "regression" and first.metric is None:
            replaced["metric"] = DEFAULT_METRICS["regression"]
        for config in configs:
            if config.hops and not linked:
                raise BadInput(
                    f"{self.data.name}: hops is {config.hops}, but there are no edges; leave out "
                    "--hops"
                )
        no_hops = {} if linked else {"hops": 0}
        self.configs = tuple(
            config.model_copy(update=replaced | (no_hops if config.takes_hops else {}))
            for config in configs
        )
        self.splits = make_splits(
            self.data,
            first.splits,
            num_splits=first.num_splits,
            train=first.train,
            seed=first.seed,
        )
        models = [_check_model(config, self.data) for config in self.configs]
        check_columns(self.configs, models, preprocess or Preprocess.numbered(0), relations)

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
            save_models: Save the model of each run beside its record. A model chosen from earlier
                runs in ``out`` is removed.
            device: ``cpu``, ``cuda`` (all runs in this process) or ``auto``.
            training: How to train the models again; saved with them.
            on_epochs: Called with the number of epochs done and the number of all epochs.
        """
        with nullcontext() if out is None else holding(out):
            trainer = self.trainer(
                device=device, threads=threads, save_models=save_models, training=training
            )
            runs = self.runs(out)
            if out is not None:
                self._refuse_other_runs(out, runs)
                if save_models:
                    clear_model(out)
            count = count_epochs(runs, on_epochs)
            records = train_all(trainer, runs, workers=workers, on_epochs=count)
            size = len(self.splits)
            return [
                RepeatedRuns(config, tuple(records[at * size :][:size]), self.test_to_train)
                for at, config in enumerate(self.configs)
            ]

    def _refuse_other_runs(self, out: Path, runs: Sequence[Run]) -> None:
        """Refuse a folder with runs on splits that are not part of this experiment."""
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
        """Test nodes per training node for stratified splits, which share nodes; else 0."""
        split = self.splits[0]
        stratified = self.configs[0].splits == "stratified"
        return len(split.test) / len(split.train) if stratified else 0.0

    def trainer(
        self, kind: type[Trainer] = Trainer, *, device: str = "cpu", **options: Any
    ) -> Trainer:
        """Return a trainer for the graph and the splits; ``options`` go to its constructor."""
        trainer = kind(self.data, self.splits, device=device, preprocess=self.preprocess, **options)
        for config in self.configs:
            check_precision(config.precision, trainer.device)
        return trainer

    def runs(self, out: Path | None) -> list[Run]:
        """Return a run for every configuration and split, each with its own folder in ``out``."""
        return [
            Run(config, split, out and out / folder / f"split-{split:02d}")
            for config, folder in zip(self.configs, self.folders, strict=True)
            for split in range(len(self.splits))
        ]


def _folder_names(configs: Sequence[RunConfig]) -> list[str]:
    """Name a folder per configuration, with the settings in which those of one model differ."""
    names: list[str] = []
    for config in configs:
        kind = config.model, config.num_layers
        name = f"{config.model}-{config.num_layers}-layer"
        same_kind = [other for other in configs if (other.model, other.num_layers) == kind]
        for setting in RunConfig.model_fields:
            if len({getattr(other, setting) for other in same_kind}) > 1:
                value = getattr(config, setting)
                words = "-".join(map(str, value)) if isinstance(value, tuple) else value
                name += f"-{setting.replace('_', '-')}-{words}"
        if name in names:
            raise BadInput(f"{config.model} is given twice with the same settings: leave one out")
        names.append(name)
    return names


def _check_shared_settings(configs: Sequence[RunConfig]) -> None:
    """Refuse an empty list of models, and models whose splits or seeds differ."""
    if not configs:
        raise BadInput("there is nothing to train: give at least one model")
    for config in configs:
        for name in (*SHARED_SETTINGS, "metric"):
            ours, theirs = getattr(configs[0], name), getattr(config, name)
            if ours != theirs:
                raise BadInput(
                    f"models must share {name} to be compared: {ours!r} and {theirs!r} were given"
                )


def _check_model(config: RunConfig, data: Data) -> NodeClassifier:
    """Build the model; refuse one that does not fit the graph or cannot be built."""
    if config.metric is not None:
        check_metric(config.metric, task_of_outputs(data.num_classes))
    training_weights(config.class_weight, None, data.y[is_labelled(data.y)], data.num_classes)
    relations = relations_of(data)
    shared = [each.name for each in relations if each.things is not None]
    if shared and not config.takes_hops and config.model != "mlp":
        raise BadInput(
            f"{config.model} reads edges between nodes, and {shared[0]!r} lists none (--through): "
            "leave it out, or train cross-hops"
        )
    names = [each.name for each in relations]
    if config.without is not None and config.without not in names:
        raise unknown_name("relation", config.without, names)
    arguments = config.model_settings(shape_of(relations))
    try:
        return build_model(config.model, data.x.size(1), data.num_classes, **arguments)
    except (RuntimeError, TypeError) as error:
        raise BadInput(
            f"model {config.model!r} cannot be made ({str(error).splitlines()[0]}); "
            "lower hidden_channels, num_layers or order"
        ) from None
