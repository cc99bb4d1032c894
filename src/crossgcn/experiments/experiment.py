"""The paper's protocol: the same model over many training sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import Any

from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.graph import canonical_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.splits import make_splits
from crossgcn.data.stored.open import is_opened, open_dataset, open_graph
from crossgcn.errors import BadInput
from crossgcn.experiments.statistics import Summary, summarise
from crossgcn.graph.prepared import choose_device
from crossgcn.models.catalogue import build_model, get_preset
from crossgcn.training.batches.train import check_batches
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_precision
from crossgcn.training.inputs import num_features_of
from crossgcn.training.pool import train_many
from crossgcn.training.trainer import SHARED_SETTINGS, Run, Trainer


@dataclass(frozen=True)
class RepeatedRuns:
    """All runs of one configuration.

    Attributes:
        config: The configuration.
        records: One per run, split by split and repeat by repeat within.
        test_to_train: Test nodes for each training node where splits share their nodes, for
            :func:`~crossgcn.paired_difference`; else 0.
    """

    config: RunConfig
    records: tuple[dict[str, Any], ...]
    test_to_train: float = 0.0

    @property
    def num_splits(self) -> int:
        """How many training sets there are; with ``train="all"`` they are one and the same."""
        return len({record["split"]["train_sha256"] for record in self.records})

    @property
    def test_accuracy(self) -> list[float]:
        """One fraction per split, averaged over its repeats; on a single split, one per run."""
        return self._values("test_accuracy")

    @property
    def validation_accuracy(self) -> list[float]:
        """Likewise at the selected epochs."""
        return self._values("validation_accuracy")

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation of the test accuracy."""
        return summarise(self.test_accuracy)

    @property
    def seconds(self) -> float:
        """Time spent in these runs, added up."""
        return fsum(record["seconds"] for record in self.records)

    def _values(self, key: str) -> list[float]:
        if self.num_splits == 1:
            return [record[key] for record in self.records]
        splits = sorted({record["split"]["index"] for record in self.records})
        return [
            fmean(record[key] for record in self.records if record["split"]["index"] == split)
            for split in splits
        ]


class Experiment:
    """Models to be trained on the same splits of the same graph.

    Making one loads the data and checks everything that can be checked, so
    that a mistake is found before the work starts.

    Args:
        configs: The models; they must agree on the dataset and the splits, so
            that their results can be paired.
        data: The graph, when it is not one to be loaded by name: ``x``,
            ``edge_index``, ``y``, roles or PyG's masks, and ``edge_weight`` if any.
        preprocess: What features and classes mean, to be kept with saved models; of a graph
            folder, what it says itself when left out.
    """

    def __init__(
        self,
        configs: Sequence[RunConfig],
        data: Data | None = None,
        preprocess: Preprocess | None = None,
    ) -> None:
        _check_comparable(configs)
        first = configs[0]
        self.data = _load(configs) if data is None else canonical_graph(data)
        if data is None and preprocess is None and is_opened(first.dataset):
            preprocess = (self.data.get("stored") or open_graph(first.dataset)).preprocess
        self.preprocess = preprocess
        if data is not None:
            configs = [config.model_copy(update={"dataset": self.data.name}) for config in configs]
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
        read_test: bool = True,
        on_epochs: Callable[[int, int], None] | None = None,
    ) -> list[RepeatedRuns]:
        """Train every model over its splits and seeds.

        Args:
            out: Where records are written; a run found finished there is not repeated.
            workers: Processes that share the work. With more than one, a script
                must guard its entry with ``if __name__ == "__main__"``.
            threads: Threads of each run.
            save_models: Keep the weights of each run beside its record.
            device: ``cpu``; ``cuda``, where the runs of each model are trained together
                in this process; or ``auto``.
            read_test: Look at the test nodes after each training; without, records have no
                test accuracy.
            on_epochs: Called now and then with epochs done and epochs in all.
        """
        runs = [
            run
            for config in self.configs
            for run in self.runs_of(config, out / run_folder_name(config) if out else None)
        ]
        total, done = sum(run.config.epochs for run in runs), 0

        def count(epochs: int) -> None:
            nonlocal done
            done += epochs
            if on_epochs is not None:
                on_epochs(done, total)

        workload = self.workload(
            save_models=save_models, threads=threads, device=device, read_test=read_test
        )
        records = iter(train_many(workload, runs, workers=workers, on_epochs=count))
        per_model = len(runs) // len(self.configs)
        return [
            RepeatedRuns(config, tuple(islice(records, per_model)), self.test_to_train)
            for config in self.configs
        ]

    @property
    def test_to_train(self) -> float:
        """Test nodes for each training node, if splits are dealt out from the same nodes."""
        split = self.splits[0]
        stratified = self.configs[0].splits == "stratified"
        return len(split.test) / len(split.train) if stratified else 0.0

    def workload(
        self,
        *,
        save_models: bool = False,
        threads: int = 1,
        device: str = "cpu",
        read_test: bool = True,
    ) -> Trainer:
        """The graph and the splits, as runs need them."""
        place = choose_device(device)
        for config in self.configs:
            check_precision(config.precision, place)
        return Trainer(
            self.data,
            self.splits,
            save_models=save_models,
            threads=threads,
            device=place,
            preprocess=self.preprocess,
            read_test=read_test,
        )

    def runs_of(self, config: RunConfig, folder: Path | None) -> Iterator[Run]:
        """Every run of a configuration, each with its own folder in the one given."""
        for split in range(len(self.splits)):
            for repeat in range(config.repeats):
                name = f"split-{split:02d}" + (f"-repeat-{repeat}" if repeat else "")
                yield Run(config, split, repeat, folder / name if folder else None)


def run_folder_name(config: RunConfig) -> str:
    """What the folder of a configuration's runs is called."""
    return f"{config.model}-{config.num_layers}-layer"


def _load(configs: Sequence[RunConfig]) -> Data:
    """The graph; one in a folder is only opened, where every model takes its features."""
    dataset = configs[0].dataset
    by_features = all(get_preset(config.model).inputs == "features" for config in configs)
    return open_dataset(dataset) if by_features and is_opened(dataset) else load_dataset(dataset)


def _check_model(config: RunConfig, data: Data) -> None:
    check_batches(config)
    try:
        in_channels = num_features_of(data)
        build_model(config.model, in_channels, data.num_classes, **config.model_settings())
    except (RuntimeError, TypeError) as error:
        raise BadInput(
            f"model {config.model!r} cannot be made ({str(error).splitlines()[0]}); "
            "lower hidden_channels, num_layers or order"
        ) from None


def _check_comparable(configs: Sequence[RunConfig]) -> None:
    if not configs:
        raise BadInput("there is nothing to train: give at least one configuration")
    first = configs[0]
    for config in configs[1:]:
        for name in SHARED_SETTINGS:
            if getattr(config, name) != getattr(first, name):
                raise BadInput(
                    f"models compared must share {name}: {getattr(first, name)!r} "
                    f"and {getattr(config, name)!r} were given"
                )
