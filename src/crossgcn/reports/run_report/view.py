"""Everything the report of a run on a user's tables says, before it becomes a page.

These are plain values: the page knows nothing of models, and whoever fills them
knows nothing of the page. Accuracies and probabilities are fractions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from crossgcn.experiments.statistics import summarise
from crossgcn.reports.run_report.scores import Calibration, Confusion


@dataclass(frozen=True)
class CrossView:
    """Features that count together, beyond what each counts alone.

    Attributes:
        name: As users read it: ``gender=female & age=[20, 25)``.
        members: The features.
        strength: Weight times how often it occurs, with its sign.
        weight: What one occurrence adds to the class's score.
        support: How many nodes have it.
        stability: Share of the splits whose model has it among its strongest, with the same sign.
        accuracy_drop: Accuracy lost without it, as a fraction; negative for a gain.
    """

    name: str
    members: tuple[str, ...]
    strength: float
    weight: float
    support: int
    stability: float | None = None
    accuracy_drop: float | None = None


@dataclass(frozen=True)
class TermView:
    """One feature by itself.

    Attributes:
        name: The feature.
        strength: Weight times how often it occurs, with its sign.
        weight: What one occurrence adds to the class's score.
        support: How many nodes have it.
    """

    name: str
    strength: float
    weight: float
    support: int


@dataclass(frozen=True)
class ClassCrosses:
    """What speaks for and against one class.

    Attributes:
        class_name: Which.
        crosses: The strongest first; empty for a model without crosses.
        terms: Single features, the strongest first.
    """

    class_name: str
    crosses: tuple[CrossView, ...]
    terms: tuple[TermView, ...]


@dataclass(frozen=True)
class FieldStrengths:
    """How strongly each two columns of the table are crossed.

    Attributes:
        fields: Columns of the table.
        values: Sums of the absolute strengths of pairs between two fields; symmetric.
    """

    fields: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


Role = Literal["train", "validation", "test", "unlabelled", "other"]


@dataclass(frozen=True)
class Step:
    """One bar of a waterfall.

    Attributes:
        label: The feature or cross.
        contribution: What it adds to the logit.
    """

    label: str
    contribution: float


@dataclass(frozen=True)
class NodeView:
    """One node, what was predicted for it, and why.

    Attributes:
        id: As the user's table has it.
        true_class: Position among the classes; none where nobody knows.
        predicted_class: Position among the classes.
        probability: Of the predicted class.
        role: What the node was used for by the model shown.
        start: The bias: the logit of the predicted class before any feature counts.
        steps: What was added, the strongest first; the page adds the rest as one bar.
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
        """All that the steps leave out, so that every waterfall ends at its logit."""
        return self.total - self.start - math.fsum(step.contribution for step in self.steps)


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


LONGEST_NAME: Final = 160
"""Of a column, a value or a class; what is longer loses its middle."""

_UNPRINTABLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def readable(text: str) -> str:
    """The text without what no page can hold or what would turn its neighbours around.

    Control characters, halves of surrogate pairs and marks of writing direction
    become a replacement character each; line ends and tabs become spaces.
    """
    return _UNPRINTABLE.sub("\ufffd", re.sub(r"[\t\r\n]+", " ", text))


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """A name that has something to see and an end.

    Args:
        name: Whatever the user's table says.
        longest: How many characters to keep: more of the beginning than of the end.
    """
    name = readable(name)
    if not name.strip():
        return "(empty)"
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def percent(share: float | None, digits: int = 1) -> str:
    """A fraction as a percentage; a dash where there is none."""
    return "—" if share is None else f"{100 * share:.{digits}f}\u00a0%"


def points(difference: float) -> str:
    """A difference of two fractions in percentage points, with its sign."""
    return signed(100 * difference, 1)


def lost(drop: float) -> str:
    """A drop of a fraction in percentage points; below zero it is a gain."""
    return signed(100 * drop, 1).removeprefix("+")


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, and a true minus; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def number(count: int) -> str:
    """A count with its thousands set apart."""
    return f"{count:,}"


def spread(values: Sequence[float]) -> str:
    """Fractions as mean ± standard deviation, in percent."""
    summary = summarise(values)
    deviation = "" if summary.sd is None else f" ± {100 * summary.sd:.1f}"
    return f"{100 * summary.mean:.1f}{deviation}\u00a0%"


def list_environment(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a record says of where it was made, a line for each name."""
    rows = []
    for name, value in environment.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {each}" for key, each in value.items())
        if value is not None:
            rows.append((name.replace("_", " "), str(value)))
    return rows
