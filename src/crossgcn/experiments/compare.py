"""Do crosses, the graph or a black box help on this graph? All models paired over splits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import fsum
from pathlib import Path
from statistics import fmean, mode
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.experiments.candidates import (
    CANDIDATES,
    CONSTANT,
    DEFAULT_TRIALS,
    MOST_TRIALS,
    Candidate,
)
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.sklearn_models import ComparisonTrainer, EstimatorRun
from crossgcn.experiments.statistics import PairedDifference, Summary, paired_difference, summarise
from crossgcn.models.catalogue import Preset, first_layer_crosses, get_preset
from crossgcn.training.config import MODEL_SETTINGS, RunConfig
from crossgcn.training.metrics import (
    DEFAULT_METRICS,
    METRICS,
    check_metric,
    check_threshold,
    task_of_outputs,
)
from crossgcn.training.pool import train_many
from crossgcn.training.trainer import Record, Run

Verdict = Literal["helps", "does not help", "cannot tell"]

MATTERS = 0.005
"""A gain that matters: half a point; of RMSE and MAE, half a percent of the baseline's."""
_ENOUGH_SPLITS = 5
"""With fewer splits, not beating a constant leaves the question open."""
_FULL_BATCH_PATIENCE = 50
_COST_THAT_TELLS = 0.8
"""A run of a cheaper model says little about the time of the others."""
_SPLITS = 10
"""Stratified splits by default."""


