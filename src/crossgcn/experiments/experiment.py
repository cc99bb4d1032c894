"""The paper's protocol: models trained on the same splits, several seeds each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.files import holding
from crossgcn.data.graph import canonical_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import clear_model, metrics_of_test, validation_score
from crossgcn.experiments.statistics import Summary, summarise
from crossgcn.graph.hops import HopColumns
from crossgcn.models.catalogue import build_model
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_precision, choose_device
from crossgcn.training.inputs import takes_hops
from crossgcn.training.metrics import (
    DEFAULT_METRICS,
    Task,
    check_metric,
    task_of_outputs,
)
from crossgcn.training.pool import count_epochs, train_many
from crossgcn.training.records import RECORD, write_record
from crossgcn.training.trainer import SHARED_SETTINGS, Run, Trainer

MOST_HOPS = 10
"""How far neighbourhoods may reach."""


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
    def test_accuracy(self) -> list[float]:
        """One fraction per run; only of runs that predict classes."""
        return [record["test_accuracy"] for record in self.records]

    @property
    def validation_accuracy(self) -> list[float]:
        """Validation accuracy at the selected epochs, one fraction per run."""
        return [record["validation_accuracy"] for record in self.records]

    @property
    def task(self) -> Task:
        """What is predicted: two classes, several classes, or a number."""
        task: Task = self.records[0].get("task", "multiclass")
        return task

    @property
    def metric(self) -> str:
        """The metric that selected the epochs."""
        metric: str = self.records[0].get("metric", "accuracy")
        return metric

    @property
    def test(self) -> dict[str, list[float]]:
        """Every metric of the test nodes, the selecting one first; one value per run."""
        measured = [metrics_of_test(record) for record in self.records]
        names = sorted(measured[0], key=lambda name: name != self.metric)
        return {name: [each[name] for each in measured] for name in names}

    @property
    def validation_score(self) -> list[float]:
        """The selecting metric of the validation nodes, negated if it should shrink."""
        return [validation_score(record) for record in self.records]

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
        columns: Columns of neighbourhoods, from :func:`~crossgcn.graph.hop_file.read_hop_file`
            like ``data``.
        folders: One folder per configuration, relative to ``out``; by default named after
            the model, its depth, and the settings in which configurations of one model differ.
    """

    def __init__(
        self,
        configs: Sequence[RunConfig],
        data: Data | None = None,
        preprocess: Preprocess | None = None,
        *,
        columns: HopColumns | None = None,
        folders: Sequence[str] | None = None,
    ) -> None:
        check_comparable(configs, "model", SHARED_SETTINGS)
        self.folders = _folder_names(configs) if folders is None else list(folders)
        first = configs[0]
        if data is None:
            self.data = load_dataset(first.dataset)
        else:
            self.data = canonical_graph(data) if columns is None else data
        self.preprocess, self.columns = preprocess, columns
        if data is not None:
            configs = [config.model_copy(update={"dataset": self.data.name}) for config in configs]
        if task_of_outputs(self.data.num_classes) == "regression":
            configs = [
                config.model_copy(update={"metric": config.metric or DEFAULT_METRICS["regression"]})
                for config in configs
            ]
        self.configs = tuple(configs)
        self.splits = make_splits(
            self.data,
            first.splits,
            num_splits=first.num_splits,
            train=first.train,
            seed=first.seed,
        )
        for config in configs:
            _check_model(config, self.data)

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
        """Train every model on every split and seed.

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
        lock = holding(out) if out is not None else nullcontext()
        with lock:
            options: dict[str, Any] = {"save_models": save_models, "threads": threads}
            trainer = self.trainer(device=device, training=training, **options)
            if out is not None:
                self._refuse_other_runs(out)
            if out is not None and save_models:
                clear_model(out)
            folders = [out / name if out else None for name in self.folders]
            tried = [_variants(*pair) for pair in zip(self.configs, folders, strict=True)]
            runs = [run for variant in chain(*tried) for run in self.runs_of(*variant)]
            count = count_epochs(runs, on_epochs)
            records = iter(train_many(trainer, runs, workers=workers, on_epochs=count))
            results, size = [], len(self.splits)
            for config, folder, variants in zip(self.configs, folders, tried, strict=True):
                of_variants = [list(islice(records, size)) for _ in variants]
                per_run = list(zip(*of_variants, strict=True))
                chosen = [of_run[0] for of_run in per_run]
                if len(variants) > 1:
                    pairs = zip(per_run, self.runs_of(config, folder), strict=True)
                    chosen = [_keep_best(of_run, run.folder) for of_run, run in pairs]
                results.append(RepeatedRuns(config, tuple(chosen), self.test_to_train))
            return results

    def _refuse_other_runs(self, out: Path) -> None:
        """Refuse a folder with runs of splits that this experiment does not have."""
        for config, name in zip(self.configs, self.folders, strict=True):
            planned = {run.folder for run in self.runs_of(config, out / name)}
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

    def trainer(self, *, device: str = "cpu", **options: Any) -> Trainer:
        """Return a trainer for the graph and the splits; ``options`` are those of its class."""
        place = choose_device(device)
        for config in self.configs:
            check_precision(config.precision, place)
        return Trainer(
            self.data,
            self.splits,
            device=place,
            preprocess=self.preprocess,
            columns=self.columns,
            **options,
        )

    def runs_of(self, config: RunConfig, folder: Path | None) -> Iterator[Run]:
        """Yield the runs of a configuration, each with its own subfolder of ``folder``."""
        for split in range(len(self.splits)):
            yield Run(config, split, folder / f"split-{split:02d}" if folder else None)


def _variants(config: RunConfig, folder: Path | None) -> list[tuple[RunConfig, Path | None]]:
    """Return the configurations to train for one, and their folders: two if labels are tried."""
    if config.label_features != "auto":
        return [(config, folder)]
    return [
        (
            config.model_copy(update={"label_features": shown}),
            folder and folder / f"label-features-{str(shown).lower()}",
        )
        for shown in (True, False)
    ]


def _keep_best(tried: Sequence[dict[str, Any]], folder: Path | None) -> dict[str, Any]:
    """Return the record with the best validation score, with labels if equal; keep its run.

    Args:
        tried: The records of a run with the labels of neighbours and without.
    """
    scores = [validation_score(record) for record in tried]
    shown = scores[0] >= scores[1]
    record = tried[0 if shown else 1] | {
        "label_features": {"chosen": shown, "with": scores[0], "without": scores[1]}
    }
    if folder is not None:
        name = f"label-features-{str(shown).lower()}"
        shutil.copytree(folder.parent / name / folder.name, folder, dirs_exist_ok=True)
        write_record(folder, record)
    return record


def run_folder_name(config: RunConfig) -> str:
    """Return the folder name for the runs of a configuration, such as ``gcn-2-layer``."""
    return f"{config.model}-{config.num_layers}-layer"


def _folder_names(configs: Sequence[RunConfig]) -> list[str]:
    """Name the folder of each configuration; add the settings in which equal names differ."""
    names = []
    for config in configs:
        name = run_folder_name(config)
        alike = [other for other in configs if run_folder_name(other) == name]
        for setting in RunConfig.model_fields:
            if len({getattr(other, setting) for other in alike}) > 1:
                value = getattr(config, setting)
                words = "-".join(map(str, value)) if isinstance(value, tuple) else value
                name += f"-{setting.replace('_', '-')}-{words}"
        if name in names:
            raise BadInput(f"{config.model} is given twice with the same settings: leave one out")
        names.append(name)
    return names


def _check_model(config: RunConfig, data: Data) -> None:
    config, _ = _variants(config, None)[0]
    if config.metric is not None:
        check_metric(config.metric, task_of_outputs(data.num_classes))
    if takes_hops(config) and config.hops is not None:
        _check_hops(config.hops, data)
    with refusing_model(config):
        build_model(config.model, data.x.size(1), data.num_classes, **config.model_settings())


@contextmanager
def refusing_model(config: RunConfig) -> Iterator[None]:
    """Refuse a configuration whose model cannot be built within the block."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        raise BadInput(
            f"model {config.model!r} cannot be made ({str(error).splitlines()[0]}); "
            "lower hidden_channels, num_layers or order"
        ) from None


