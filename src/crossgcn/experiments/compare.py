"""Train the models of a comparison on tables, tuned alike and paired over splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from math import fsum
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np
from torch_geometric.data import Data

from crossgcn.data.features import Preprocess
from crossgcn.data.tables.graph import TableGraph, describe_encoding
from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.experiments.answers import CandidateResult, TableComparison
from crossgcn.experiments.boosting import CandidateTrainer, EstimatorRun
from crossgcn.experiments.candidates import (
    CANDIDATES,
    CONSTANT,
    DEFAULT_TRIALS,
    MOST_TRIALS,
    configure_candidate,
    table_defaults,
    train_options,
)
from crossgcn.experiments.experiment import Experiment
from crossgcn.models.catalogue import MODEL_OPTIONS
from crossgcn.training.metrics import DEFAULT_METRICS, check_metric, positive_class, task_of_outputs
from crossgcn.training.pool import train_each
from crossgcn.training.records import describe_environment
from crossgcn.training.trainer import Record, Run

_TUNED = {"dropout", "weight_decay", "tuning"} | (
    MODEL_OPTIONS - {"bias", "hops", "label_features", "bags"}
)
"""Settings that each candidate has from its entry or from a trial."""

Key = tuple[str, int, int]
"""A run of the comparison: name of the candidate, trial, split."""


class TableExperiment:
    """Candidates to be tuned and trained on the same splits.

    Args:
        data: The graph; for a number as target ``num_classes`` is 1.
        names: The candidates; by default those of medium cost. A constant is always measured.
        defaults: Settings of :class:`~crossgcn.RunConfig` unless a preset has its own.
        settings: Settings for all candidates that have them.
        about: Further entries of :attr:`TableComparison.protocol`.
        preprocess: The meaning of features: those of one column of a table are dropped together.

    Attributes:
        missing: Candidates whose package is not installed.
    """

    def __init__(
        self,
        data: Data,
        names: Sequence[str] | None = None,
        *,
        num_trials: int = DEFAULT_TRIALS,
        defaults: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
        preprocess: Preprocess | None = None,
    ) -> None:
        for name in names or ():
            if name not in CANDIDATES:
                raise unknown_name("model", name, CANDIDATES)
        for name in sorted(settings.keys() & _TUNED):
            raise BadInput(
                f"{name} cannot be given to compare with tables, which sets it for each model or "
                "tunes it: leave it out, or train one model with it"
            )
        if not 1 <= num_trials <= MOST_TRIALS:
            raise BadInput(
                f"--tuning is 1 to {MOST_TRIALS} trials for each model; got {num_trials}"
            )
        self.missing = [] if find_spec("interpret") else ["ebm", "ebm-hops"]
        self.names = _select_candidates(names, data, self.missing)
        settings = {**settings, "tuning": num_trials}
        self._num_trials, self._settings, self._about = num_trials, settings, about or {}
        self.task = task_of_outputs(data.num_classes)
        metric = check_metric(settings.get("metric") or DEFAULT_METRICS[self.task], self.task)
        configs = {
            (name, trial): configure_candidate(
                CANDIDATES[name], trial, defaults or {}, {**settings, "metric": metric}
            )
            for name in dict.fromkeys([CONSTANT, *self.names])
            for trial in range(len(CANDIDATES[name].trials[:num_trials]))
        }
        folders = [f"{name}/trial-{trial}" for name, trial in configs]
        self._trials = list(configs)
        self.experiment = Experiment(list(configs.values()), data, preprocess, folders=folders)

    def run(
        self,
        *,
        out: Path | None = None,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
        on_epochs: Callable[[int, int], None] = lambda done, total: None,
    ) -> TableComparison:
        """Train every model on every split.

        Arguments that are not listed are those of :meth:`crossgcn.Experiment.run`.

        Args:
            on_epochs: Called with the number of runs done and of all runs.
        """
        experiment, runs = self.experiment, dict[Key, Run]()
        trials = zip(self._trials, experiment.configs, experiment.folders, strict=True)
        for (name, trial), config, folder in trials:
            for run in experiment.runs_of(config, out and out / folder):
                if CANDIDATES[name].estimator is not None:
                    run = EstimatorRun(**vars(run), candidate=name, trial=trial)
                runs[name, trial, run.split] = run
        # All models on the first split, then on the next: so the time left is soon known.
        keys = sorted(runs, key=lambda key: key[2])
        done: dict[Key, Record] = {}
        failed: dict[Key, WorkFailed] = {}

        trainer = experiment.trainer(CandidateTrainer, device=device, threads=threads)
        with closing(train_each(trainer, [runs[key] for key in keys], workers=workers)) as results:
            for position, result in results:
                if isinstance(result, WorkFailed):
                    failed[keys[position]] = result
                else:
                    done[keys[position]] = result
                on_epochs(len(done) + len(failed), len(keys))
        constant, *others = [
            self._choose(name, done, failed) for name in dict.fromkeys([CONSTANT, *self.names])
        ]
        if CONSTANT in self.names:
            others = [constant, *others]
        config, environment = experiment.configs[0], describe_environment()
        protocol = {
            "dataset": experiment.data.name,
            **self._about,
            "splits": config.splits,
            "num_splits": len(experiment.splits),
            "train": config.train,
            "seed": config.seed,
            "epochs": config.epochs,
            "trials": self._num_trials,
            "tuned": {
                name: [dict(trial) for trial in CANDIDATES[name].trials[: self._num_trials]]
                for name in self.names
            },
            "left_out": [name for name in self.missing if CANDIDATES[name].by_default],
            "seconds": fsum(result.seconds for result in others),
            "versions": environment["versions"],
            "threads": threads,
            "commit": environment["commit"],
        }
        ratio = experiment.test_to_train
        return TableComparison(tuple(others), ratio, self.task, constant, protocol)

    def _choose(
        self, name: str, done: Mapping[Key, Record], failed: Mapping[Key, WorkFailed]
    ) -> CandidateResult:
        """Take the trial with the best validation score in each split."""
        chosen: list[Key] = []
        for split in range(len(self.experiment.splits)):
            tried = [(name, trial, split) for each, trial in self._trials if each == name]
            trained = [key for key in tried if key in done]
            if not trained:
                raise failed[tried[0]]
            scores = [done[key]["validation_score"] for key in trained]
            chosen.append(trained[int(np.argmax(np.nan_to_num(scores, nan=-math.inf)))])
        picked = [done[key] for key in chosen]
        trials = tuple(trial for _, trial, _ in chosen)
        return CandidateResult(
            name,
            picked[0]["metric"],
            {key: tuple(record["test"][key] for record in picked) for key in picked[0]["test"]},
            tuple(record["validation_score"] for record in picked),
            trials,
            picked[0].get("parameters"),
            fsum(record["seconds"] for key, record in done.items() if key[0] == name),
            train_options(CANDIDATES[name], mode(trials), self._settings),
        )


def _select_candidates(
    names: Sequence[str] | None, data: Data, missing: Sequence[str]
) -> list[str]:
    """Return the candidates to train: those named, or the default ones that can be trained."""
    has_edges = data.edge_index.numel() > 0
    if names is None:
        return [
            name
            for name, candidate in CANDIDATES.items()
            if candidate.by_default
            and name not in missing
            and (has_edges or not candidate.sees_graph)
        ]
    if absent := [name for name in names if name in missing]:
        raise BadInput(
            f"{' and '.join(absent)} need the package interpret: pip install 'crossgcn[ebm]', or "
            "leave them out of --models"
        )
    blind = [name for name in names if CANDIDATES[name].sees_graph]
    if blind and not has_edges:
        raise BadInput(
            f"{' and '.join(blind)} read neighbours, and there are no edges: give the table of "
            "edges, or leave them out of --models"
        )
    return [name for name in CANDIDATES if name in names]


def table_experiment(
    graph: TableGraph,
    models: Sequence[str] | None,
    tuning: int,
    baseline: str | None,
    settings: Mapping[str, Any],
) -> TableExperiment:
    """Return what ``crossgcn compare`` trains on tables.

    Args:
        models: Names of candidates; those marked ``by_default`` if left out.
        tuning: Trials per model.
        baseline: The model that the others are paired with.
        settings: Settings for every model; those that are ``None`` are left out.
    """
    check_baseline(baseline, models or list(CANDIDATES))
    given = {name: value for name, value in settings.items() if value is not None}
    about = {"target": graph.plan.target}
    if graph.data.num_classes == 2:
        about["positive_class"] = graph.classes[positive_class(graph.data.y.numpy())]
    return TableExperiment(
        graph.data,
        models,
        num_trials=tuning,
        defaults=table_defaults(graph, given.get("splits")),
        settings={**given, "dataset": graph.data.name},
        about=about,
        preprocess=describe_encoding(graph),
    )


def check_baseline(baseline: str | None, names: Sequence[str]) -> None:
    """Refuse a baseline that is none of the models."""
    if baseline is not None and baseline not in names:
        raise BadInput(
            f"--baseline {baseline} is not among --models {','.join(names)}: add it there"
        )
