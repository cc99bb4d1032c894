"""The columns that explanations speak of, and what inputs, scores and nodes are called."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.kinds.numeric import MAX_DEVIATIONS
from crossgcn.errors import BadInput, unknown_name
from crossgcn.explanation.polynomial import Floats, Ints, as_array
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.standardise import Scale

MOST_COLUMNS = 200
"""A table with more columns has no terms by column."""
POSITION = "position in the graph"
"""The term of what a node with average neighbours would get at the same place."""
HIDDEN = "crosses of hidden units"
"""The term of the crosses of later layers, which have no names."""


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

    def pair(self, contrast: tuple[Any, Any] | None) -> tuple[int, int] | None:
        """Return the positions of two classes."""
        for name in contrast or ():
            if str(name) not in self.classes:
                raise unknown_name("class", str(name), self.classes)
        if contrast is None:
            return None
        return self.classes.index(str(contrast[0])), self.classes.index(str(contrast[1]))

    def limits(self, column: str) -> tuple[float, float]:
        """Return the numbers beyond which the encoding of a column is the same."""
        if column not in self.numbers:
            return -inf, inf
        mean, deviation = self.numbers[column]
        return mean - MAX_DEVIATIONS * deviation, mean + MAX_DEVIATIONS * deviation


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
        limits: Least and largest number that the encoding tells apart.
        is_log: Whether the number is the logarithm of a count plus one.
    """

    name: str
    places: Ints
    features: tuple[str, ...] = ()
    scope: str = "own"
    is_number: bool = False
    scale: tuple[float, float] = (0.0, 1.0)
    limits: tuple[float, float] = (-inf, inf)
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
        slack = 1e-4 * abs(self.scale[1])
        sign = "≥ " if number > self.limits[1] - slack else ""
        sign = "≤ " if number < self.limits[0] + slack else sign
        return sign + (f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}")

    def value_name(self, feature: str) -> str:
        """Return the value that a feature stands for: ``female`` of ``gender=female``."""
        own = self.name.partition(": ")[2]  # Features of neighbours may be called as their own.
        for start in (f"{self.name}=", f"{self.name}:", f"{own}=", f"{own}:"):
            if feature.startswith(start) and len(start) > 1:
                return feature.removeprefix(start)
        return feature


def number_text(value: float) -> str:
    """Return a number as it stands at an axis: ``1,234``, ``0.0123``, ``5.6M``."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def hop_columns(plan: HopPlan, names: Names, scale: Scale | None = None) -> tuple[Column, ...]:
    """Return the columns of the inputs of :class:`~crossgcn.CrossHops`.

    Args:
        scale: How the model standardises its inputs.
    """
    width, sides = plan.num_features, 2 if plan.directed else 1
    is_regression = len(names.classes) == 1
    target = names.classes[0] if is_regression else names.target
    shown = names.classes[1:] if plan.num_labels == 1 else names.classes
    labels = [target] if is_regression else [f"{target}={name}" for name in shown]
    labels = labels[: plan.num_labels]
    features = plan.name_columns(names.features.names, labels, names.relation)
    within = width * (1 + plan.num_blocks)  # After them come degrees, then labels.
    per_label = len(labels) + 1
    counts = {
        place
        for place in range(within, plan.num_columns)
        if place < within + sides or (place - within - sides) % per_label == len(labels)
    }
    centers, deviations = (0.0, 1.0) if scale is None else map(as_array, scale)
    centers, deviations = (np.broadcast_to(a, plan.num_columns) for a in (centers, deviations))
    columns = []
    for name, places in _members(
        plan.name_columns(names.fields, [target] * len(labels), names.relation)
    ).items():
        field, is_number = target, len(places) == 1
        if places[0] < within:
            field = names.fields[places[0] % width]
            places, is_number = _number_first(places, names, width)
        mean, deviation = names.numbers.get(field, (0.0, 1.0))
        if places[0] in counts or (places[0] >= within and not is_regression):
            mean, deviation = 0.0, 1.0
        zero = mean + deviation * float(centers[places[0]])
        step = deviation * float(deviations[places[0]])
        columns.append(
            Column(
                name,
                np.array(places),
                tuple(features[place] for place in places),
                "own" if places[0] < width else "neighbourhood",
                is_number,
                (zero, step) if is_number else (0.0, 1.0),
                names.limits(field) if is_number and places[0] < within else (-inf, inf),
                places[0] in counts,
            )
        )
    return tuple(columns)


def layer_columns(names: Names, *, of_sums: bool, has_edges: bool) -> tuple[Column, ...]:
    """Return the columns of a model that sums over neighbours.

    First come those of the inputs; then, if single nodes are multiplied and summed, the same of
    the neighbours; then :data:`POSITION` and :data:`HIDDEN`.

    Args:
        of_sums: Whether features are summed over neighbours before they are multiplied.
        has_edges: Whether there is a sum over neighbours.
    """
    inputs = []
    for name, members in _members(names.features.fields).items():
        places, is_number = _number_first(members, names, len(names.features))
        inputs.append(
            Column(
                f"with {names.relation}: {name}" if of_sums else name,
                np.array(places),
                tuple(names.features.names[place] for place in places),
                "neighbourhood" if of_sums else "own",
                is_number,
                (0.0, 1.0) if of_sums else names.numbers.get(name, (0.0, 1.0)),
                (-inf, inf) if of_sums else names.limits(name),
            )
        )
    near = [
        Column(f"{names.relation}: {c.name}", c.places, c.features, "neighbourhood", c.is_number,
               c.scale, c.limits)
        for c in (inputs if has_edges and not of_sums else ())
    ]  # fmt: skip
    nothing = np.zeros(0, np.int64)
    others = Column(POSITION, nothing, scope="neighbourhood"), Column(HIDDEN, nothing, scope="both")
    return (*inputs, *near, *others)


def _members(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of each name."""
    members: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        members.setdefault(name, []).append(place)
    return members


def _number_first(places: list[int], names: Names, width: int) -> tuple[list[int], bool]:
    """Put the number itself first, which is named as its column; return whether there is one."""
    known, fields = names.features.names, names.fields
    numbers = [place for place in places if known[place % width] == fields[place % width]][:1]
    return numbers + [place for place in places if place not in numbers], bool(numbers)
