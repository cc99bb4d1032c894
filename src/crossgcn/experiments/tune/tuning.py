"""Choose settings on the validation nodes, for a model and its twin alike; then test once."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from optuna.distributions import distribution_to_json
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.graph import canonical_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.splits import NUM_STRATIFIED_SPLITS, VALIDATION_SHARE, Split, make_splits, strata
from crossgcn.data.stored.open import is_opened, open_graph
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import Experiment, RepeatedRuns, run_folder_name
from crossgcn.experiments.run_folder import choose_model, validation_score
from crossgcn.experiments.statistics import PairedDifference, paired_difference
from crossgcn.experiments.tune.space import (
    Search,
    check_models,
    check_space,
    default_values,
    make_config,
)
from crossgcn.experiments.tune.trials import Trial, TrialLog, open_journal
from crossgcn.training.config import RunConfig
from crossgcn.training.pool import train_many
from crossgcn.training.records import describe_dataset, describe_split
from crossgcn.training.trainer import Trainer

_SHARE_OF_REST = VALIDATION_SHARE / (1 - VALIDATION_SHARE)


def draw_sealed_roles(
    data: Data, *, num_splits: int, train: int | Literal["all"] | None, seed: int
) -> Tensor:
    """Draw stratified splits that share their test nodes.

    Ordinary stratified splits redraw all nodes: a test node of one split validates in another,
    and settings chosen by the mean over splits have seen the labels of every node. Here the
    test nodes are those of the first stratified split, and only the other nodes are redrawn.
    A quarter of each class, or of all nodes with a number, validates, and the rest, or ``train``
    nodes per class, train.
    Return roles ``[num_splits, nodes]``: 1 trains, 2 validates, 3 tests.
    """
    (first,) = make_splits(data, "stratified", num_splits=1, train=train, seed=seed)
    roles = torch.zeros(num_splits, len(data.y), dtype=torch.int8)
    roles[:, first.test] = 3
    labels = strata(data.y)
    for index, row in enumerate(roles):
        generator = np.random.default_rng([seed, index, len(data.y)])
        for label in range(data.num_classes):
            nodes = torch.nonzero((labels == label) & (row != 3)).flatten()
            nodes = nodes[torch.from_numpy(generator.permutation(len(nodes)))]
            validation = max(1, round(_SHARE_OF_REST * len(nodes)))
            kept = validation + train if isinstance(train, int) else None
            row[nodes[validation:kept]] = 1
            row[nodes[:validation]] = 2
    return roles


def check_sealed(splits: Sequence[Split], name: str) -> None:
    """Refuse splits of the data ``name`` in which a test node of one trains in another."""
    tested = torch.cat([split.test for split in splits])
    for index, split in enumerate(splits):
        for role, nodes in (("trains", split.train), ("validates", split.validation)):
            seen = nodes[torch.isin(nodes, tested)]
            if len(seen):
                raise BadInput(
                    f"{name}: node {int(seen[0])} {role} in split {index} and tests in another, so "
                    "that settings chosen over all splits would have seen its label; use --splits "
                    "stratified, which keeps test nodes apart here, or --num-splits 1"
                )


_TRIALS, _CHOSEN = "trials", "chosen"


@dataclass(frozen=True)
class TunedModel:
    """The result of one model's search.

    Attributes:
        trials: All trials, including failed ones.
        chosen: The first trial with the best mean validation score.
        runs: The runs with the chosen settings over all splits, test nodes read.
        folder: The saved model of the run with the best validation score.
        test_reads: How many chosen trials were tested in the output folder; more than 1 if a
            finished search was continued and chose again.
    """

    search: Search
    trials: tuple[Trial, ...]
    chosen: Trial
    config: RunConfig
    runs: RepeatedRuns
    folder: Path
    test_reads: int

    @property
    def seconds(self) -> float:
        """Total time of all runs."""
        return fsum(trial.seconds for trial in self.trials) + self.runs.seconds


@dataclass(frozen=True)
class TuningResult:
    """A tuned model and its twin, if it was searched too."""

    ours: TunedModel
    twin: TunedModel | None

    @property
    def metric(self) -> str:
        """The metric that selected epochs and settings."""
        return self.ours.runs.metric

    @property
    def difference(self) -> PairedDifference | None:
        """Difference to the twin in the selecting metric on test nodes, paired over splits."""
        if self.twin is None:
            return None
        return paired_difference(
            self.ours.runs.test[self.metric],
            self.twin.runs.test[self.metric],
            test_to_train=self.ours.runs.test_to_train,
        )


class Tuning:
    """The search of a model, and that of its twin, over the same splits of the same graph.

    No test node is read during the search. ``stratified`` splits, in which every node tests
    sometimes, are replaced by splits that share their test nodes
    (:mod:`~crossgcn.experiments.tune.tuning`).

    Args:
        searches: The model, and optionally its twin.
        search_splits: Number of splits per trial, the first ones; defaults to all.
        first_layer_only: A single ``order`` is the order of the first layer alone.
        data: The graph, unless it is to be loaded by name.
        preprocess: The meaning of features and classes, saved with the models.
    """

    def __init__(
        self,
        *searches: Search,
        search_splits: int | None = None,
        first_layer_only: bool = False,
        data: Data | None = None,
        ids: tuple[str, ...] | None = None,
        preprocess: Preprocess | None = None,
    ) -> None:
        self.searches = searches
        self.first_layer_only = first_layer_only
        first = searches[0].base
        if data is None and is_opened(first.dataset):
            stored = open_graph(first.dataset)
            preprocess = stored.preprocess if preprocess is None else preprocess
            ids = None if stored.ids is None else tuple(stored.ids)
        self.ids = ids
        for search in searches:
            check_space(search.space, search.base)
            check_models(search, first_layer_only=first_layer_only)
        data = load_dataset(first.dataset) if data is None else canonical_graph(data)
        self._protocol: dict[str, Any] = {"dataset": data.name, "test_curve": False}
        if first.splits == "stratified":
            count = first.num_splits or NUM_STRATIFIED_SPLITS
            data.roles = draw_sealed_roles(
                data, num_splits=count, train=first.train, seed=first.seed
            )
            self._protocol |= {"splits": "public", "train": None}
        configs = [self._config(search, {}) for search in searches]
        self.experiment = Experiment(configs, data, preprocess)
        check_sealed(self.experiment.splits, data.name)
        total = len(self.experiment.splits)
        self.search_splits = total if search_splits is None else search_splits
        if not 1 <= self.search_splits <= total:
            raise BadInput(
                f"--search-splits is {search_splits}: give 1 to {total}, the number of splits"
            )

    def run(
        self,
        *,
        out: Path,
        trials: int = 30,
        timeout: float | None = None,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
        on_epochs: Callable[[int, int], None] | None = None,
        on_trial: Callable[[str, Trial], None] | None = None,
    ) -> TuningResult:
        """Search, choose, train the chosen settings over all splits, and test them.

        The other arguments are those of :meth:`crossgcn.Experiment.run`.

        The models take turns, so they have had equally many trials whenever the search ends.
        A trial fails if one of its runs diverges, and the search goes on.

        Args:
            out: Output folder; finished trials found there are not repeated.
            trials: Number of trials per model.
            timeout: Seconds after which no further trial starts, once every model had one.
            on_epochs: Called with the approximate epochs done and the epochs in total.
            on_trial: Called with the model's name and each trial, including those found.

        Raises:
            WorkFailed: If a worker died, memory is short or every trial failed. Finished
                trials are kept, and the same call continues the search.
        """
        started = time.monotonic()
        if trials < 1:
            raise BadInput(f"--trials must be at least 1; got {trials}")
        epochs = self.search_splits * self.searches[0].base.epochs
        progress = _Progress((trials + 1) * len(self.searches), epochs, on_epochs)
        trainer = self.experiment.trainer(
            threads=threads, device=device, read_test=False, folder=out
        )
        journal = open_journal(out / _TRIALS)
        sides = [
            (search, TrialLog(out / _TRIALS, journal, search.name, search.space, identity))
            for search in self.searches
            for identity in [self._identity(search, trainer)]
        ]
        made: list[list[Trial]] = [[] for _ in sides]
        for number in range(trials):
            # A twin whose settings are all fixed needs a single trial.
            turn = [
                (search, log, own)
                for (search, log), own in zip(sides, made, strict=True)
                if number == 0 or not all(entry.single() for entry in log.space.values())
            ]
            late = timeout is not None and time.monotonic() - started > timeout
            if number and late and any(len(log.trials) <= number for _, log, _ in turn):
                break
            for search, log, own in turn:
                if len(log.trials) <= number:
                    log.add(self._try(search, log, trainer, workers, progress))
                shutil.rmtree(log.runs_of(number), ignore_errors=True)
                own.append(log.trials[number])
                progress.finish()
                if on_trial is not None:
                    on_trial(search.name, log.trials[number])
        work = {"workers": workers, "threads": threads, "device": device}
        chosen = [_choose(search, own) for search, own in zip(self.searches, made, strict=True)]
        tuned = [
            self._test(search, tuple(own), best, out, work, progress)
            for search, own, best in zip(self.searches, made, chosen, strict=True)
        ]
        return TuningResult(tuned[0], tuned[1] if len(tuned) > 1 else None)

    def _try(
        self, search: Search, log: TrialLog, trainer: Trainer, workers: int, progress: _Progress
    ) -> Trial:
        number = len(log.trials)
        values = log.propose(search.base.seed, default_values(search.base, search.space))
        config = self._config(search, {**search.in_trials, **values})
        runs = [
            run
            for run in self.experiment.runs_of(config, log.runs_of(number))
            if run.split < self.search_splits
        ]
        total = len(runs) * config.epochs
        diverged: dict[int, WorkFailed] = {}
        # Any other failure says nothing about the settings: it ends the search, to be resumed.
        records = train_many(
            trainer,
            runs,
            workers=workers,
            on_epochs=lambda epochs: progress.show(progress.share + epochs / total),
            on_failure=diverged.__setitem__,
        )
        if diverged:
            return Trial(number, values, failure=str(diverged[min(diverged)]))
        scores = tuple(validation_score(record) for record in records)
        return Trial(number, values, scores, fsum(record["seconds"] for record in records))

    def _test(
        self,
        search: Search,
        trials: tuple[Trial, ...],
        chosen: Trial,
        out: Path,
        work: Mapping[str, Any],
        progress: _Progress,
    ) -> TunedModel:
        config = self._config(search, chosen.values)
        folder = out / _CHOSEN / f"{search.name}-trial-{chosen.number:03d}"
        experiment = Experiment([config], self.experiment.data, self.experiment.preprocess)
        (runs,) = experiment.run(out=folder, save_models=True, on_epochs=progress.show, **work)
        progress.finish()
        choose_model(folder, run_folder_name(config), experiment.data, experiment.splits, self.ids)
        if search.base.splits == "stratified":
            split = experiment.splits[0]
            runs = replace(runs, test_to_train=len(split.test) / len(split.train))
        as_given = make_config(search.base, chosen.values, first_layer_only=self.first_layer_only)
        reads = len(list((out / _CHOSEN).glob(f"{search.name}-trial-*")))
        return TunedModel(search, trials, chosen, as_given, runs, folder, reads)

    def _config(self, search: Search, values: Mapping[str, Any]) -> RunConfig:
        config = make_config(search.base, values, first_layer_only=self.first_layer_only)
        return config.model_copy(update=self._protocol)

    def _identity(self, search: Search, trainer: Trainer) -> dict[str, Any]:
        """Return what the trials depend on."""
        base = self._config(search, search.in_trials)
        splits = [describe_split(split) for split in self.experiment.splits[: self.search_splits]]
        return {
            "settings": {k: v for k, v in base.identity().items() if k not in search.space},
            "repeats": base.repeats,
            "space": {
                name: json.loads(distribution_to_json(distribution))["attributes"]
                for name, distribution in search.space.items()
            },
            "dataset": describe_dataset(self.experiment.data),
            "splits": [split["train_sha256"] for split in splits],
            "validation": [split["validation_sha256"] for split in splits],
            "threads": trainer.threads,
            "device": trainer.device.type,
        }


class _Progress:
    """Reports trials and final trainings as epochs of one training; each counts the same."""

    def __init__(self, total: int, epochs: int, report: Callable[[int, int], None] | None) -> None:
        self.total, self.epochs, self.report = total, epochs, report
        self.finished, self.share = 0, 0.0

    def show(self, done: float, total: float = 1) -> None:
        self.share = done / total
        if self.report is not None:
            done = self.finished + min(self.share, 1.0)
            self.report(int(done * self.epochs), self.total * self.epochs)

    def finish(self) -> None:
        self.finished += 1
        self.show(0)


def _choose(search: Search, trials: list[Trial]) -> Trial:
    done = [trial for trial in trials if trial.score is not None]
    if not done:
        raise WorkFailed(
            f"all {len(trials)} trials of {search.name} failed, the first so: {trials[0].failure}"
        )
    return max(done, key=lambda trial: trial.score or 0.0)
