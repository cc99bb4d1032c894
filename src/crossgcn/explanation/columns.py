"""The columns that explanations speak of, and what inputs, scores and nodes are called."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.kinds.numeric import MAX_DEVIATIONS
from crossgcn.errors import BadInput, unknown_name
from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.standardise import Scale

SCOPES = ("own", "neighbourhood", "both")
"""What the columns of a term describe."""
MOST_COLUMNS = 200
"""A table with more columns has no terms by column."""
POSITION = "position in the graph"
"""The term of what a node with average neighbours would get at the same place."""
HIDDEN = "crosses of hidden units"
"""The term of the crosses of later layers, which have no names."""


class Outputs(NamedTuple):
    """The scores that are explained.

    Attributes:
        names: What each score is for.
        unit: ``"log-odds"`` between two classes, ``"margin"`` for more, or the name of a number.
        margin: How they follow from the scores of the model, ``[outputs, scores]``.
    """

    names: tuple[str, ...]
    unit: str
    margin: Floats


def score_name(name: str, unit: str) -> str:
    """Return what a score is for, with its unit."""
    if unit == name:
        return name
    kind = name if " rather than " in name else f"class {name}"
    return f"{kind} ({unit})"


@dataclass(frozen=True)
class Names:
    """What the user calls the inputs, scores and nodes of a model.

    Attributes:
        features: Names of the features, and the column of the table that each describes.
        classes: Names of the classes, or the name of the number.
        relation: What neighbours are called.
        target: The column that is predicted, if it holds classes.
        numbers: Mean and deviation by which each number of the table was standardised.
        num_rows: Number of nodes, or of ``rows``.
        rows: The node that each of the user's rows is, if they are not all nodes in order.
        find: Returns the number of a node by its id; without it nodes have numbers only.
        shown: How each node is shown.
    """

    features: FeatureSpace
    classes: tuple[str, ...]
    relation: str = "neighbours"
    target: str = "label"
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    num_rows: int = 0
    rows: Ints | None = None
    find: Callable[[Any], int] | None = None
    shown: Sequence[str] | None = None

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The column of each feature; one for all of them if there are too many columns."""
        fields = self.features.fields
        return fields if len(set(fields)) <= MOST_COLUMNS else ("all columns",) * len(fields)

    def node(self, node: Any) -> int:
        """Return the number of a node, given by its id, its row or its number."""
        if self.find is not None:
            return self.find(node)
        try:
            number = operator.index(node)
        except TypeError:
            raise BadInput(f"node is {node!r}; give a whole number") from None
        if not 0 <= number < self.num_rows:
            what = "node" if self.rows is None else "row"
            most = self.num_rows - 1
            raise BadInput(f"there is no {what} {number}: give a number from 0 to {most}")
        return number if self.rows is None else int(self.rows[number])

    def show(self, node: int) -> str:
        """Return how a node is shown."""
        return str(node) if self.shown is None else self.shown[node]

    def outputs(self, contrast: tuple[Any, Any] | None = None) -> Outputs:
        """Return which scores are explained.

        With a ``contrast`` its first class against its second; else the second of two classes
        against the first, each of more classes against the mean of the others, and a number as
        it is.
        """
        classes, count = self.classes, len(self.classes)
        for name in contrast or ():
            if str(name) not in classes:
                raise unknown_name("class", str(name), classes)
        if count == 1:
            return Outputs(classes, classes[0], np.ones((1, 1)))
        if contrast is None and count > 2:
            return Outputs(classes, "margin", (np.eye(count) * count - 1) / (count - 1))
        first, second = map(str, contrast or (classes[1], classes[0]))
        margin = np.array([[(name == first) - (name == second) for name in classes]], np.float64)
        name = first if count == 2 else f"{first} rather than {second}"
        return Outputs((name,), "log-odds", margin)


