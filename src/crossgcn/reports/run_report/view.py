"""The contents of a run report as plain values, before they become a page.

The page knows nothing of models, and :mod:`~crossgcn.reports.run_report.collect`, which fills
these classes, knows nothing of the page. Accuracies and probabilities are fractions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from crossgcn.reports.run_report.scores import Calibration, Confusion

Role = Literal["train", "validation", "test", "unlabelled", "other"]


@dataclass(frozen=True)
class CrossView:
    """A cross, or a single feature, of one class.

    Attributes:
        name: As users read it: ``gender=female & age=[20, 25)``.
        members: The names of its features.
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


@dataclass(frozen=True)
class ClassCrosses:
    """The strongest crosses and single features (``terms``) of one class, strongest first."""

    class_name: str
    crosses: tuple[CrossView, ...]
    terms: tuple[CrossView, ...]


@dataclass(frozen=True)
class FieldStrengths:
    """How strongly columns of the table are crossed: a symmetric matrix of sums of |strength|."""

    fields: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Step:
    """One bar of a waterfall: a feature or cross, and what it adds to the logit."""

    label: str
    contribution: float


@dataclass(frozen=True)
class NodeView:
    """One node, its prediction, and why.

    Attributes:
        id: As in the user's table.
        true_class: Position among the classes; ``None`` if unknown.
        predicted_class: Position among the classes.
        probability: Of the predicted class.
        role: What the shown model used the node for.
        start: The bias, which is the logit of the predicted class without any feature.
        steps: The largest contributions; the page adds the rest as one bar.
        total: The logit.
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


@dataclass(frozen=True)
class Sizes:
    """The size of the data.

    Attributes:
        nodes: Number of nodes.
        labelled: Number of nodes whose class is known.
        edges: Number of edges; undirected edges count once.
        features: Columns of the encoded matrix.
        fields: Columns of the table that were encoded.
        classes: Number of nodes of each class, in the order of the model's outputs.
    """

    nodes: int
    labelled: int
    edges: int
    features: int
    fields: int
    classes: Mapping[str, int]


@dataclass(frozen=True)
class ModelView:
    """The trained model.

    Attributes:
        orders: Order of the crosses of each layer; 1 for a layer without crosses.
        hidden_channels: ``None`` for a single layer.
        settings: Other settings as text.
    """

    name: str
    num_layers: int
    orders: tuple[int, ...]
    hidden_channels: int | None
    parameters: int
    epochs: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_crosses(self) -> bool:
        """Whether any layer multiplies features."""
        return max(self.orders) > 1


@dataclass(frozen=True)
class ColumnView:
    """A column of the node table, what it was taken for, and why."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Curve:
    """The learning curve of one run; metrics that were not recorded are empty."""

    epochs: tuple[int, ...]
    train_loss: tuple[float, ...]
    validation_loss: tuple[float, ...]
    validation_accuracy: tuple[float, ...]
    chosen_epoch: int


@dataclass(frozen=True)
class LayerWeights:
    """The order weights (the paper's α) of one layer.

    Attributes:
        weights: One row per split, with a weight for each order from 1.
        learned: Whether they were trained.
    """

    weights: tuple[tuple[float, ...], ...]
    learned: bool = True


@dataclass(frozen=True)
class ComparedModel:
    """One model of a comparison; ``parameters`` is ``None`` where it has no meaning."""

    name: str
    test_accuracy: tuple[float, ...]
    parameters: int | None = None


@dataclass(frozen=True)
class ComparisonView:
    """The answer of ``compare``: whether crosses help on these tables.

    Attributes:
        models: In the order in which they are shown.
        with_crosses: Name of the judged model with crosses, if any.
        without_crosses: Name of the model it was compared with.
        difference: Mean difference in accuracy over the splits.
        interval: Its 95 % confidence interval; ``None`` for a single split.
        crosses_help: ``None`` if nothing was judged, or for a single split.
        verdict: The answer in words.
    """

    models: tuple[ComparedModel, ...]
    with_crosses: str | None
    without_crosses: str | None
    difference: float | None
    interval: tuple[float, float] | None
    crosses_help: bool | None
    verdict: str


@dataclass(frozen=True)
class RunView:
    """The whole report.

    Attributes:
        title: Name of the data.
        target: The predicted column.
        environment: Versions, commit, threads and the like, from the record.
        recorded: When the run was made.
        warnings: Warnings of the table checks, one sentence each.
        test_accuracy: One value per split.
        majority_accuracy: Accuracy of always predicting the most frequent class.
        shown_split: The split (from 1) whose model is shown wherever a single one is.
        curves: One per split.
        confusion: Of the test nodes of the shown split; ``calibration`` likewise.
        order_weights: One per layer with crosses.
        crosses: One per class; empty for a model without exact explanation.
        fields: ``None`` for a model without crosses.
        nodes: Nodes that can be looked up, the most important first.
        num_nodes: Number of all nodes.
        completeness: Share of the logits that the named contributions account for.
    """

    title: str
    target: str
    sizes: Sizes
    model: ModelView
    environment: Mapping[str, object]
    recorded: str
    columns: tuple[ColumnView, ...]
    warnings: tuple[str, ...]
    test_accuracy: tuple[float, ...]
    majority_accuracy: float
    shown_split: int
    curves: tuple[Curve, ...]
    confusion: Confusion
    calibration: Calibration
    order_weights: tuple[LayerWeights, ...]
    crosses: tuple[ClassCrosses, ...]
    fields: FieldStrengths | None
    comparison: ComparisonView | None
    nodes: tuple[NodeView, ...]
    num_nodes: int
    completeness: float | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the model's outputs."""
        return tuple(self.sizes.classes)
