"""Choose settings by validation accuracy, for a model and its twin alike; then test once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.graph import canonical_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.splits import NUM_STRATIFIED_SPLITS
from crossgcn.data.stored.open import is_opened, open_graph
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import Experiment, run_folder_name
from crossgcn.experiments.run_folder import choose_model
from crossgcn.experiments.tune.plan import check_sealed, deal_out_sealed
from crossgcn.experiments.tune.proposals import Proposer
from crossgcn.experiments.tune.space import (
    Contestant,
    TunedModel,
    TuningResult,
    check_models,
    check_space,
    default_values,
    make_config,
)
from crossgcn.experiments.tune.trials import Trial, TrialFolder
from crossgcn.training.config import RunConfig
from crossgcn.training.pool import train_many
from crossgcn.training.records import describe_dataset, describe_split
from crossgcn.training.trainer import Trainer


class TuningProgress:
    """Trials, and the trainings after them, as epochs of one long training.

    A trial counts for as many as any other, also where it trains for longer.

    Args:
        trials: How many there will be.
        last: How many trainings follow.
        epochs: What each counts for.
        report: Called with epochs done and epochs in all.
    """

    def __init__(
        self, *, trials: int, last: int, epochs: int, report: Callable[[int, int], None] | None
    ) -> None:
        self.unit = epochs
        self.total = trials + last
        self.finished = 0
        self.part = 0.0
        self.report = report

    def add(self, share: float) -> None:
        """A share of the trial that is running is done."""
        self.part += share
        self._show()

    def final(self, done: int, total: int) -> None:
        """As much of the final runs is done."""
        self.part = done / total
        self._show()

    def finish_trial(self) -> None:
        """The trial that was running has ended."""
        self.finished += 1
        self.part = 0.0
        self._show()

    def _show(self) -> None:
        if self.report is not None:
            done = self.finished + min(self.part, 1.0)
            self.report(int(done * self.unit), self.total * self.unit)


_TRIALS, _CHOSEN = "trials", "chosen"


class Tuning:
    """A search, and its twin's, over the same splits of the same graph.

    While they search no test node is read. On ``stratified`` splits, which would have every
    node test somewhere, test nodes are set apart first
    (:func:`~crossgcn.experiments.tune.plan.deal_out_sealed`).

    Args:
        contestants: The model, and its twin if there is one.
        search_splits: How many splits a trial uses, the first ones; all when left out.
        first_layer_only: Whether a single ``order`` is that of the first layer alone.
        data: The graph, when it is not one to be loaded by name.
        ids: The nodes' own names.
        preprocess: What features and classes mean, to be kept with saved models.
    """

    def __init__(
        self,
        *contestants: Contestant,
        search_splits: int | None = None,
        first_layer_only: bool = False,
        data: Data | None = None,
        ids: tuple[str, ...] | None = None,
        preprocess: Preprocess | None = None,
    ) -> None:
        self.contestants = contestants
        self.first_layer_only = first_layer_only
        first = contestants[0].base
        if data is None and is_opened(first.dataset):
            stored = open_graph(first.dataset)
            preprocess = stored.preprocess if preprocess is None else preprocess
            ids = None if stored.ids is None else tuple(stored.ids)
        self.ids = ids
        for contestant in contestants:
            check_space(contestant.space, contestant.base)
            check_models(contestant, first_layer_only=first_layer_only)
        data = load_dataset(first.dataset) if data is None else canonical_graph(data)
        self._protocol: dict[str, Any] = {"dataset": data.name, "test_curve": False}
        if first.splits == "stratified":
            count = first.num_splits or NUM_STRATIFIED_SPLITS
            data.roles = deal_out_sealed(data, num_splits=count, train=first.train, seed=first.seed)
            self._protocol |= {"splits": "public", "train": None}
        starts = [self._config(contestant, {}) for contestant in contestants]
        self.experiment = Experiment(starts, data, preprocess)
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
        """Search, choose, train what was chosen over all splits and test it.

        Contestants take turns, so that they have had as many trials whenever it ends. A trial
        of which a run diverges has failed, and the search goes on.

        Args:
            out: Where trials are kept; those found finished there are not repeated.
            trials: For each contestant.
            timeout: Seconds after which no further trial is started, once all had one.
            workers: Processes that share the runs of a trial.
            threads: Threads of each run.
            device: As of :meth:`crossgcn.Experiment.run`.
            on_epochs: Called now and then with epochs done and epochs in all, about.
            on_trial: Called with a model's name and each trial, found ones included.

        Raises:
            WorkFailed: If a worker died, memory is short or every trial failed. What was
                finished is kept, and the same call continues from it.
        """
        started = time.monotonic()
        if trials < 1:
            raise BadInput(f"--trials must be at least 1; got {trials}")
        progress = TuningProgress(
            trials=trials * len(self.contestants),
            last=len(self.contestants),
            epochs=self.search_splits * self.contestants[0].base.epochs,
            report=on_epochs,
        )
        workload = self.experiment.trainer(threads=threads, device=device, read_test=False)
        searches = [
            _Search(
                contestant,
                TrialFolder(
                    out / _TRIALS / contestant.base.model, self._identity(contestant, workload)
                ),
                Proposer(
                    contestant.space,
                    contestant.base.seed,
                    default_values(contestant.base, contestant.space),
                ),
                [],
            )
            for contestant in self.contestants
        ]
        for number in range(trials):
            # A twin of which nothing is searched has said it all in one trial.
            turn = [search for search in searches if not number or search.proposer.space]
            found = [search.folder.read(number) for search in turn]
            late = timeout is not None and time.monotonic() - started > timeout
            if number and late and None in found:
                break
            for search, trial in zip(turn, found, strict=True):
                if trial is None:
                    trial = self._try(search, number, workload, workers, progress)
                    search.folder.write(trial)
                else:
                    search.folder.forget_runs(number)
                search.proposer.tell(trial.values, trial.score)
                search.trials.append(trial)
                progress.finish_trial()
                if on_trial is not None:
                    on_trial(search.contestant.base.model, trial)
        work = {"workers": workers, "threads": threads, "device": device}
        chosen = [_choose(search) for search in searches]
        tuned = [
            self._test(search, trial, out, work, progress)
            for search, trial in zip(searches, chosen, strict=True)
        ]
        return TuningResult(tuned[0], tuned[1] if len(tuned) > 1 else None)

    def _try(
        self,
        search: _Search,
        number: int,
        workload: Trainer,
        workers: int,
        progress: TuningProgress,
    ) -> Trial:
        values = search.proposer.propose()
        trial = Trial(number, values)
        config = self._config(search.contestant, values)
        runs = [
            run
            for run in self.experiment.runs_of(config, search.folder.runs_of(number))
            if run.split < self.search_splits
        ]
        diverged: dict[int, WorkFailed] = {}
        # What else goes wrong says nothing about the settings: it ends the search, to be resumed.
        records = train_many(
            workload,
            runs,
            workers=workers,
            on_epochs=lambda epochs: progress.add(epochs / (len(runs) * config.epochs)),
            on_failure=diverged.__setitem__,
        )
        if diverged:
            return replace(trial, failure=str(diverged[min(diverged)]))
        return replace(
            trial,
            validation_accuracy=tuple(record["validation_accuracy"] for record in records),
            seconds=fsum(record["seconds"] for record in records),
        )

    def _test(
        self,
        search: _Search,
        chosen: Trial,
        out: Path,
        work: Mapping[str, Any],
        progress: TuningProgress,
    ) -> TunedModel:
        contestant = search.contestant
        config = self._config(contestant, chosen.values)
        folder = out / _CHOSEN / f"{config.model}-trial-{chosen.number:03d}"
        experiment = Experiment([config], self.experiment.data, self.experiment.preprocess)
        (runs,) = experiment.run(out=folder, save_models=True, on_epochs=progress.final, **work)
        progress.finish_trial()
        choose_model(folder, run_folder_name(config), experiment.data, self.ids)
        if contestant.base.splits == "stratified":
            split = experiment.splits[0]
            runs = replace(runs, test_to_train=len(split.test) / len(split.train))
        as_given = make_config(
            contestant.base, chosen.values, first_layer_only=self.first_layer_only
        )
        reads = len(list((out / _CHOSEN).glob(f"{config.model}-trial-*")))
        return TunedModel(contestant, tuple(search.trials), chosen, as_given, runs, folder, reads)

    def _config(self, contestant: Contestant, values: Mapping[str, Any]) -> RunConfig:
        config = make_config(contestant.base, values, first_layer_only=self.first_layer_only)
        return config.model_copy(update=self._protocol)

    def _identity(self, contestant: Contestant, workload: Trainer) -> dict[str, Any]:
        splits = self.experiment.splits[: self.search_splits]
        base = self._config(contestant, {})
        searched = set(contestant.space)
        return {
            "settings": {k: v for k, v in base.identity().items() if k not in searched},
            "repeats": base.repeats,
            "space": {name: entry.to_json() for name, entry in contestant.space.items()},
            "dataset": describe_dataset(self.experiment.data),
            "splits": [describe_split(split)["train_sha256"] for split in splits],
            "validation": [describe_split(split)["validation_sha256"] for split in splits],
            "threads": workload.threads,
            "device": workload.device.type,
        }


@dataclass(frozen=True)
class _Search:
    contestant: Contestant
    folder: TrialFolder
    proposer: Proposer
    trials: list[Trial]


def _choose(search: _Search) -> Trial:
    done = [trial for trial in search.trials if trial.score is not None]
    if not done:
        raise WorkFailed(
            f"all {len(search.trials)} trials of {search.contestant.base.model} failed, the first "
            f"so: {search.trials[0].failure}"
        )
    return max(done, key=lambda trial: trial.score or 0.0)