@dataclass(frozen=True)
class CandidateResult:
    """One model over all splits, tuned in each.

    Attributes:
        test: One value per split for each metric, of the trial that validation chose.
        validation: Validation score of that trial; it should grow.
        trials: The chosen trial of each split.
        parameters: Of a network.
        train_options: Options of ``crossgcn train`` for the trial that most splits chose;
            ``None`` for a model that ``train`` does not have.
    """

    name: str
    metric: str
    test: Mapping[str, tuple[float, ...]]
    validation: tuple[float, ...]
    trials: tuple[int, ...] = (0,)
    parameters: int | None = None
    seconds: float = 0.0
    train_options: tuple[str, ...] | None = None

    @property
    def candidate(self) -> Candidate:
        """The model."""
        return CANDIDATES[self.name]

    @property
    def scores(self) -> tuple[float, ...]:
        """The selecting metric on the test nodes of each split."""
        return self.test[self.metric]

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation of :attr:`scores`."""
        return summarise(self.scores)


@dataclass(frozen=True)
class QuestionAnswer:
    """Two models that validation chose, compared on the test nodes.

    Attributes:
        model: With what is in question.
        against: Without it.
        difference: Of the metric, ``model`` minus ``against``. Its interval is of the mean over
            all random splits of this table.
        corrected: The same with the interval of a new table of the same kind.
        verdict: Whether ``model`` is better on this table.
        is_constant: ``model`` is not better than predicting a constant.
    """

    model: str
    against: str
    difference: PairedDifference
    corrected: PairedDifference
    verdict: Verdict
    is_constant: bool = False


@dataclass(frozen=True)
class TableComparison:
    """The results of all models, in the order of the candidates, and what follows from them.

    The splits are random draws from one table, so the plain paired interval is that of the mean
    gain on this table. On a new table of the same kind gains vary more; Nadeau and Bengio's
    correction accounts for that. A target without any signal can favour one of two models on its
    own table, so a model must also beat a constant by the corrected interval.

    Attributes:
        test_to_train: As for :func:`~crossgcn.paired_difference`; of the corrected intervals.
        constant: The constant's result, if it is not among the others.
    """

    results: tuple[CandidateResult, ...]
    test_to_train: float
    task: str = "binary"
    constant: CandidateResult | None = None

    @property
    def metric(self) -> str:
        """The metric that selects."""
        return self.results[0].metric

    def of(self, name: str) -> CandidateResult:
        """Return the result of one model."""
        return next(result for result in self.results if result.name == name)

    def difference(self, ours: str, baseline: str, *, corrected: bool = False) -> PairedDifference:
        """Return the paired difference of two models, for this table or corrected for new ones."""
        return paired_difference(
            self.of(ours).scores,
            self.of(baseline).scores,
            test_to_train=self.test_to_train if corrected else 0.0,
        )

    def best(self, wanted: Callable[[CandidateResult], bool] = lambda _: True) -> str | None:
        """Return the model with the best validation score among some, simpler first."""
        found = filter(wanted, self.results)
        best = max(found, key=lambda result: fmean(result.validation), default=None)
        return None if best is None else best.name

    @property
    def crosses(self) -> QuestionAnswer | None:
        """The best order of cross-hops against its twin; without it, Cross-GCN against GCN."""
        names = {result.name for result in self.results}
        twins = [r.candidate.twin for r in self.results if r.candidate.twin in names]
        if not twins:
            return None
        ours = self.best(lambda result: result.candidate.twin == twins[0])
        return self._answer(ours, twins[0])

    @property
    def graph(self) -> QuestionAnswer | None:
        """The best model that sees neighbours against the best one on own columns."""
        return self._answer(
            self.best(lambda result: result.candidate.columns in ("hops", "graph")),
            self.best(lambda result: result.candidate.columns in ("none", "own")),
        )

    @property
    def black_box(self) -> QuestionAnswer | None:
        """The best black box against the best glass box."""
        return self._answer(
            self.best(lambda result: not result.candidate.glass_box),
            self.best(lambda result: result.candidate.glass_box),
        )

    @property
    def recommended(self) -> str:
        """The model with crosses where they help; else the simplest glass box that is as good.

        Only models that ``crossgcn train`` has are recommended, a black box only if no glass box
        was compared. "As good" is by validation score, and so is the exception: crosses help, but
        a glass box other than their twin is better by more than :data:`MATTERS`.
        """
        trainable = [r for r in self.results if r.candidate.preset is not None] or self.results
        glass = [r for r in trainable if r.candidate.glass_box] or list(trainable)
        crosses = self.crosses
        if crosses is not None and crosses.verdict == "helps":
            glass = [r for r in glass if r.name != crosses.against]
        elif crosses is not None and crosses.verdict == "does not help":
            glass = [r for r in glass if r.candidate.twin != crosses.against] or glass
        best = max(fmean(result.validation) for result in glass)
        enough = best - self._matters(best)
        good = [r.name for r in glass if fmean(r.validation) >= enough or math.isnan(enough)]
        if crosses is not None and crosses.verdict == "helps" and crosses.model in good:
            return crosses.model
        return good[0]

    def _matters(self, value: float) -> float:
        return MATTERS * abs(value) if self.metric in ("rmse", "mae") else MATTERS

    def _answer(self, model: str | None, against: str | None) -> QuestionAnswer | None:
        if model is None or against is None:
            return None
        difference = self.difference(model, against)
        corrected = self.difference(model, against, corrected=True)
        is_constant = self._is_constant(model)
        verdict = self._judge(difference, against, is_constant)
        return QuestionAnswer(model, against, difference, corrected, verdict, is_constant)

    def _judge(self, difference: PairedDifference, against: str, is_constant: bool) -> Verdict:
        interval = self._gain(difference)
        if interval is None or any(map(math.isnan, interval)):
            return "cannot tell"
        if interval[0] > 0 and not is_constant:
            return "helps"
        small = interval[1] < self._matters(self.of(against).summary.mean)
        if small or (is_constant and difference.count >= _ENOUGH_SPLITS):
            return "does not help"
        return "cannot tell"

    def _is_constant(self, model: str) -> bool:
        """Whether a model is not shown to beat the constant, by the corrected interval."""
        constants = (r for r in self.results if r.candidate.columns == "none")
        constant = next(constants, self.constant)
        if constant is None or model == constant.name:
            return False
        scores = self.of(model).scores
        difference = paired_difference(scores, constant.scores, test_to_train=self.test_to_train)
        interval = self._gain(difference)
        return interval is not None and interval[0] <= 0

    def _gain(self, difference: PairedDifference) -> tuple[float, float] | None:
        """Return the interval such that positive numbers are better."""
        interval = difference.interval()
        if interval is None or METRICS[self.metric].grows:
            return interval
        return -interval[1], -interval[0]


class TableExperiment:
    """Candidates to be tuned and trained on the same splits.

    Args:
        data: The graph; for a number as target ``num_classes`` is 1.
        names: The candidates; defaults to all but the slowest. A constant is always measured.
        num_trials: How many of a candidate's trials to make.
        defaults: Settings of :class:`~crossgcn.RunConfig` unless a preset has its own.
        settings: Settings for every model.

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
        missing = [name for name in CANDIDATES if name in wanted and not _is_installed(name)]
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
        check_threshold(settings.get("threshold"), data.num_classes)
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

        Args:
            out: Folder for the records; a finished run found there is not repeated.
            workers: Number of processes.
            threads: Threads of each run.
            device: ``cpu``, ``cuda`` or ``auto``.
            on_epochs: Called with the number of runs done and of all runs.
            on_estimate: Called with the seconds that the remaining runs will take, and those
                that :attr:`skipped` ones would: after the first run that says something, and
                when all models were measured if that changes the estimate by a quarter.
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
        return EstimatorRun(
            config, split, folder=folder, candidate=name, settings=candidate.trials[trial]
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
            chosen.append(max(done, key=lambda key: _comparable(records[key]["validation_score"])))
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


def majority_accuracy(y: Tensor, train: Tensor, nodes: Tensor) -> float:
    """Return the accuracy of predicting the commonest class of the training nodes."""
    commonest = torch.bincount(y[train]).argmax()
    return float((y[nodes] == commonest).double().mean())


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


def _comparable(score: float) -> float:
    return -math.inf if math.isnan(score) else score


def _folder(name: str, trial: int) -> str:
    return f"{name}/trial-{trial}"


def _is_installed(name: str) -> bool:
    return CANDIDATES[name].estimator != "ebm" or find_spec("interpret") is not None


def _configure(
    candidate: Candidate, trial: int, defaults: Mapping[str, Any], settings: Mapping[str, Any]
) -> RunConfig:
    """Return the configuration of a network; of an estimator, that of one with its columns."""
    model = candidate.preset or ("cross-hops" if candidate.columns == "hops" else "mlp")
    preset = get_preset(model)
    tuned = candidate.trials[trial] if candidate.preset is not None else {}
    defaults = _known(preset, {**defaults, **candidate.training})
    values = _known(preset, {**settings, **candidate.settings, **tuned, "model": model})
    if any("batch_size" in each for each in (preset.training, values)):
        # Runs are short, and finished ones are kept: writing every epoch takes a third of the time.
        defaults["checkpoint_every"] = 0
    if "order" in values and preset.inputs != "hops":
        depth = values.get("num_layers") or defaults.get("num_layers", 2)
        values["order"] = first_layer_crosses(values["order"], depth)
    return RunConfig.create(defaults=defaults, **values)


def _known(preset: Preset, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the settings that a model does not have."""
    known = preset.options | {"num_layers", "hidden_channels", "dropout"}
    others = set(MODEL_SETTINGS) - known
    return {name: value for name, value in settings.items() if name not in others}


_TRAIN_OPTIONS = (
    *("order", "aggr", "num_layers", "hidden_channels", "learning_rate", "hops", "bags"),
    "label_features",
)
"""Settings of a candidate that ``crossgcn train`` must be told, where they are not its defaults."""


def train_options(config: RunConfig) -> tuple[str, ...]:
    """Return the options of ``crossgcn train`` that give this configuration on tables."""
    preset, words = get_preset(config.model), ["--model", config.model]
    for name in _TRAIN_OPTIONS:
        value = getattr(config, name)
        usual = preset.training.get(name, RunConfig.model_fields[name].default)
        if value not in (None, usual):
            parts = value if isinstance(value, tuple) else (value,)
            text = ",".join(f"{x:g}" if isinstance(x, float) else str(x).lower() for x in parts)
            words += [f"--{name.replace('_', '-')}", text]
    decay = f"{config.weight_decay:g}"
    return (*words, "--dropout", f"{config.dropout:g}", "--weight-decay", decay)
