"""What would change the answer: the nearest other values of own columns that give another class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from crossgcn.explanation.columns import Column
from crossgcn.explanation.polynomial import Floats

if TYPE_CHECKING:
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
class _Values:
    """Values that nodes have in one column.

    Attributes:
        features: ``[values, features]``.
        projected: From :meth:`Polynomial.project`; of changes, the difference that they make.
        distances: Place of each number among those of all nodes; of changes, how far they are.
        ordered: The number of all nodes, ascending; ``None`` for categories.
    """

    column: Column
    features: Floats
    projected: Floats
    distances: Floats
    ordered: Floats | None = None


class Changes:
    """Finds the changes of own columns after which a model predicts another class.

    The values are those of other nodes, and the model is evaluated with them. The neighbourhood
    stays as it is. A number as target has no other answer.
    """

    def __init__(self, whole: Explanation) -> None:
        self._explainer, self._inputs = whole.explainer, whole.inputs
        own = [c for c in whole.columns if c.scope == "own" and len(c.places)]
        pairs = max(1, len(own) * (len(own) - 1) // 2)
        fewer = min(_MOST_VALUES, max(2, int((_MOST_PAIRS / pairs) ** 0.5)))
        self._columns, self._sizes = own, {1: _MOST_VALUES, 2: fewer}

    def nearest(self, node: int, *, top: int = 3) -> list[Change]:
        """Return the smallest changes of one own column, or else of two.

        Args:
            top: How many changes, each of other columns.
        """
        if len(self._explainer.names.classes) == 1:
            return []
        own = self._explainer.inputs(np.array([node]))[0]
        found = list(self._find(node, own, 1)) or list(self._find(node, own, 2))
        return sorted(found, key=lambda change: change.distance)[:top]

    def _find(self, node: int, own: Floats, size: int) -> Iterator[Change]:
        """Yield the nearest change of every ``size`` columns that gives another class."""
        base = self._explainer.polynomial.project(own[np.newaxis])
        predicted = self._explainer.predict(node, base)[0]
        others = [self._others(values, own) for values in self._values[size]]
        for chosen in combinations(others, size):
            shape = [len(each.features) for each in chosen]
            if 0 in shape:
                continue
            projected, distance = base, np.zeros(1)
            for each in chosen:
                projected = (projected[:, :, None] + each.projected[:, None]).reshape(
                    len(base), -1, base.shape[2]
                )
                distance = (distance[:, None] + each.distances).ravel()
            outcomes = self._explainer.predict(node, projected)
            flips = np.flatnonzero(outcomes != predicted)
            if not flips.size:
                continue
            best = int(flips[distance[flips].argmin()])
            after = zip(chosen, np.unravel_index(best, shape), strict=True)
            yield Change(
                tuple(each.column.name for each in chosen),
                tuple(each.column.value_text(own[each.column.places]) for each in chosen),
                tuple(each.column.value_text(each.features[place]) for each, place in after),
                self._explainer.names.classes[outcomes[best]],
                float(distance[best]),
            )

    @cached_property
    def _values(self) -> dict[int, list[_Values]]:
        """The values that are tried, by how many columns are changed together."""
        return {
            size: [self._values_of(column, most) for column in self._columns]
            for size, most in self._sizes.items()
        }

    def _values_of(self, column: Column, most: int) -> _Values:
        """Return values of a column: quantiles of a number, else the commonest."""
        features, ordered = self._inputs[:, column.places], None
        if column.is_number:
            order = np.argsort(features[:, 0], kind="stable")
            ranks = np.unique(np.linspace(0, len(order) - 1, most).astype(int))
            rows, distances, ordered = features[order[ranks]], ranks, features[order, 0]
        else:
            rows, counts = np.unique(features, axis=0, return_counts=True)
            rows = rows[np.argsort(-counts, kind="stable")[:most]]
            distances = np.full(len(rows), _OTHER_CATEGORY)
        projected = self._explainer.polynomial.project(rows, column.places)
        return _Values(column, rows, projected, np.asarray(distances, np.float64), ordered)

    def _others(self, values: _Values, own: Floats) -> _Values:
        """Return the values that a node does not have, as changes."""
        mine = own[values.column.places]
        differ = np.abs(values.features - mine).max(axis=1) > 1e-6
        here = self._explainer.polynomial.project(mine[np.newaxis], values.column.places)
        distances = values.distances
        if values.ordered is not None:
            place = np.searchsorted(values.ordered, mine[0])
            distances = np.abs(distances - place) / len(values.ordered)
        return replace(
            values,
            features=values.features[differ],
            projected=(values.projected - here)[:, differ],
            distances=distances[differ],
        )
