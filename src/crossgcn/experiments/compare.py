"""Train the models of a comparison on tables, tuned alike and paired over splits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from math import fsum
from pathlib import Path
from statistics import fmean, mode
from typing import Any

import numpy as np
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.experiments.answers import CandidateResult, TableComparison
from crossgcn.experiments.candidates import (
    CANDIDATES,
    CONSTANT,
    COST_NODES,
    DEFAULT_TRIALS,
    MOST_TRIALS,
    Candidate,
    cross_in_first_layer,
)
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.sklearn_models import ComparisonTrainer, EstimatorRun
from crossgcn.models.catalogue import get_preset
from crossgcn.training.config import MODEL_SETTINGS, RunConfig
from crossgcn.training.metrics import (
    DEFAULT_METRICS,
    check_metric,
    task_of_outputs,
)
from crossgcn.training.pool import train_many
from crossgcn.training.trainer import Record, Run

_FULL_BATCH_PATIENCE = 50
_COST_THAT_TELLS = 0.8
"""A run of a cheaper model says little about the time of the others."""
_SPLITS = 10
"""Stratified splits by default."""


class TableExperiment:
    """Candidates to be tuned and trained on the same splits.

    Args:
        data: The graph; for a number as target ``num_classes`` is 1.
        names: The candidates; defaults to all but the slowest. A constant is always measured.
        defaults: Settings of :class:`~crossgcn.RunConfig` unless a preset has its own.

    Attributes:
        skipped: Candidates that were left out, because they take long and were not named.
        needs_package: Whether they also need a package that is not installed.
    """

    def __init__(
        self,
        data: Data,
        names: Sequence[str] | None = None,
        *,
        num_trials: int = DEFAULT_TRIALS,
        defaults: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any],
    ) -> None:
        wanted = list(CANDIDATES if names is None else names)
        for name in wanted:
            if name not in CANDIDATES:
                raise unknown_name("model", name, CANDIDATES)
        if not 1 <= num_trials <= MOST_TRIALS:
            raise BadInput(
                f"--tuning is 1 to {MOST_TRIALS} trials for each model; got {num_trials}"
            )
        lacks_ebm = find_spec("interpret") is None
        slow = [name for name, each in CANDIDATES.items() if each.estimator == "ebm"]
        missing = [name for name in slow if lacks_ebm and name in wanted]
        if names is not None and missing:
            raise BadInput(
                f"{' and '.join(missing)} need the package interpret: pip install "
                "'crossgcn[interpret]', or leave them out of --models"
            )
        self.skipped = [name for name in wanted if names is None and CANDIDATES[name].by_name]
        self.needs_package = bool(missing)
        self.names = [name for name in CANDIDATES if name in wanted and name not in self.skipped]
        self._trained = list(dict.fromkeys([CONSTANT, *self.names]))
        self.num_trials = num_trials
        self.task = task_of_outputs(data.num_classes)
        self.metric = check_metric(settings.get("metric") or DEFAULT_METRICS[self.task], self.task)
        defaults = {"patience": _FULL_BATCH_PATIENCE, **(defaults or {})}
        if "stratified" in (settings.get("splits"), defaults.get("splits")):
            defaults.setdefault("num_splits", _SPLITS)
        settings = {**settings, "metric": self.metric}
        self.configs = {
            (name, trial): _configure(CANDIDATES[name], trial, defaults, settings)
            for name in self._trained
            for trial in range(self.num_trials_of(name))
        }
        self.experiment = Experiment(
            list(self.configs.values()), data, folders=[_folder(*key) for key in self.configs]
        )

    def num_trials_of(self, name: str) -> int:
        """Return how many trials a candidate gets; a constant has nothing to choose."""
        return 1 if CANDIDATES[name].columns == "none" else self.num_trials

    @property
    def splits(self) -> list[Split]:
        """The splits shared by all models."""
        return self.experiment.splits

    def run(
        self,
        *,
        out: Path | None = None,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
        on_epochs: Callable[[int, int], None] | None = None,
        on_estimate: Callable[[float, float], None] | None = None,
    ) -> TableComparison:
        """Train every model on every split.

        Arguments that are not listed are those of :meth:`crossgcn.Experiment.run`.

        Args:
            on_epochs: Called with the number of runs done and of all runs.
            on_estimate: Called with the estimated seconds of the remaining runs, and of the
                :attr:`skipped` candidates: after the first run of a model that is not very cheap,
                and when all models were measured, if the estimate changed by a quarter.
        """
        keys = [
            (name, trial, split)
            for split in range(len(self.splits))
            for name in self._trained
            for trial in range(self.num_trials_of(name))
        ]
        runs = [self._run_of(*key, out) for key in keys]
        records: dict[tuple[str, int, int], Record] = {}
        failures: dict[tuple[str, int, int], WorkFailed] = {}
        telling = min(_COST_THAT_TELLS, max(CANDIDATES[name].cost for name in self.names))
        promised: float | None = None
        settled = False
        skipped = [
            (name, trial, split)
            for name in self.skipped
            for trial in range(self.num_trials)
            for split in range(len(self.splits))
        ]

        def report() -> None:
            if on_epochs is not None:
                on_epochs(len(records) + len(failures), len(keys))

        def keep(position: int, record: Record) -> None:
            nonlocal promised, settled
            records[keys[position]] = record
            report()
            if on_estimate is None or settled or CANDIDATES[keys[position][0]].cost < telling:
                return
            settled = {name for name, _, _ in records} >= set(self._trained)
            if promised is not None and not settled:
                return
            left = _estimate(records, keys) / workers
            ends = time.perf_counter() + left
            if promised is None or abs(ends - promised) > 0.25 * left:
                on_estimate(left, _estimate(records, skipped) / workers)
            promised = ends

        def fail(position: int, failure: WorkFailed) -> None:
            failures[keys[position]] = failure
            report()

        trainer = ComparisonTrainer(self.experiment.trainer(threads=threads, device=device))
        train_many(trainer, runs, workers=workers, on_record=keep, on_failure=fail)
        results = {name: self._result(name, records, failures) for name in self._trained}
        constant, shown = results[CONSTANT], tuple(results[name] for name in self.names)
        return TableComparison(shown, self.experiment.test_to_train, self.task, constant)

    def _run_of(self, name: str, trial: int, split: int, out: Path | None) -> Run:
        folder = None if out is None else out / _folder(name, trial) / f"split-{split:02d}"
        candidate = CANDIDATES[name]
        config = self.configs[name, trial].model_copy(update={"dataset": self.experiment.data.name})
        if candidate.preset is not None:
            return Run(config, split, folder=folder)
        seconds = candidate.cost * len(self.experiment.data.y) / COST_NODES
        return EstimatorRun(
            config,
            split,
            folder=folder,
            seconds=seconds,
            candidate=name,
            settings=candidate.trials[trial],
        )

    def _result(
        self,
        name: str,
        records: Mapping[tuple[str, int, int], Record],
        failures: Mapping[tuple[str, int, int], WorkFailed],
    ) -> CandidateResult:
        """Take the trial with the best validation score in each split."""
        chosen = []
        for split in range(len(self.splits)):
            keys = [(name, trial, split) for trial in range(self.num_trials_of(name))]
            done = [key for key in keys if key in records]
            if not done:
                raise failures[keys[0]]
            scores = [records[key]["validation_score"] for key in done]
            chosen.append(done[int(np.argmax(np.nan_to_num(scores, nan=-math.inf)))])
        picked = [records[key] for key in chosen]
        trials = tuple(trial for _, trial, _ in chosen)
        options = None
        if CANDIDATES[name].preset is not None:
            options = train_options(self.configs[name, mode(trials)])
        return CandidateResult(
            name,
            self.metric,
            {key: tuple(record["test"][key] for record in picked) for key in picked[0]["test"]},
            tuple(record["validation_score"] for record in picked),
            trials,
            picked[0].get("parameters"),
            fsum(record["seconds"] for key, record in records.items() if key[0] == name),
            options,
        )


def _estimate(records: Mapping[tuple[str, int, int], Record], keys: Iterable[Any]) -> float:
    """Return how long the runs without a record will take, one after the other.

    A model that was not measured takes its usual multiple of those that were.
    """
    seconds: dict[str, list[float]] = {}
    for (name, _, _), record in records.items():
        seconds.setdefault(name, []).append(record["seconds"])
    usual = fsum(CANDIDATES[key[0]].cost for key in records)
    unit = fsum(record["seconds"] for record in records.values()) / (usual or 1.0)
    expected = {
        name: fmean(seconds[name]) if name in seconds else unit * candidate.cost
        for name, candidate in CANDIDATES.items()
    }
    return fsum(expected[key[0]] for key in keys if key not in records)


def _folder(name: str, trial: int) -> str:
    return f"{name}/trial-{trial}"


def _configure(
    candidate: Candidate, trial: int, defaults: Mapping[str, Any], settings: Mapping[str, Any]
) -> RunConfig:
    """Return the configuration of a network; of an estimator, that of one with its columns."""
    model = candidate.preset or ("cross-hops" if candidate.columns == "hops" else "mlp")
    preset = get_preset(model)
    tuned = candidate.trials[trial] if candidate.preset is not None else {}
    others = set(MODEL_SETTINGS) - preset.options - {"num_layers", "hidden_channels", "dropout"}
    if preset.inputs != "hops":
        others |= {"batch_size"}
    values = {**settings, **candidate.settings, **tuned, "model": model}
    own = others | preset.training.keys()
    return cross_in_first_layer(
        RunConfig.create(
            defaults={name: value for name, value in defaults.items() if name not in own},
            **{name: value for name, value in values.items() if name not in others},
        )
    )


_TRAIN_OPTIONS = ("order", "num_layers", "hidden_channels", "hops", "bags")
_TRAIN_SETTINGS = ("learning_rate", "label_features")
"""Settings of a candidate that ``crossgcn train`` must be told, where they are not its defaults."""


def train_options(config: RunConfig) -> tuple[str, ...]:
    """Return the options of ``crossgcn train`` that give this configuration on tables."""
    preset, words = get_preset(config.model), ["--model", config.model]
    for name in (*_TRAIN_OPTIONS, *_TRAIN_SETTINGS):
        value = getattr(config, name)
        usual = preset.training.get(name, RunConfig.model_fields[name].default)
        if value not in (None, usual):
            parts = value if isinstance(value, tuple) else (value,)
            text = ",".join(f"{x:g}" if isinstance(x, float) else str(x).lower() for x in parts)
            is_option = name in _TRAIN_OPTIONS
            words += (
                [f"--{name.replace('_', '-')}", text] if is_option else ["--set", f"{name}={text}"]
            )
    decay = f"weight_decay={config.weight_decay:g}"
    return (*words, "--dropout", f"{config.dropout:g}", "--set", decay)
