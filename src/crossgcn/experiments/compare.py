"""Do crosses help on this graph? Every model tuned alike and paired over splits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import fmean, mode
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, MATCHED, TRIALS, Candidate
from crossgcn.experiments.experiment import Experiment, RepeatedRuns
from crossgcn.experiments.statistics import PairedDifference, Summary, paired_difference, summarise
from crossgcn.models.catalogue import build_model, first_layer_crosses
from crossgcn.training.config import RunConfig


@dataclass(frozen=True)
class CandidateResult:
    """One model over all splits, tuned in each.

    Attributes:
        test_accuracy: One per split, of the trial chosen by validation accuracy.
        trials: The chosen trial of each split.
        hidden_channels: ``None`` for a model without a hidden layer.
        train_options: Options of ``crossgcn train`` for the trial that most splits chose;
            ``None`` for the majority class.
    """

    name: str
    test_accuracy: tuple[float, ...]
    validation_accuracy: tuple[float, ...]
    trials: tuple[int, ...]
    parameters: int
    hidden_channels: int | None
    seconds: float
    train_options: tuple[str, ...] | None = None

    @property
    def candidate(self) -> Candidate:
        """The model."""
        return CANDIDATES[self.name]

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation of the test accuracy."""
        return summarise(self.test_accuracy)


@dataclass(frozen=True)
class TableComparison:
    """The results of all models, simplest first, and what follows from them."""

    results: tuple[CandidateResult, ...]
    test_to_train: float

    def of(self, name: str) -> CandidateResult:
        """Return the result of one model."""
        return next(result for result in self.results if result.name == name)

    def difference(self, ours: str, baseline: str) -> PairedDifference:
        """Return the paired difference of two models, corrected for overlapping splits."""
        return paired_difference(
            self.of(ours).test_accuracy,
            self.of(baseline).test_accuracy,
            test_to_train=self.test_to_train,
        )

    def best(self, *products: str) -> str | None:
        """Return the model of these kinds with the best validation accuracy, simpler first."""
        found = [r for r in self.results if not products or r.candidate.products in products]
        best = max(found, key=lambda result: fmean(result.validation_accuracy), default=None)
        return None if best is None else best.name

    @property
    def crosses_help(self) -> bool | None:
        """Whether the best model with crosses beats the best one without crosses or perceptron.

        Validation accuracy chooses both models. Crosses help if the whole confidence interval
        of the difference in test accuracy is above zero. ``None`` if there is nothing to
        compare, or a single split.
        """
        ours, plain = self.best("crosses"), self.best("none")
        interval = self.difference(ours, plain).interval() if ours and plain else None
        return None if interval is None else interval[0] > 0

    @property
    def recommended(self) -> str:
        """The simplest model that the best one by validation does not beat on test nodes.

        With a single split there is no interval, and the best model is recommended.
        """
        best = self.best()
        assert best is not None
        for result in self.results:
            interval = self.difference(best, result.name).interval()
            if result.name == best or (interval is not None and interval[0] <= 0):
                return result.name
        return best


class TableExperiment:
    """Candidates to be tuned and trained on the same splits.

    Args:
        names: The candidates; defaults to all.
        num_trials: How many of :data:`~crossgcn.experiments.candidates.TRIALS` to try.
        settings: Settings of :class:`~crossgcn.RunConfig` for every model. The sizes of the
            other models are matched to ours with these ``hidden_channels``.
    """

    def __init__(
        self,
        data: Data,
        names: Sequence[str] | None = None,
        *,
        num_trials: int = DEFAULT_TRIALS,
        settings: Mapping[str, Any],
    ) -> None:
        names = list(CANDIDATES if names is None else names)
        for name in names:
            if name not in CANDIDATES:
                raise unknown_name("model", name, CANDIDATES)
        if not 1 <= num_trials <= len(TRIALS):
            raise BadInput(
                f"--tuning is 1 to {len(TRIALS)} trials for each model; got {num_trials}"
            )
        self.names = [name for name in CANDIDATES if name in names]
        self.num_trials = num_trials
        configs = {
            f"{name}/trial-{number}": _configure(name, data, {**settings, **trial})
            for name in self.names
            if CANDIDATES[name].preset is not None
            for number, trial in enumerate(TRIALS[:num_trials])
        }
        # The majority class alone needs no training, but it needs the splits.
        configs = configs or {"majority": RunConfig.create(**settings)}
        self.experiment = Experiment(list(configs.values()), data, folders=list(configs))

    @property
    def splits(self) -> list[Split]:
        """The splits shared by all models."""
        return self.experiment.splits

    def run(self, **arguments: Any) -> TableComparison:
        """Train every model; the arguments are those of :meth:`crossgcn.Experiment.run`."""
        runs: list[RepeatedRuns] = []
        if self.names != ["majority"]:
            runs = self.experiment.run(**arguments)
        results = []
        for name in self.names:
            if CANDIDATES[name].preset is None:
                results.append(self._majority(name))
            else:
                results.append(_choose_trials(name, runs[: self.num_trials]))
                runs = runs[self.num_trials :]
        return TableComparison(tuple(results), self.experiment.test_to_train)

    def _majority(self, name: str) -> CandidateResult:
        y, splits = self.experiment.data.y, self.splits
        test = tuple(majority_accuracy(y, split.train, split.test) for split in splits)
        validation = tuple(majority_accuracy(y, split.train, split.validation) for split in splits)
        return CandidateResult(name, test, validation, (0,) * len(splits), 0, None, 0.0)


