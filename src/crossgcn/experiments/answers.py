"""The results of a comparison on tables: do crosses, the graph or a black box help?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any, Literal

from crossgcn.experiments.candidates import CONSTANT, Candidate, find_candidate
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
        validation: Validation score of that trial in each split; greater is better.
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
        return find_candidate(self.name)

    @property
    def scores(self) -> tuple[float, ...]:
        """The metric that selects, on the test nodes of each split."""
        return self.test[self.metric]


@dataclass(frozen=True)
class QuestionAnswer:
    """Two models chosen on the validation nodes and compared on the test nodes.

    Attributes:
        model: The model with crosses, with the graph, or the black box.
        against: The model without crosses, without the graph, or the glass box.
        difference: Mean difference of the metric, ``model`` minus ``against``.
        interval: 95 % interval over random splits of this table; ``None`` for one split.
        corrected_interval: The interval for a new table of the same kind.
        verdict: Whether ``model`` is better on this table.
        beats_constant: Whether ``model`` is shown to be better than predicting a constant.
    """

    model: str
    against: str
    difference: float
    interval: tuple[float, float] | None
    corrected_interval: tuple[float, float] | None
    verdict: Verdict
    beats_constant: bool


@dataclass(frozen=True)
class TableComparison:
    """The results of all models, in the order of the candidates, and the conclusions.

    The splits are drawn from one table, so the plain paired interval holds for the mean gain on
    this table. Gains vary more on a new table of the same kind; Nadeau and Bengio's correction
    accounts for that. Even without any signal one model can be better on this table, so a model
    must also beat a constant by the corrected interval.

    Attributes:
        test_to_train: Argument of :func:`~crossgcn.paired_difference` for corrected intervals.
        constant: The result of the constant, if it is not among ``results``.
        protocol: What was trained on which splits, for the summary.
        without: By name of a relation, a model that was trained without it.
    """

    results: tuple[CandidateResult, ...]
    test_to_train: float
    task: str = "binary"
    constant: CandidateResult | None = None
    protocol: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, CandidateResult] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The metric that selects."""
        return self.results[0].metric

    @cached_property
    def _by_name(self) -> dict[str, CandidateResult]:
        every = (*self.results, self.constant, *self.without.values())
        return {each.name: each for each in every if each is not None}

    def of(self, name: str) -> CandidateResult:
        """Return the result of one model, or of the constant."""
        return self._by_name[name]

    def difference(self, ours: str, baseline: str, *, corrected: bool = False) -> PairedDifference:
        """Return the paired difference of two models, for this table or corrected for new ones."""
        return paired_difference(
            self.of(ours).scores,
            self.of(baseline).scores,
            test_to_train=self.test_to_train if corrected else 0.0,
        )

    @property
    def crosses(self) -> QuestionAnswer | None:
        """The best model with crosses against its twin without them."""
        ours = _best(each for each in self.results if each.candidate.twin in self._by_name)
        return self._answer(ours, ours and self.of(str(ours.candidate.twin)))

    @property
    def graph(self) -> QuestionAnswer | None:
        """The best model that sees neighbours against the best one on own columns."""
        return self._answer(
            _best(each for each in self.results if each.candidate.sees_graph),
            _best(each for each in self.results if each.candidate.columns == "own"),
        )

    @property
    def relations(self) -> dict[str, QuestionAnswer]:
        """For each of several relations, a model with it against the same model without it."""
        answers = {
            name: self._answer(self.of(each.name.removesuffix(f" without {name}")), each)
            for name, each in self.without.items()
        }
        return {name: answer for name, answer in answers.items() if answer is not None}

    @property
    def black_box(self) -> QuestionAnswer | None:
        """The best black box against the best glass box."""
        return self._answer(
            _best(each for each in self.results if not each.candidate.glass_box),
            _best(each for each in self.results if each.candidate.glass_box),
        )

    @property
    def recommended(self) -> str:
        """The simplest glass box within one standard error of the best validation score.

        The standard error is that of the paired difference. A model that reads neighbours is not
        recommended if the graph does not help, nor one with crosses if crosses do not help. A black
        box is recommended only if no glass box of this package was compared. The constant is
        recommended if the model is not shown to beat it on the test nodes: validation scores are
        optimistic, because validation nodes select epochs and columns.
        """
        graph, crosses = self.graph, self.crosses
        no_graph = graph is not None and graph.verdict == "does not help"
        plain = None
        if crosses is not None and crosses.verdict == "does not help":
            plain = crosses.against
        models = list(self.results)
        conditions: tuple[Callable[[Candidate], bool], ...] = (
            lambda each: each.estimator in (None, "constant"),
            lambda each: each.preset == "cross-hops",
            lambda each: not (no_graph and each.sees_graph),
            lambda each: plain is None or each.twin != plain,
        )
        for condition in conditions:  # one that no model meets is skipped
            models = [each for each in models if condition(each.candidate)] or models
        best = max(models, key=_validation)
        chosen = next(each for each in models if not self._is_worse(each, best))
        is_decided = len(chosen.scores) >= _ENOUGH_SPLITS
        return CONSTANT if is_decided and self._is_like_constant(chosen.name) else chosen.name

    @property
    def better(self) -> str | None:
        """A model that validates better than the recommended one and that ``train`` lacks."""
        best = _best(r for r in self.results if r.candidate.estimator not in (None, "constant"))
        if best is None or self._is_like_constant(best.name):
            return None
        return best.name if self._is_worse(self.of(self.recommended), best) else None

    def _is_worse(self, one: CandidateResult, best: CandidateResult) -> bool:
        """Return whether validation scores are lower by more than one paired standard error."""
        gap = paired_difference(best.validation, one.validation)
        error = gap.standard_error
        if error is None or math.isnan(error):
            error = smallest_that_matters(self.metric, fmean(best.validation))
        return gap.mean > error

    def _answer(
        self, model: CandidateResult | None, against: CandidateResult | None
    ) -> QuestionAnswer | None:
        """Compare by the plain interval; a model must beat a constant by the corrected one."""
        if model is None or against is None:
            return None
        names = model.name, against.name
        difference, corrected = self.difference(*names), self.difference(*names, corrected=True)
        beats_constant = not self._is_like_constant(model.name)
        low, high = self._gain(difference)
        verdict: Verdict = "cannot tell"
        if low > 0 and beats_constant:
            verdict = "helps"
        elif high < smallest_that_matters(self.metric, fmean(against.scores)) or not (
            beats_constant or difference.count < _ENOUGH_SPLITS or math.isnan(low)
        ):
            verdict = "does not help"
        intervals = difference.interval(), corrected.interval()
        return QuestionAnswer(*names, difference.mean, *intervals, verdict, beats_constant)

    def _is_like_constant(self, name: str) -> bool:
        """Return whether the constant was measured and a model is not shown to beat it."""
        if name == CONSTANT or CONSTANT not in self._by_name:
            return False
        return self._gain(self.difference(name, CONSTANT, corrected=True))[0] <= 0

    def _gain(self, difference: PairedDifference) -> tuple[float, float]:
        """Return the interval, signed so that greater is better; NaN for a single split."""
        low, high = difference.interval() or (math.nan, math.nan)
        return (low, high) if METRICS[self.metric].greater_is_better else (-high, -low)


def _best(results: Iterable[CandidateResult]) -> CandidateResult | None:
    """Return the model with the best validation score, simpler first."""
    return max(results, key=_validation, default=None)


def _validation(result: CandidateResult) -> float:
    return fmean(result.validation)
