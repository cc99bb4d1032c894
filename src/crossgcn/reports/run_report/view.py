"""The contents of a run report as plain values, before they become a page.

The page knows nothing of models, and :mod:`~crossgcn.reports.run_report.collect`, which fills
these classes, knows nothing of the page. Shares and probabilities are fractions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from crossgcn.reports.run_report.scores import Calibration, Confusion, Errors

Role = Literal["train", "validation", "test", "unlabelled", "other"]


class CrossView(NamedTuple):
    """A cross, or a single feature, of one class.

    Attributes:
        name: As users read it: ``gender=female & age=[20, 25)``; ``members`` are its features.
        strength: Weight times occurrence, with its sign.
        weight: What one occurrence adds to the score of the class.
        support: Number of nodes that have it.
        stability: Share of the splits whose model has it among its strongest with the same sign.
        accuracy_drop: Accuracy lost without it; negative for a gain.
    """

    name: str
    members: tuple[str, ...]
    strength: float
    weight: float
    support: int
    stability: float | None = None
    accuracy_drop: float | None = None


class ClassCrosses(NamedTuple):
    """The strongest crosses and single features (``terms``) of one class, strongest first."""

    class_name: str
    crosses: tuple[CrossView, ...]
    terms: tuple[CrossView, ...]


class TermView(NamedTuple):
    """A term of columns.

    Attributes:
        name: Its columns, such as ``income × neighbours: income``.
        importance: Standard deviation over nodes, in the unit of the score.
        error: Its standard error, if there is one.
        inside: Its largest cells or its slope, in words.
    """

    name: str
    importance: float
    error: float | None
    inside: str


class ScoreTerms(NamedTuple):
    """The most important terms of one score, called ``title``, the most important first."""

    title: str
    terms: tuple[TermView, ...]


class FieldStrengths(NamedTuple):
    """How strongly columns of the table are crossed: a symmetric matrix of sums of |strength|."""

    fields: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


class Step(NamedTuple):
    """One bar of a waterfall: a feature or cross, and what it adds to the logit."""

    label: str
    contribution: float


@dataclass(frozen=True)
class NodeView:
    """One node, its prediction, and why.

    Attributes:
        true_class: Position among the classes; ``None`` if unknown.
        probability: Of the predicted class.
        role: What the shown model used the node for.
        start: The score of the predicted class without any feature (its bias), or, of a sum of
            terms of columns, the average over nodes.
        steps: The largest contributions; the page adds the rest as one bar.
        total: The score.
    """

    id: str
    true_class: int | None
    predicted_class: int
    probability: float
    role: Role
    start: float
    steps: tuple[Step, ...]
    total: float

    @property
    def rest(self) -> float:
        """The contributions that are not among the steps."""
        return self.total - self.start - math.fsum(step.contribution for step in self.steps)


class ColumnView(NamedTuple):
    """A column of the node table, what it was taken for, and why."""

    name: str
    kind: str
    reason: str


class Curve(NamedTuple):
    """The learning curve of one run: its metrics by name, with ``epoch`` among them."""

    metrics: Mapping[str, Sequence[float]]
    chosen_epoch: int


class LayerWeights(NamedTuple):
    """The order weights (the paper's α) of one layer.

    Attributes:
        weights: One row per split, with a weight for each order from 1.
        learned: Whether they were trained.
    """

    weights: tuple[tuple[float, ...], ...]
    learned: bool = True


class ComparedModel(NamedTuple):
    """One model of a comparison; ``parameters`` is ``None`` where it has no meaning."""

    name: str
    test: tuple[float, ...]
    parameters: int | None = None


class ComparisonView(NamedTuple):
    """The answer of ``compare``: whether crosses help on these tables.

    Attributes:
        with_crosses: Name of the judged model with crosses, if any.
        without_crosses: Name of the model it was compared with.
        difference: Mean difference in the metric over the splits.
        interval: Its 95 % confidence interval; ``None`` for a single split.
        crosses_help: ``None`` if nothing was judged, or if that cannot be told.
        verdict: The answer in words.
        metric: What the models were compared by.
    """

    models: tuple[ComparedModel, ...]
    with_crosses: str | None
    without_crosses: str | None
    difference: float | None
    interval: tuple[float, float] | None
    crosses_help: bool | None
    verdict: str
    metric: str = "accuracy"


@dataclass(frozen=True)
class RunView:
    """The whole report.

    Attributes:
        class_sizes: Number of nodes of each class, in the order of the model's outputs; empty
            if a number is predicted.
        target_range: Smallest and largest number among the labels; ``None`` for classes.
        num_columns: Columns of the table that were encoded.
        has_crosses: Whether any layer of the model multiplies features.
        facts: How the run was made: settings, sizes, versions, as text.
        warnings: Warnings of the table checks, one sentence each.
        test: One value per split for each metric; the first metric is the headline, which also
            selected the epochs.
        guess: Accuracy of always predicting the most frequent class; of numbers, the root mean
            squared error of always predicting the mean.
        shown_split: The split (from 1) whose model is shown wherever a single one is.
        confusion: Of the test nodes of the shown split; ``None`` for numbers.
        calibration: Likewise.
        errors: Likewise; ``None`` for classes.
        order_weights: One per layer with crosses.
        crosses: One per class; empty for a model that is not explained.
        terms: Of a sum of terms of columns, one for each score.
        unexplained: Why it is not explained, as a sentence.
        fields: ``None`` for a model without crosses.
        nodes: Nodes that can be looked up, the most important first.
        completeness: Share of the logits that the named contributions account for.
    """

    title: str
    target: str
    num_nodes: int
    num_edges: int
    num_columns: int
    class_sizes: Mapping[str, int]
    model: str
    has_crosses: bool
    facts: Mapping[str, str]
    columns: tuple[ColumnView, ...]
    warnings: tuple[str, ...]
    test: Mapping[str, tuple[float, ...]]
    guess: float
    shown_split: int
    curves: tuple[Curve, ...]
    confusion: Confusion | None
    calibration: Calibration | None
    order_weights: tuple[LayerWeights, ...]
    crosses: tuple[ClassCrosses, ...]
    fields: FieldStrengths | None
    comparison: ComparisonView | None
    nodes: tuple[NodeView, ...]
    completeness: float | None = None
    errors: Errors | None = None
    target_range: tuple[float, float] | None = None
    terms: tuple[ScoreTerms, ...] = ()
    unexplained: str = ""

    @property
    def metric(self) -> str:
        """The metric that selected the epochs."""
        return next(iter(self.test))

    @property
    def beats_guess(self) -> bool:
        """Whether the model is better than a guess that looks at no column."""
        if self.errors is not None:
            return fmean(self.test["rmse"]) < self.guess
        if self.metric == "roc_auc":
            return fmean(self.test["roc_auc"]) > 0.5
        return fmean(self.test["accuracy"]) > self.guess

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the model's outputs."""
        return tuple(self.class_sizes)