def majority_accuracy(y: Tensor, train: Tensor, nodes: Tensor) -> float:
    """Return the accuracy of predicting the commonest class of the training nodes."""
    commonest = torch.bincount(y[train]).argmax()
    return float((y[nodes] == commonest).double().mean())


def _choose_trials(name: str, trials: Sequence[RepeatedRuns]) -> CandidateResult:
    """Take the trial with the best validation accuracy in each split."""
    by_split = list(zip(*(runs.records for runs in trials), strict=True))
    chosen = [
        max(range(len(trials)), key=lambda trial: records[trial]["validation_accuracy"])
        for records in by_split
    ]
    picked = [records[trial] for records, trial in zip(by_split, chosen, strict=True)]
    config = trials[mode(chosen)].config
    return CandidateResult(
        name,
        tuple(record["test_accuracy"] for record in picked),
        tuple(record["validation_accuracy"] for record in picked),
        tuple(chosen),
        picked[0]["parameters"],
        config.hidden_channels if config.num_layers > 1 else None,
        fsum(runs.seconds for runs in trials),
        _train_options(config),
    )


def _configure(name: str, data: Data, settings: Mapping[str, Any]) -> RunConfig:
    config = _make_config(CANDIDATES[name], settings)
    if not CANDIDATES[name].matched:
        return config
    wanted = _count_parameters(_make_config(CANDIDATES[MATCHED], settings), data)

    def excess(width: int) -> int:
        wider = config.model_copy(update={"hidden_channels": width})
        return _count_parameters(wider, data) - wanted

    if excess(1) == excess(2):  # a single layer has no width to choose
        return config
    high = 1
    while excess(high) < 0:
        high *= 2
    enough = bisect_left(range(high + 1), 0, 1, high, key=excess)
    width = min((w for w in (enough - 1, enough) if w >= 1), key=lambda w: abs(excess(w)))
    return config.model_copy(update={"hidden_channels": width})


def _make_config(candidate: Candidate, settings: Mapping[str, Any]) -> RunConfig:
    values = {**settings, "model": candidate.preset, **candidate.settings}
    if "order" in values:
        values["order"] = first_layer_crosses(values["order"], values.get("num_layers", 2))
    return RunConfig.create(**values)


def _train_options(config: RunConfig) -> tuple[str, ...]:
    """Return the options of ``crossgcn train`` that give this configuration on tables."""
    words = ["--model", config.model, "--num-layers", str(config.num_layers)]
    if isinstance(config.order, tuple):
        words += ["--order", ",".join(map(str, config.order))]
    if config.aggregate_first is False:
        words.append("--transform-first")
    if config.num_layers > 1:
        words += ["--hidden-channels", str(config.hidden_channels)]
    decay = f"{config.weight_decay:g}"
    return (*words, "--dropout", f"{config.dropout:g}", "--weight-decay", decay)


def _count_parameters(config: RunConfig, data: Data) -> int:
    with torch.device("meta"):  # takes no memory
        model = build_model(
            config.model, data.x.size(1), data.num_classes, **config.model_settings()
        )
    return sum(weight.numel() for weight in model.parameters())
