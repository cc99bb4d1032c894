"""What would change the answer: the nearest other values of own columns that give another class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from crossgcn.explanation.columns import Column
from crossgcn.explanation.explainer import Explainer
from crossgcn.explanation.polynomial import Floats
from crossgcn.explanation.terms import Explanation

_MOST_VALUES = 30
_MOST_PAIRS = 20_000
"""How many changes of two columns are tried for a node, about."""
_OTHER_CATEGORY = 0.5
"""The distance of a change of category; that of a number is the share of nodes between."""


@dataclass(frozen=True)
class Change:
    """Another value in one or two own columns, which changes the predicted class.

    Attributes:
        before: What the node has.
        after: What it would need.
        outcome: The class that would be predicted.
        distance: The sum over columns of the share of nodes between both numbers, or 0.5 for
            another category.
    """

    columns: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    outcome: str
    distance: float


@dataclass(frozen=True)
class _Others:
    """Values of a column that a node does not have.

    Attributes:
        features: ``[values, features]``.
        effects: What each adds to the projections of the node, ``[1 + order, values, units]``.
    """

    column: Column
    before: str
    features: Floats
    effects: Floats
    distances: Floats


def nearest_changes(whole: Explanation, node: int, top: int = 3) -> list[Change]:
    """Return the smallest changes of one own column that give another class, or else of two.

    The values are those of other nodes, and the model is evaluated with them. The neighbourhood
    stays as it is. A number as target has no other answer.
    """
    explainer = whole.explainer
    columns = [
        each for each in whole.columns if each.scope == "own" and each.name in whole.values_of
    ]
    if len(explainer.names.classes) == 1 or not columns:
        return []
    (mine,) = explainer.inputs(np.array([node]))
    pairs = max(1, len(columns) * (len(columns) - 1) // 2)
    fewer = min(_MOST_VALUES, max(2, int((_MOST_PAIRS / pairs) ** 0.5)))
    found: list[Change] = []
    for size, most in ((1, _MOST_VALUES), (2, fewer)):
        others = [
            _others(explainer, each, whole.values_of[each.name], mine, most) for each in columns
        ]
        found = found or list(_find(explainer, node, mine, others, size))
    return sorted(found, key=lambda change: change.distance)[:top]


def _find(
    explainer: Explainer, node: int, mine: Floats, others: Sequence[_Others], size: int
) -> Iterator[Change]:
    """Yield the nearest change of every ``size`` columns that gives another class."""
    base = explainer.polynomial.project(mine[np.newaxis])
    predicted = explainer.predict(node, base)[0]
    for chosen in combinations((each for each in others if len(each.features)), size):
        projected, distance = base, np.zeros(1)
        for each in chosen:
            projected = (projected[:, :, None] + each.effects[:, None]).reshape(
                len(base), -1, base.shape[2]
            )
            distance = (distance[:, None] + each.distances).ravel()
        outcomes = explainer.predict(node, projected)
        flips = np.flatnonzero(outcomes != predicted)
        if flips.size:
            best = int(flips[distance[flips].argmin()])
            places = np.unravel_index(best, [len(each.features) for each in chosen])
            after = zip(chosen, places, strict=True)
            yield Change(
                tuple(each.column.name for each in chosen),
                tuple(each.before for each in chosen),
                tuple(each.column.value_text(each.features[place]) for each, place in after),
                explainer.names.classes[outcomes[best]],
                float(distance[best]),
            )


def _others(
    explainer: Explainer, column: Column, values: Floats, mine: Floats, most: int
) -> _Others:
    """Return other values of a column: quantiles of a number, else the commonest."""
    own = mine[column.places]
    if column.is_number:
        ranks = np.unique(np.linspace(0, len(values) - 1, most).astype(int))
        place = np.searchsorted(values[:, 0], own[0])
        distances = np.abs(ranks - place) / len(values)
        values = values[ranks]
    else:
        values = values[:most]
        distances = np.full(len(values), _OTHER_CATEGORY)
    differ = np.abs(values - own).max(axis=1) > 1e-6
    effects = explainer.polynomial.project(values[differ] - own, column.places)
    return _Others(column, column.value_text(own), values[differ], effects, distances[differ])
