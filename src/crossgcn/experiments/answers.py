"""The results of a comparison on tables: do crosses, the graph or a black box help?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from crossgcn.experiments.candidates import CANDIDATES, CONSTANT, Candidate
from crossgcn.experiments.statistics import PairedDifference, paired_difference
from crossgcn.training.metrics import METRICS, smallest_that_matters

Verdict = Literal["helps", "does not help", "cannot tell"]

_ENOUGH_SPLITS = 5
"""With fewer splits, not beating a constant leaves the question open."""


@dataclass(frozen=True)
class CandidateResult:
    """One model over all splits, tuned in each.

    Attributes:
        test: One value per split for each metric, of the trial that validation chose.
        validation: Validation score of that trial; it should grow.
        trials: The chosen trial of each split.
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


@dataclass(frozen=True)
class QuestionAnswer:
    """Two models that validation chose, compared on the test nodes.

    Attributes:
        model: The model with crosses, with the graph, or the black box.
        against: The model without them, or the glass box.
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
        protocol: What was trained on which splits, for the summary.
    """

    results: tuple[CandidateResult, ...]
    test_to_train: float
    task: str = "binary"
    constant: CandidateResult | None = None
    protocol: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The metric that selects."""
        return self.results[0].metric

    def of(self, name: str) -> CandidateResult:
        """Return the result of one model; the constant's also if it is not among the others."""
        known = [*self.results, *([] if self.constant is None else [self.constant])]
        return next(result for result in known if result.name == name)

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
        """The best model with crosses against its twin without them."""
        names = {result.name for result in self.results}
        ours = self.best(lambda result: result.candidate.twin in names)
        return None if ours is None else self._answer(ours, self.of(ours).candidate.twin)

    @property
    def graph(self) -> QuestionAnswer | None:
        """The best model that sees neighbours against the best one on own columns."""
        return self._answer(
            self.best(lambda result: result.candidate.sees_graph),
            self.best(lambda result: result.candidate.columns == "own"),
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
        """The simplest glass box that is as good as the best one, by validation scores.

        As good means: not worse by more than one standard error of the paired difference. A model
        that reads neighbours is not recommended if the graph does not help, and one with crosses
        not if these do not help. A black box is recommended only if no glass box of this package
        was compared. The constant is recommended if the model is not shown to beat it on the test
        nodes: validation nodes, which select epochs and columns, flatter every model.
        """
        glass = [r for r in self.results if r.candidate.is_recommended]
        glass = glass or [r for r in self.results if r.candidate.estimator is None]
        glass = glass or list(self.results)
        graph, crosses = self.graph, self.crosses
        if graph is not None and graph.verdict == "does not help":
            glass = [r for r in glass if not r.candidate.sees_graph] or glass
        if crosses is not None and crosses.verdict == "does not help":
            glass = [r for r in glass if r.candidate.twin != crosses.against] or glass
        best = max(glass, key=lambda r: fmean(r.validation))
        chosen = next(r for r in glass if not self._is_worse(r, best))
        is_decided = len(chosen.scores) >= _ENOUGH_SPLITS
        return CONSTANT if is_decided and self._is_like_constant(chosen.name) else chosen.name

    @property
    def better(self) -> str | None:
        """A model that ``train`` cannot make and that validates better than the recommended one."""
        chosen = self.of(self.recommended)
        others = [r for r in self.results if r.candidate.estimator not in (None, "constant")]
        best = max(others, key=lambda r: fmean(r.validation), default=None)
        if best is None or not self._is_worse(chosen, best) or self._is_like_constant(best.name):
            return None
        return best.name

    def _is_worse(self, one: CandidateResult, best: CandidateResult) -> bool:
        """Return whether validation scores are lower by more than one paired standard error."""
        gap = paired_difference(best.validation, one.validation)
        error = gap.standard_error
        if error is None or math.isnan(error):
            error = smallest_that_matters(self.metric, fmean(best.validation))
        return gap.mean > error

    def _answer(self, model: str | None, against: str | None) -> QuestionAnswer | None:
        """Judge by the plain interval; a model must also beat a constant by the corrected one."""
        if model is None or against is None:
            return None
        difference = self.difference(model, against)
        corrected = self.difference(model, against, corrected=True)
        is_constant = self._is_like_constant(model)
        low, high = self._gain(difference)
        verdict: Verdict = "cannot tell"
        if low > 0 and not is_constant:
            verdict = "helps"
        elif high < smallest_that_matters(self.metric, fmean(self.of(against).scores)) or (
            is_constant and difference.count >= _ENOUGH_SPLITS and not math.isnan(low)
        ):
            verdict = "does not help"
        return QuestionAnswer(model, against, difference, corrected, verdict, is_constant)

    def _is_like_constant(self, name: str) -> bool:
        """Return whether a model is not shown to beat the constant, if that was measured."""
        measured = {result.name: result for result in (*self.results, self.constant) if result}
        if name == CONSTANT or CONSTANT not in measured:
            return False
        constant = measured[CONSTANT].scores
        over = paired_difference(self.of(name).scores, constant, test_to_train=self.test_to_train)
        return self._gain(over)[0] <= 0

    def _gain(self, difference: PairedDifference) -> tuple[float, float]:
        """Return the interval such that positive numbers are better; NaN for a single split."""
        low, high = difference.interval() or (math.nan, math.nan)
        return (low, high) if METRICS[self.metric].greater_is_better else (-high, -low)
