"""Who takes part in a search, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from pathlib import Path

from crossgcn.evaluation.repeats import RepeatedRuns
from crossgcn.evaluation.search_space import Space
from crossgcn.evaluation.statistics import PairedDifference, paired_difference
from crossgcn.evaluation.tuning_trials import Trial
from crossgcn.training.config import RunConfig

__all__ = ["Contestant", "TunedModel", "TuningResult"]


@dataclass(frozen=True)
class Contestant:
    """A model whose settings are searched.

    Attributes:
        base: The settings that are not.
        space: Those that are.
    """

    base: RunConfig
    space: Space


@dataclass(frozen=True)
class TunedModel:
    """What came of one model's search.

    Attributes:
        contestant: What was searched.
        trials: All trials, failed ones included.
        chosen: The one of the best mean validation accuracy; of equals the first.
        config: Its settings, for :class:`~crossgcn.Experiment` or a file.
        runs: The chosen settings over all splits, test nodes read.
        folder: A saved model, of the run with the best validation accuracy.
        test_reads: For how many choices test nodes were read in this folder; above 1 where a
            finished search was continued and chose again.
    """

    contestant: Contestant
    trials: tuple[Trial, ...]
    chosen: Trial
    config: RunConfig
    runs: RepeatedRuns
    folder: Path
    test_reads: int

    @property
    def seconds(self) -> float:
        """Time spent in all runs, added up."""
        return fsum(trial.seconds for trial in self.trials) + self.runs.seconds


@dataclass(frozen=True)
class TuningResult:
    """A tuned model and, where one was asked for, its twin, tuned by as many trials."""

    ours: TunedModel
    twin: TunedModel | None

    @property
    def difference(self) -> PairedDifference | None:
        """Ours against the twin on test nodes, split by split."""
        if self.twin is None:
            return None
        return paired_difference(
            self.ours.runs.test_accuracy,
            self.twin.runs.test_accuracy,
            test_to_train=self.ours.runs.test_to_train,
        )