def _check_hops(hops: int, data: Data) -> None:
    """Refuse hops that reach no node which fewer hops do not reach."""
    if hops > MOST_HOPS:
        raise BadInput(
            f"hops is {hops}, but neighbourhoods reach at most {MOST_HOPS} hops; give --hops "
            f"{MOST_HOPS} or fewer"
        )
    ends = data.edge_index[:, data.edge_index[0] != data.edge_index[1]].numpy()
    if not ends.size:
        raise BadInput(f"{data.name}: hops is {hops}, but there are no edges; leave out --hops")
    size = (data.num_nodes, data.num_nodes)
    edges = sp.csr_array((np.ones(ends.shape[1], np.float32), tuple(ends)), shape=size)
    edges = edges + edges.T
    # From the node of most neighbours in each component, all others are within its radius, and
    # no two nodes are farther apart than twice that.
    from scipy.sparse.csgraph import connected_components  # imports scipy.linalg

    _, component = connected_components(edges)
    by_degree = np.argsort(np.diff(edges.indptr), kind="stable")
    hubs = np.empty(component.max() + 1, np.int64)
    hubs[component[by_degree]] = by_degree
    reached = np.zeros(data.num_nodes, bool)
    reached[hubs] = True
    radius = 0
    while not reached.all():
        radius += 1
        if 2 * radius >= hops:
            return
        reached |= edges @ reached.astype(np.float32) > 0
    raise BadInput(
        f"{data.name}: hops is {hops}, but no node is farther than {2 * radius} hops from any "
        f"other that it can reach; give --hops {2 * radius} or fewer"
    )


def check_comparable(configs: Sequence[RunConfig], what: str, shared: Sequence[str]) -> None:
    """Refuse to train nothing, and configurations that differ in a setting they must share."""
    if not configs:
        raise BadInput(f"there is nothing to train: give at least one {what}")
    for config in configs:
        for name in shared:
            ours, theirs = getattr(configs[0], name), getattr(config, name)
            if ours != theirs:
                raise BadInput(
                    f"{what}s compared must share {name}: {ours!r} and {theirs!r} were given"
                )
