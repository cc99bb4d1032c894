"""The columns that explanations speak of, and what inputs, scores and nodes are called."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from crossgcn.data.features import FeatureSpace, name_label
from crossgcn.data.relations import NEIGHBOURS, Relation, as_relation
from crossgcn.data.tables.kinds.numeric import MAX_DEVIATIONS
from crossgcn.errors import BadInput, unknown_name
from crossgcn.explanation.polynomial import Floats, Ints, as_array, target_scale
from crossgcn.graph.hops import named
from crossgcn.models.cross_hops import CrossHops

SCOPES = ("own", "neighbourhood", "both")
"""What the columns of a term describe."""
_MOST_SHARES = 2
MOST_COLUMNS = 200
"""A table with more columns has no terms by column."""
_OF_EDGES = re.compile(r" \((?:mean|share)\)$")
"""The end of the name of a column of edges."""


class Outputs(NamedTuple):
    """The scores that are explained.

    Attributes:
        names: What each score is for.
        unit: ``"log-odds"`` between two classes, ``"margin"`` for more, or the name of a number.
        against: The class or classes that a lower score is for; empty for a number.
        margin: How they follow from the scores of the model, ``[outputs, scores]``.
    """

    names: tuple[str, ...]
    unit: str
    against: str
    margin: Floats


def score_name(name: str, unit: str, against: str) -> str:
    """Return what a score is, and what a plus and a minus in it are for."""
    if not against:
        return f"{unit}: + for more, − for less"
    return f"{unit} of {name} against {against}: + for {name}, − for {against}"


def show_frame(frame: pd.DataFrame) -> str:
    """Return a table as text of at most 100 characters a line."""
    return frame.to_string(index=False, max_colwidth=50, float_format="{:.3g}".format, na_rep="")


@dataclass(frozen=True)
class Names:
    """What the user calls the inputs, scores and nodes of a model.

    Attributes:
        features: Names of the features, and the column of the table that each describes.
        classes: Names of the classes, or the name of the number.
        relations: The relations, which name neighbours and the columns of edges.
        target: The column that is predicted, if it holds classes and has a name.
        numbers: Mean and deviation by which each number of the table was standardised.
        dates: The numbers that count days, and the day that each starts from.
        num_rows: Number of nodes, or of ``rows``.
        rows: The node that each of the user's rows is, if they are not all nodes in order.
        find: Returns the number of a node by its id; without it nodes have numbers only.
        shown: How each node is shown.
    """

    features: FeatureSpace
    classes: tuple[str, ...]
    relations: tuple[Relation, ...] = (as_relation(torch.zeros(2, 0)),)
    target: str | None = None
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)
    num_rows: int = 0
    rows: Ints | None = None
    find: Callable[[Any], int] | None = None
    shown: Sequence[str] | None = None

    @property
    def neighbours(self) -> str:
        """What neighbours are called, those of all relations together."""
        return self.relations[0].name if len(self.relations) == 1 else NEIGHBOURS

    @property
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
            return Outputs(classes, classes[0], "", np.ones((1, 1)))
        if contrast is None and count > 2:
            margin = (np.eye(count) * count - 1) / (count - 1)
            return Outputs(classes, "margin", "the others", margin)
        first, second = map(str, contrast or (classes[1], classes[0]))
        margin = np.array([[(name == first) - (name == second) for name in classes]], np.float64)
        return Outputs((first,), "log-odds", second, margin)


@dataclass(frozen=True, repr=False)
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
        since: Of a date, the day from which the number counts.
        shares: Zero point and step of each share of neighbours, ``[2, places]``, 0 for what is
            no share; ``None`` if nothing is.
    """

    name: str
    places: Ints
    features: tuple[str, ...] = ()
    scope: str = "own"
    is_number: bool = False
    scale: tuple[float, float] = (0.0, 1.0)
    table_scale: tuple[float, float] | None = None
    is_log: bool = False
    since: str | None = None
    shares: Floats | None = None

    def __repr__(self) -> str:
        return f"Column({self.name})"

    def numbers(self, values: Floats) -> Floats:
        """Return numbers in their own unit; what rounding left of 0 is 0."""
        numbers: Floats = self.scale[0] + self.scale[1] * values
        numbers = np.where(np.abs(numbers) > 1e-6 * abs(self.scale[1]), numbers, 0.0)
        return np.expm1(numbers) if self.is_log else numbers

    def date(self, number: float) -> str:
        """Return the date that a number stands for; empty for other numbers."""
        if self.since is None:
            return ""
        return str((pd.Timestamp(self.since) + pd.Timedelta(days=round(number))).date())

    def is_missing(self, values: Floats) -> Any:
        """Return whether a node, or each of several, has no value in this own column."""
        is_own = self.scope == "own"
        gone = [is_own and name.endswith("=(missing)") for name in self.features]
        return (values[..., gone] == 1).any(axis=-1)

    def value_text(self, values: Floats) -> str:
        """Return what a node has in this column, as ``female``, ``34`` or ``38 % female``."""
        if np.isnan(values).any():
            return "unknown"
        if self.shares is not None:
            shares = np.round(self.shares[0] + self.shares[1] * values, 6) + 0.0  # no -0
            largest = np.argsort(-shares, kind="stable")[:_MOST_SHARES].tolist()
            names = [self.value_name(name) for name in self.features]
            names = ["yes"] if names == [self.name] else names
            texts = [
                f"{100 * shares[each]:.0f} % {names[each]}"
                for each in largest
                if shares[each] >= 0.005 or len(names) == 1
            ]
            return ", ".join(texts) or "none"
        if len(values) == 1 and values[0] in (0.0, 1.0) and self.scale == (0.0, 1.0):
            return "yes" if values[0] else "no"
        flags = [name for name, value in zip(self.features, values, strict=True) if value == 1]
        if self.is_number and self.is_missing(values):
            return "missing"
        if not self.is_number:
            return ", ".join(map(self.value_name, flags)) or "none"
        number = float(self.numbers(values[:1])[0])
        if self.is_log:
            return f"{number:,.0f}"
        sign = ""
        if self.table_scale is not None:
            mean, deviation = self.table_scale
            if abs(number - mean) > (MAX_DEVIATIONS - 1e-4) * deviation:
                sign = "≥ " if number > mean else "≤ "
        plain = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
        return sign + (self.date(number) or plain)

    def value_name(self, feature: str) -> str:
        """Return the value that a feature stands for: ``female`` of ``gender=female``."""
        name, feature = (_OF_EDGES.sub("", each) for each in (self.name, feature))
        for start in (f"{name}=", f"{name}:"):
            if feature.startswith(start) and feature != start:
                return feature.removeprefix(start)
        is_of_edges = name != self.name
        return feature.removeprefix(f"{name.partition(': ')[0]}: ") if is_of_edges else feature


