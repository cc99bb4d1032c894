"""Do crosses help on this graph? Every model tuned alike, paired over splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import fmean, mode
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, unknown_name
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, MATCHED, TRIALS, Candidate
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.statistics import PairedDifference, Summary, paired_difference, summarise
from crossgcn.models.presets import first_layer_crosses
from crossgcn.models.registry import build_model
from crossgcn.training.config import RunConfig
from crossgcn.training.pool import train_many
from crossgcn.training.trainer import Record, Run


@dataclass(frozen=True)
class CandidateResult:
    """One model over all splits, tuned in each.

    Attributes:
        name: In :data:`~crossgcn.experiments.candidates.CANDIDATES`.
        test_accuracy: Of the trial that validation chose, one per split.
        validation_accuracy: Of the same.
        trials: Which trial that was.
        parameters: How many numbers it learns.
        hidden_channels: Its width; none where it has no hidden layer.
        seconds: Of all its runs, added up.
        train_options: Of ``crossgcn train``, to train it with the trial that most splits chose;
            none for the majority class.
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
        """What it is."""
        return CANDIDATES[self.name]

    @property
    def summary(self) -> Summary:
        """Mean and standard deviation of the test accuracy."""
        return summarise(self.test_accuracy)


@dataclass(frozen=True)
class TableComparison:
    """All models, and what follows.

    Attributes:
        results: In the order of the candidates, simplest first.
        test_to_train: Test nodes for each training node where splits share their nodes, for the
            intervals; else 0.
    """

    results: tuple[CandidateResult, ...]
    test_to_train: float

    def of(self, name: str) -> CandidateResult:
        """The result of one model."""
        return next(result for result in self.results if result.name == name)

    def difference(self, ours: str, baseline: str) -> PairedDifference:
        """Paired over the splits, corrected for their overlap."""
        return paired_difference(
            self.of(ours).test_accuracy,
            self.of(baseline).test_accuracy,
            test_to_train=self.test_to_train,
        )

    def best(self, *products: str) -> str | None:
        """The model of these kinds with the best validation accuracy; of equals the simpler."""
        found = [r for r in self.results if not products or r.candidate.products in products]
        best = max(found, key=lambda result: fmean(result.validation_accuracy), default=None)
        return None if best is None else best.name

    @property
    def crosses_help(self) -> bool | None:
        """Whether the best model with crosses beats the best with neither these nor a perceptron.

        Both are chosen by validation accuracy; their test accuracies are then compared, and
        the whole interval has to be above zero. None where there is nothing to compare, or a
        single split.
        """
        ours, plain = self.best("crosses"), self.best("none")
        interval = self.difference(ours, plain).interval() if ours and plain else None
        return None if interval is None else interval[0] > 0

    @property
    def recommended(self) -> str:
        """The simplest model that the best one, by validation, does not beat on test nodes.

        With a single split nothing can be said to be beaten; the best one is then taken.
        """
        best = self.best()
        assert best is not None
        for result in self.results:
            interval = self.difference(best, result.name).interval()
            if result.name == best or (interval is not None and interval[0] <= 0):
                return result.name
        return best


