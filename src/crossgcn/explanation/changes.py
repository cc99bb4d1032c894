"""What would change the answer: the nearest other value of an own column that does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossgcn.explanation.columns import Column
from crossgcn.explanation.polynomial import Floats
from crossgcn.explanation.terms import Explanation

_MOST_VALUES = 100
_OTHER_CATEGORY = 0.5
"""The distance of a change of category; that of a number is the share of nodes between."""


@dataclass(frozen=True)
class Change:
    """Another value in an own column, which changes the predicted class.

    Attributes:
        before: What the node has.
        after: What it would need.
        outcome: The class that would be predicted.
        distance: The share of nodes between both numbers, or 0.5 for another category.
    """

    column: str
    before: str
    after: str
    outcome: str
    distance: float


def nearest_changes(whole: Explanation, node: int, top: int = 3) -> list[Change]:
    """Return the smallest changes of one own column that give another class.

    The values are those of other nodes, and the model is evaluated with them. The neighbourhood
    stays as it is. A number as target has no other answer.
    """
    explainer, classes = whole.explainer, whole.explainer.names.classes
    if len(classes) == 1:
        return []
    (mine,) = explainer.inputs(np.array([node]))
    base = explainer.polynomial.project(mine[np.newaxis])
    predicted, found = explainer.predict(node)[0], []
    for column, known in whole.own_values:
        own = mine[column.places]
        values, distances = _other_values(column, known, own)
        effects = explainer.polynomial.project(values - own, column.places)
        outcomes = explainer.predict(node, base + effects)
        flips = np.flatnonzero(outcomes != predicted)
        if flips.size:
            best = flips[distances[flips].argmin()]
            texts = column.value_text(own), column.value_text(values[best])
            change = Change(column.name, *texts, classes[outcomes[best]], float(distances[best]))
            found.append(change)
    return sorted(found, key=lambda change: change.distance)[:top]


def _other_values(column: Column, values: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Return values of other nodes, and their distances: quantiles, or the commonest categories."""
    if column.is_number:
        ranks = np.unique(np.linspace(0, len(values) - 1, _MOST_VALUES).astype(int))
        distances = np.abs(ranks - np.searchsorted(values[:, 0], own[0])) / len(values)
        values = values[ranks]
    else:
        values = values[:_MOST_VALUES]
        distances = np.full(len(values), _OTHER_CATEGORY)
    differ = np.abs(values - own).max(axis=1) > 1e-6
    return values[differ], distances[differ]