def hop_columns(model: CrossHops, names: Names) -> list[Column]:
    """Return the columns of the inputs of :class:`~crossgcn.CrossHops`, in the user's units."""
    plan, classes, width = model.plan, names.classes, model.plan.num_features
    is_regression, fields = len(classes) == 1, names.fields
    target = name_label(classes, None if is_regression else names.target)
    shown = classes[1:] if plan.num_labels == 1 else classes
    labels = [target if name == target else f"{target}={name}" for name in shown or classes]
    of_features = [named(each, features=True) for each in names.relations]
    features = plan.name_columns(names.features.names, labels[: plan.num_labels], of_features)
    titles = plan.name_columns(
        fields, [target] * plan.num_labels, list(map(named, names.relations))
    )
    first_count = plan.num_means
    first_edge = first_count + len(plan.sides)
    members: dict[tuple[int, str], list[int]] = {}
    for place, title in enumerate(titles):
        members.setdefault((min(place, first_count) // width, title), []).append(place)
    center, deviation, prior = map(as_array, (model.center, model.deviation, model.prior))
    columns = []
    for (_, title), places in members.items():
        column = fields[places[0] % width] if places[0] < first_count else ""
        since = names.dates.get(column)
        number = title if since is None else f"{title} days"
        places.sort(key=lambda place: features[place] != number)  # a number before its ranges
        first, is_number = places[0], features[places[0]] == number
        known, table_scale, is_log = (0.0, 1.0), None, False
        are_shares = np.zeros(len(places), np.bool_)
        if first < first_count:  # own columns, and their means over neighbours
            table_scale = names.numbers.get(column) if is_number else None
            known = table_scale or known
            if first >= width and table_scale is None and (not is_number or len(places) == 1):
                are_shares = prior[np.array(places) % width] == 0  # flags
        elif first < first_edge:  # numbers of neighbours
            is_number = is_log = True
        elif first < plan.first_label:  # columns of edges
            is_number = is_number and title.endswith(" (mean)")
            known = names.numbers.get(title, known)
            are_shares[:] = not is_number
        elif (first - plan.first_label) % (plan.num_labels + 1) == plan.num_labels:
            is_number = is_log = True  # numbers of known labels
        else:  # labels; a number is also the share of the second of two classes
            is_number = len(places) == 1
            known = target_scale(model) if is_number and is_regression else known
            are_shares[:] = not is_regression
        scale = known[0] + known[1] * center[places[0]], known[1] * deviation[places[0]]
        shares = np.stack([center[places], deviation[places]]) * are_shares
        columns.append(
            Column(
                title,
                np.array(places),
                tuple(features[place] for place in places),
                "own" if first < width else "neighbourhood",
                is_number,
                (float(scale[0]), float(scale[1])) if is_number else (0.0, 1.0),
                table_scale,
                is_log,
                since,
                shares if are_shares.any() else None,
            )
        )
    return columns