@dataclass(frozen=True)
class Column:
    """A column of the table, own or of the neighbourhood.

    Attributes:
        name: Such as ``age`` or ``neighbours: age``.
        places: Positions of its features among the inputs of the model.
        features: Name of each of them.
        scope: What it describes: the node itself (``own``), its ``neighbourhood`` or ``both``.
        is_number: Whether it is a number; then ``places`` starts with the number itself.
        scale: Zero point and step of the number, ``number = zero + step * value``.
        table_scale: Mean and deviation of the number in the table, which was cut off beyond
            :data:`MAX_DEVIATIONS`; ``None`` if it was not.
        is_log: Whether the number is the logarithm of a count plus one.
    """

    name: str
    places: Ints
    features: tuple[str, ...] = ()
    scope: str = "own"
    is_number: bool = False
    scale: tuple[float, float] = (0.0, 1.0)
    table_scale: tuple[float, float] | None = None
    is_log: bool = False

    def numbers(self, values: Floats) -> Floats:
        """Return numbers in their own unit; what rounding left of 0 is 0."""
        numbers: Floats = self.scale[0] + self.scale[1] * values
        numbers = np.where(np.abs(numbers) > 1e-6 * abs(self.scale[1]), numbers, 0.0)
        return np.expm1(numbers) if self.is_log else numbers

    def value_text(self, values: Floats) -> str:
        """Return what a node has in this column, as ``female`` or ``34``."""
        if len(values) == 1 and values[0] in (0.0, 1.0) and self.scale == (0.0, 1.0):
            return "yes" if values[0] else "no"
        flags = [name for name, value in zip(self.features, values, strict=True) if value == 1]
        if not self.is_number or f"{self.name}=(missing)" in flags:
            return ", ".join(map(self.value_name, flags)) or "none"
        number = float(self.numbers(values[:1])[0])
        if self.is_log:
            return f"{number:,.0f}"
        if self.features[0].startswith(f"{self.name}="):  # the share of a class
            return f"{number:.0%} {self.value_name(self.features[0])}"
        sign = ""
        if self.table_scale is not None:
            mean, deviation = self.table_scale
            if abs(number - mean) > (MAX_DEVIATIONS - 1e-4) * deviation:
                sign = "≥ " if number > mean else "≤ "
        return sign + (f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}")

    def value_name(self, feature: str) -> str:
        """Return the value that a feature stands for: ``female`` of ``gender=female``."""
        for start in (f"{self.name}=", f"{self.name}:"):
            if feature.startswith(start) and feature != start:
                return feature.removeprefix(start)
        return feature


def hop_columns(plan: HopPlan, names: Names, scale: Scale | None = None) -> tuple[Column, ...]:
    """Return the columns of the inputs of :class:`~crossgcn.CrossHops`.

    Args:
        scale: How the model standardises its inputs.
    """
    is_regression = len(names.classes) == 1
    target = names.classes[0] if is_regression else names.target
    titles = plan.name_columns([""], [target][: plan.num_labels], names.relation)
    columns: list[Column] = []
    for block, prefix in enumerate(titles[: 1 + plan.num_blocks]):
        columns += table_columns(names, prefix, block * plan.num_features, scale)
    place, sides = (1 + plan.num_blocks) * plan.num_features, 2 if plan.directed else 1
    for number, title in enumerate(titles[1 + plan.num_blocks :]):
        # First the number of neighbours, then by turns labels and how many are known.
        is_label = number >= sides and (number - sides) % 2 == 0
        features = [title]
        if is_label and not is_regression:
            shown = names.classes[1:] if plan.num_labels == 1 else names.classes
            features = [f"{title}={name}" for name in shown]
        column = Column(title, place + np.arange(len(features)), tuple(features), "neighbourhood")
        if len(features) == 1:
            known = names.numbers.get(target) if is_label and is_regression else None
            column = replace(column, is_number=True, scale=_join(known, scale, place))
        columns.append(replace(column, is_log=not is_label))
        place += len(features)
    return tuple(columns)


def layer_columns(names: Names, *, has_edges: bool) -> tuple[Column, ...]:
    """Return the columns of a model that sums over neighbours.

    First come those of the node, then, if there are edges, the same of the neighbours; then
    :data:`POSITION` and :data:`HIDDEN`.
    """
    columns = table_columns(names)
    if has_edges:
        columns += table_columns(names, f"{names.relation}: ")
    nothing = np.zeros(0, np.int64)
    others = Column(POSITION, nothing, scope="neighbourhood"), Column(HIDDEN, nothing, scope="both")
    return (*columns, *others)


def table_columns(
    names: Names, prefix: str = "", offset: int = 0, scale: Scale | None = None
) -> list[Column]:
    """Return the columns of the table, or with a prefix those of a neighbourhood."""
    features, columns = names.features.names, []
    members: dict[str, list[int]] = {}
    for place, name in enumerate(names.fields):
        members.setdefault(name, []).append(place)
    for name, places in members.items():
        numbers = [place for place in places if features[place] == name]
        places = numbers + [place for place in places if place not in numbers]
        column = Column(
            prefix + name,
            offset + np.array(places),
            tuple(prefix + features[place] for place in places),
            "neighbourhood" if prefix else "own",
        )
        if numbers:
            known = names.numbers.get(name)
            joined = _join(known, scale, offset + places[0])
            column = replace(column, is_number=True, scale=joined, table_scale=known)
        columns.append(column)
    return columns


def _join(
    known: tuple[float, float] | None, scale: Scale | None, place: int
) -> tuple[float, float]:
    """Return zero point and step of an input that the table and the model standardised."""
    mean, deviation = known or (0.0, 1.0)
    if scale is None:
        return mean, deviation
    center, step = float(scale.center[place]), float(scale.deviation[place])
    return mean + deviation * center, deviation * step