class TableExperiment:
    """The candidates, to be tuned and trained on the same splits.

    Args:
        data: The graph.
        names: Which candidates; all when left out.
        num_trials: How many of :data:`~crossgcn.experiments.compare.TRIALS` each is given.
        settings: What all share: splits, epochs, seed and so on, as of
            :class:`~crossgcn.RunConfig`, and ``hidden_channels`` of ours, to which the
            others are matched.
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
        self.configs = {
            name: [_configure(name, data, {**settings, **trial}) for trial in TRIALS[:num_trials]]
            for name in self.names
            if CANDIDATES[name].preset is not None
        }
        configs = [config for trials in self.configs.values() for config in trials]
        # With the majority class alone there is nothing to train, but splits are still needed.
        self.experiment = Experiment(configs or [RunConfig.create(**settings)], data)

    @property
    def splits(self) -> list[Split]:
        """The same for all."""
        return self.experiment.splits

    def run(
        self,
        *,
        out: Path | None = None,
        workers: int = 1,
        threads: int = 1,
        device: str = "cpu",
        on_epochs: Callable[[int, int], None] | None = None,
    ) -> TableComparison:
        """Train everything; arguments as of :meth:`crossgcn.Experiment.run`."""
        runs = [(name, run) for name in self.configs for run in self._runs_of(name, out)]
        total, done = sum(run.config.epochs for _, run in runs), 0

        def count(epochs: int) -> None:
            nonlocal done
            done += epochs
            if on_epochs is not None:
                on_epochs(done, total)

        workload = self.experiment.workload(threads=threads, device=device)
        records = train_many(workload, [run for _, run in runs], workers=workers, on_epochs=count)
        of_model: dict[str, list[Record]] = {name: [] for name in self.names}
        for (name, _), record in zip(runs, records, strict=True):
            of_model[name].append(record)
        return TableComparison(
            tuple(self._result(name, of_model[name]) for name in self.names),
            self.experiment.test_to_train,
        )

    def _runs_of(self, name: str, out: Path | None) -> Iterator[Run]:
        for trial, config in enumerate(self.configs[name]):
            adopted = config.model_copy(update={"dataset": self.experiment.data.name})
            folder = None if out is None else out / name / f"trial-{trial}"
            yield from self.experiment.runs_of(adopted, folder)

    def _result(self, name: str, records: Sequence[Record]) -> CandidateResult:
        if not records:
            y = self.experiment.data.y
            accuracies = tuple(
                majority_accuracy(y, split.train, split.test) for split in self.splits
            )
            validation = tuple(
                majority_accuracy(y, split.train, split.validation) for split in self.splits
            )
            return CandidateResult(
                name, accuracies, validation, (0,) * len(self.splits), 0, None, 0.0
            )
        per_trial = len(records) // len(self.configs[name])
        chosen = [
            max(
                range(len(self.configs[name])),
                key=lambda trial: records[trial * per_trial + at]["validation_accuracy"],
            )
            for at in range(per_trial)
        ]
        picked = [records[trial * per_trial + at] for at, trial in enumerate(chosen)]
        config = self.configs[name][0]
        return CandidateResult(
            name,
            tuple(record["test_accuracy"] for record in picked),
            tuple(record["validation_accuracy"] for record in picked),
            tuple(chosen),
            records[0]["parameters"],
            config.hidden_channels if config.num_layers > 1 else None,
            fsum(record["seconds"] for record in records),
            _train_options(self.configs[name][mode(chosen)]),
        )


def majority_accuracy(y: Tensor, train: Tensor, nodes: Tensor) -> float:
    """How often the commonest class of the training nodes is right."""
    commonest = torch.bincount(y[train]).argmax()
    return float((y[nodes] == commonest).double().mean())


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
    low, high = 1, 1
    while excess(high) < 0:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle + 1, high)
    width = min((w for w in (low - 1, low) if w >= 1), key=lambda w: abs(excess(w)))
    return config.model_copy(update={"hidden_channels": width})


def _make_config(candidate: Candidate, settings: Mapping[str, Any]) -> RunConfig:
    values = {**settings, "model": candidate.preset, **candidate.settings}
    if "order" in values:
        values["order"] = first_layer_crosses(values["order"], values.get("num_layers", 2))
    return RunConfig.create(**values)


def _train_options(config: RunConfig) -> tuple[str, ...]:
    """How ``crossgcn train`` is told to do the same on tables."""
    words = ["--model", config.model, "--num-layers", str(config.num_layers)]
    if isinstance(config.order, tuple):
        words += ["--order", ",".join(map(str, config.order))]
    if config.aggregate_first is False:
        words.append("--transform-first")
    if config.num_layers > 1:
        words += ["--hidden-channels", str(config.hidden_channels)]
    return (
        *words,
        "--dropout",
        f"{config.dropout:g}",
        "--weight-decay",
        f"{config.weight_decay:g}",
    )


def _count_parameters(config: RunConfig, data: Data) -> int:
    """Without the memory that a model takes."""
    with torch.device("meta"):
        model = build_model(
            config.model, data.x.size(1), data.num_classes, **config.model_settings()
        )
    return sum(weight.numel() for weight in model.parameters())
