"""Compare models on tables: the same tuning for each, paired over splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from itertools import product
from math import fsum
from pathlib import Path
from statistics import mode
from typing import Any

from torch_geometric.data import Data

from crossgcn.data.features import Preprocess
from crossgcn.data.relations import has_edges, relations_of
from crossgcn.data.tables.graph import TableGraph, describe_encoding
from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.experiments.answers import CandidateResult, TableComparison
from crossgcn.experiments.boosting import CandidateTrainer, EstimatorRun
from crossgcn.experiments.candidates import (
    CANDIDATES,
    CONSTANT,
    DEFAULT_TRIALS,
    MOST_TRIALS,
    PACKAGES,
    configure_candidate,
    find_candidate,
    table_defaults,
    train_options,
    without_relations,
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
"""Settings that the entry or the trials of a candidate determine."""

Key = tuple[str, int, int]
"""A run of the comparison: name of the candidate, trial, split."""


class TableExperiment:
    """Candidates to be tuned and trained on the same splits.

    Args:
        data: The graph; ``num_classes`` is 1 if the target is a number.
        names: The candidates, by default those marked ``by_default``; the constant is always added.
        defaults: Defaults of settings, which those of a preset override.
        settings: Settings for every candidate that has them.
        about: Further entries of :attr:`TableComparison.protocol`.
        preprocess: The names of features; the features of a table column are dropped together.

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
                f"{name} is set or tuned for each model when tables are compared: leave it out, or "
                "train one model with it"
            )
        if not 1 <= num_trials <= MOST_TRIALS:
            raise BadInput(
                f"--tuning is 1 to {MOST_TRIALS} trials for each model; got {num_trials}"
            )
        absent = [name for name, (package, _) in PACKAGES.items() if not find_spec(package)]
        self.missing = [name for name, each in CANDIDATES.items() if each.estimator in absent]
        self.names = _select_candidates(names, data, self.missing)
        self.task = task_of_outputs(data.num_classes)
        self._num_trials, self._about = num_trials, about or {}
        self._defaults = {"metric": DEFAULT_METRICS[self.task], **(defaults or {})}
        check_metric(settings.get("metric", self._defaults["metric"]), self.task)
        settings = {**settings, "tuning": num_trials}
        self._without = without_relations(self.names, relations_of(data))
        tried = dict.fromkeys([CONSTANT, *self.names, *self._without])
        self._configs = {
            (name, trial): configure_candidate(
                find_candidate(name), trial, self._defaults, settings | self._without.get(name, {})
            )
            for name in tried
            for trial in range(len(find_candidate(name).trials[:num_trials]))
        }
        places = {name: f"without-{number}" for number, name in enumerate(self._without)}
        folders = [f"{places.get(name, name)}/trial-{trial}" for name, trial in self._configs]
        configs = list(self._configs.values())
        self.experiment = Experiment(configs, data, preprocess, folders=folders)

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

        For the other arguments see :meth:`crossgcn.Experiment.run`.

        Args:
            on_epochs: Called with the number of finished runs and the number of all runs.
        """
        experiment, runs = self.experiment, dict[Key, Run]()
        of_splits = product(self._configs, range(len(experiment.splits)))
        for ((name, trial), split), run in zip(of_splits, experiment.runs(out), strict=True):
            if find_candidate(name).estimator is not None:
                run = EstimatorRun(**vars(run), candidate=name, trial=trial)
            runs[name, trial, split] = run
        # All models on the first split, then on the next, so that the time left is soon known.
        keys = sorted(runs, key=lambda key: key[2])
        done: dict[Key, Record | WorkFailed] = {}
        trainer = experiment.trainer(CandidateTrainer, device=device, threads=threads)
        with closing(train_each(trainer, [runs[key] for key in keys], workers=workers)) as results:
            for position, result in results:
                done[keys[position]] = result
                on_epochs(len(done), len(keys))
        constant, *others = [
            self._choose(name, done) for name in dict.fromkeys([CONSTANT, *self.names])
        ]
        without = {
            each["without"]: self._choose(name, done) for name, each in self._without.items()
        }
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
            "left_out": [name for name in self.missing if CANDIDATES[name].by_default],
            "seconds": fsum(result.seconds for result in (*others, *without.values())),
            "versions": environment["versions"],
            "threads": threads,
            "commit": environment["commit"],
        }
        ratio = experiment.test_to_train
        return TableComparison(tuple(others), ratio, self.task, constant, protocol, without)

    def _choose(self, name: str, done: Mapping[Key, Record | WorkFailed]) -> CandidateResult:
        """Choose the trial with the best validation score in each split."""
        trials, picked = [], list[Record]()
        for split in range(len(self.experiment.splits)):
            tried = {
                trial: done[name, trial, split] for each, trial in self._configs if each == name
            }
            trials.append(max(tried, key=lambda trial: _rank(tried[trial])))
            best = tried[trials[-1]]
            if isinstance(best, WorkFailed):
                raise best
            picked.append(best)
        trained = [each for key, each in done.items() if key[0] == name]
        options = None
        if find_candidate(name).estimator is None:
            options = train_options(self._configs[name, mode(trials)], self._defaults)
        return CandidateResult(
            name,
            picked[0]["metric"],
            {key: tuple(record["test"][key] for record in picked) for key in picked[0]["test"]},
            tuple(record["validation_score"] for record in picked),
            tuple(trials),
            picked[0].get("parameters"),
            fsum(each["seconds"] for each in trained if not isinstance(each, WorkFailed)),
            options,
        )


def _rank(result: Record | WorkFailed) -> tuple[bool, float]:
    """Return a sort key that is larger for a better validation score."""
    if isinstance(result, WorkFailed):
        return False, 0.0
    score: float = result["validation_score"]
    return True, -math.inf if math.isnan(score) else score


def _select_candidates(
    names: Sequence[str] | None, data: Data, missing: Sequence[str]
) -> list[str]:
    """Return the named candidates, or the default ones that can be trained."""
    linked = has_edges(data)
    listed = linked and all(each.things is None for each in relations_of(data))
    can_read = {"graph": listed, "hops": linked}
    readable = [name for name, each in CANDIDATES.items() if can_read.get(each.columns, True)]
    if names is None:
        return [name for name in readable if CANDIDATES[name].by_default and name not in missing]
    if absent := [name for name in names if name in missing]:
        package, extra = PACKAGES[str(CANDIDATES[absent[0]].estimator)]
        raise BadInput(
            f"{absent[0]} needs the package {package}: pip install 'crossgcn[{extra}]', or leave "
            "it out of --models"
        )
    if blind := [name for name in names if name not in readable]:
        raise BadInput(
            f"these models read neighbours, and there are no edges: {', '.join(blind)}; give the "
            "table of edges, or leave them out of --models"
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
        models: Names of candidates; by default those marked ``by_default``.
        tuning: Trials per model.
        baseline: The model that the others are paired with.
        settings: Settings for every model; ``None`` for those not given.
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
    """Refuse a baseline that is not one of the models."""
    if baseline is not None and baseline not in names:
        raise BadInput(
            f"--baseline {baseline} is not among --models {','.join(names)}: add it there"
        )
