"""Everything the report of a run on a user's tables says, before it becomes a page.

These are plain values: the page knows nothing of models, and whoever fills them
knows nothing of the page. Accuracies and probabilities are fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crossgcn.reports.run_crosses import ClassCrosses, FieldStrengths
from crossgcn.reports.run_nodes import NodeView
from crossgcn.reports.run_scores import Calibration, Confusion

__all__ = [
    "ColumnView",
    "ComparedModel",
    "Comparison",
    "Curve",
    "LayerWeights",
    "RunView",
    "Sizes",
    "TrainedModel",
]


@dataclass(frozen=True)
class Sizes:
    """How big the data is.

    Attributes:
        nodes: Rows of the node table.
        labelled: Nodes whose class is known.
        edges: Undirected, each once.
        features: Columns of the encoded matrix.
        fields: Columns of the table that were encoded.
        classes: Names in the order of the model's outputs, with how many nodes are of each.
    """

    nodes: int
    labelled: int
    edges: int
    features: int
    fields: int
    classes: Mapping[str, int]


@dataclass(frozen=True)
class TrainedModel:
    """What was trained.

    Attributes:
        name: The preset.
        num_layers: Its depth.
        orders: The order of the crosses in each layer; 1 where there are none.
        hidden_channels: The width between layers; none with a single layer.
        parameters: How many numbers were learned.
        epochs: At most so many.
        settings: All else worth knowing, as words: dropout, learning rate, seed.
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
    """What one column of the node table was taken for.

    Attributes:
        name: Its header.
        kind: What it was taken for.
        reason: Why, in a few words.
    """

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Curve:
    """One training, epoch by epoch; what was not recorded is empty.

    Attributes:
        epochs: Their numbers, from 1.
        train_loss: On the training nodes.
        validation_loss: On the validation nodes.
        validation_accuracy: Likewise.
        chosen_epoch: Whose weights were kept.
    """

    epochs: tuple[int, ...]
    train_loss: tuple[float, ...]
    validation_loss: tuple[float, ...]
    validation_accuracy: tuple[float, ...]
    chosen_epoch: int


@dataclass(frozen=True)
class LayerWeights:
    """What one layer gives each order: the paper's α.

    Attributes:
        weights: A row for each split, in it a weight for each order from 1.
        learned: Whether training chose them.
    """

    weights: tuple[tuple[float, ...], ...]
    learned: bool = True


@dataclass(frozen=True)
class ComparedModel:
    """One model of a comparison.

    Attributes:
        name: As the comparison calls it.
        test_accuracy: Of each split.
        parameters: How many numbers it learns, where that is meaningful.
    """

    name: str
    test_accuracy: tuple[float, ...]
    parameters: int | None = None


@dataclass(frozen=True)
class Comparison:
    """Whether crosses help on these tables.

    Attributes:
        models: All that were compared, in the order in which they are shown.
        with_crosses: The name of the model with crosses that was judged, if any was.
        without_crosses: The name of the one it was held against.
        difference: Mean over the splits of the difference in accuracy.
        interval: Its 95 % confidence interval; none for a single split.
        crosses_help: The answer; none where nothing was judged, or on a single split.
        verdict: The answer in a sentence.
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
        title: What the data is called.
        target: The column that is predicted.
        sizes: How big the data is.
        model: What was trained.
        environment: What the record says it was made with: versions (by package), commit, threads.
        recorded: When the run was made, as the record has it.
        columns: What each was taken for.
        warnings: What the check of the tables found, a sentence each.
        test_accuracy: Of each split.
        majority_accuracy: Of always naming the commonest class, on the same test nodes.
        shown_split: The one (from 1) whose model is shown wherever a single one is.
        curves: One for each split.
        confusion: Of the test nodes of the split shown.
        calibration: Of the same nodes.
        order_weights: One for each layer; empty for a model without crosses.
        crosses: What speaks for and against each class.
        fields: How strongly columns are crossed; none for a model without crosses.
        comparison: Where one was made.
        nodes: Those that can be looked up, the ones most worth keeping first.
        num_nodes: How many there are in all.
        completeness: Share of the logits that the contributions account for; 1 is exact.
    """

    title: str
    target: str
    sizes: Sizes
    model: TrainedModel
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
    comparison: Comparison | None
    nodes: tuple[NodeView, ...]
    num_nodes: int
    completeness: float | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names, in the order of the model's outputs."""
        return tuple(self.sizes.classes)
