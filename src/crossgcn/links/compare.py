"""Compare encoders as link predictors, on the same edges and negative pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.graph import canonical_graph
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import check_comparable, refusing_model
from crossgcn.experiments.statistics import PairedDifference, paired_difference
from crossgcn.graph.prepared import choose_device
from crossgcn.links.edge_splits import make_edge_splits, training_negatives
from crossgcn.links.settings import LinkSettings, check_encoder
from crossgcn.links.training import LinkPredictor, LinkTrainer, metric_names
from crossgcn.training.config import RunConfig
from crossgcn.training.device import check_precision
from crossgcn.training.pool import count_epochs, train_many
from crossgcn.training.trainer import Record, Run

_SHARED = ("dataset", "seed", "epochs", "learning_rate", "weight_decay", "precision")
"""Settings that encoders must have in common for paired results."""


@dataclass(frozen=True)
class LinkResult:
    """The results of one encoder; ``records`` has one entry per split."""

    name: str
    config: RunConfig
    records: tuple[Record, ...]

    def values(self, metric: str) -> list[float]:
        """Return a metric on the test pairs, one number per split."""
        return [record["test"][metric] for record in self.records]

    @property
    def seconds(self) -> float:
        """Seconds of all runs, added up."""
        return fsum(record["seconds"] for record in self.records)


@dataclass(frozen=True)
class LinkComparison:
    """The results of all encoders; the first is the baseline.

    ``test_to_train``, test edges per training edge, corrects intervals for the overlap of the
    splits, which are drawn from the same edges.
    """

    results: tuple[LinkResult, ...]
    metrics: tuple[str, ...]
    test_to_train: float

    def difference(self, result: LinkResult, metric: str) -> PairedDifference:
        """Return the difference to the baseline, paired over the splits."""
        return paired_difference(
            result.values(metric),
            self.results[0].values(metric),
            test_to_train=self.test_to_train,
        )


class LinkExperiment:
    """Trains encoders as link predictors on the same splits of the same edges.

    The constructor loads the data and checks all settings, before any work starts.

    Args:
        configs: The encoders by name, the baseline first; they share the dataset and the
            settings of training. Their splits of nodes are ignored.
        data: The graph, if it is not loaded by name.
        **splits: As for :func:`~crossgcn.links.edge_splits.make_edge_splits`, such as
            ``num_splits``.
    """

    def __init__(
        self,
        configs: Mapping[str, RunConfig],
        settings: LinkSettings | None = None,
        data: Data | None = None,
        **splits: Any,
    ) -> None:
        check_comparable(list(configs.values()), "encoder", _SHARED)
        for config in configs.values():
            check_encoder(config.model)
        self.settings = settings or LinkSettings()
        first = next(iter(configs.values()))
        self.data = load_dataset(first.dataset) if data is None else canonical_graph(data)
        self.configs = {
            name: config if data is None else config.model_copy(update={"dataset": self.data.name})
            for name, config in configs.items()
        }
        self.splits = make_edge_splits(self.data, seed=first.seed, **splits)
        self._check_folds()
        num_negatives = self.splits[0].test_negatives.size(1)
        self.settings = self.settings.fit_ranks(num_negatives, self.data.name)
        for config in configs.values():
            with refusing_model(config), torch.device("meta"):  # which allocates no memory
                own = config.model_settings()
                LinkPredictor(config.model, self.data.x.size(1), self.settings, **own)

    def run(
        self,
        *,
        out: Path | None = None,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
        on_epochs: Callable[[int, int], None] | None = None,
    ) -> LinkComparison:
        """Train every encoder on every split; see :meth:`crossgcn.Experiment.run`."""
        place = choose_device(device)
        for config in self.configs.values():
            check_precision(config.precision, place)
        # Split by split, so that the runs finished before an interruption can be compared.
        runs = [
            Run(config, split, folder=None if out is None else out / name / f"split-{split:02d}")
            for split in range(len(self.splits))
            for name, config in self.configs.items()
        ]
        count = count_epochs(runs, on_epochs)
        trainer = LinkTrainer(self.data, self.splits, self.settings, threads=threads, device=place)
        records = train_many(trainer, runs, workers=workers, on_epochs=count)
        split = self.splits[0]
        return LinkComparison(
            tuple(
                LinkResult(name, config, tuple(records[position :: len(self.configs)]))
                for position, (name, config) in enumerate(self.configs.items())
            ),
            metric_names(self.settings.ranks),
            split.test.size(1) / split.train.size(1),
        )

    def _check_folds(self) -> None:
        """Check that there are enough edges and negative pairs for the folds."""
        split, name = self.splits[0], self.data.name
        trained, folds = split.train.size(1), self.settings.folds
        if trained < folds:
            raise BadInput(
                f"{name}: {trained} training edges cannot be divided into {folds} folds; "
                "ask for fewer folds, or give a graph with more edges"
            )
        left, needed = training_negatives(split, self.data.num_nodes).count, -(-trained // folds)
        if left < needed:
            raise BadInput(
                f"{name}: {left} negative pairs are left to train on, and each step takes "
                f"{needed}; ask for more folds or fewer negatives"
            )
