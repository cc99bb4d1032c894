"""One node: its score as a sum, which neighbours made it, and what would change the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from crossgcn.explanation.inside import value_text
from crossgcn.explanation.reading import Floats, Ints
from crossgcn.explanation.terms import (
    WHOSE,
    Column,
    Explanation,
    Term,
    score_name,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_VALUES = 30
_MOST_PAIRS = 100_000
_LARGEST = 100
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


class NodeExplanation:
    """One score of one node: ``score = average + values.sum()``.

    Attributes:
        whole: The explanation of all nodes.
        node: The number of the node.
        name: What it is called.
        predicted: The predicted class; ``None`` for a number.
        output: What the score is for, in ``unit``.
        terms: The terms of ``values``, the largest value first.
        values: What each term adds.
    """

    def __init__(self, whole: Explanation, node: int, output: int | None = None) -> None:
        self.whole, self.node = whole, node
        self.name = str(node) if whole.names is None else whole.names[node]
        self.row = whole.place_of[node]
        label = whole.changes.predict(node)
        classes = whole.explainer.classes
        self.predicted = classes[label] if len(classes) > 1 else None
        if output is None:
            output = label if len(whole.outputs) > 1 else 0
        self.place = output
        self.output, self.unit = whole.outputs[output], whole.unit
        self.score = float(whole.scores[self.row, output])
        self.average = float(whole.average[output])
        every = whole.all_terms
        values = np.array([term.contributions[self.row, output] for term in every])
        order = np.argsort(-np.abs(values), kind="stable")
        self.terms = [every[place] for place in order]
        self.values: Floats = values[order]

    def sum_of(self, whose: str) -> float:
        """Return what the terms of ``own``, ``neighbourhood`` or ``both`` add in all."""
        parts = zip(self.terms, self.values.tolist(), strict=True)
        return float(sum(value for term, value in parts if term.whose == whose))

    @cached_property
    def held(self) -> dict[str, str]:
        """What the node has, by column: ``{"gender": "female", "neighbours: age": "34.2"}``.

        Of the neighbourhood: means of numbers, and the share of the second of two classes.
        """
        whole = self.whole
        return {
            column.name: value_text(column, whole.inputs[self.row, column.places])
            for column in whole.columns
            if len(column.places)
            if column.own or (column.is_number and column.scale != (0.0, 1.0))
            if column.own or whole.neighbours is None
        }

    @cached_property
    def neighbours(self) -> list[tuple[int, float]]:
        """The number of each neighbour and its contribution, the largest first."""
        near, effects = self.whole.explainer.neighbours(self.node)
        largest = np.argsort(-np.abs(effects[:, self.place]), kind="stable")
        return [(int(near[each]), float(effects[each, self.place])) for each in largest]

    @cached_property
    def changes(self) -> list[Change]:
        """The nearest changes of its own columns that give another answer."""
        return self.whole.changes.nearest(self.node)

    def shown(self, term: Term) -> list[str]:
        """Return what the node has in the columns of a term, where that is known."""
        return [self.held[name] for name in term.columns if name in self.held]

    def to_json(self) -> dict[str, Any]:
        """Return what ``explain --node --json`` prints; ``average`` and values give ``score``.

        The largest terms have their cells, the others none, which would take long.
        """
        names = self.whole.names
        return {
            "class": self.output,
            "score": self.score,
            "average": self.average,
            "terms": [
                {
                    "columns": list(term.columns),
                    "whose": term.whose,
                    "value": value,
                    "shown": self.shown(term),
                    "importance": float(term.importance[self.place]),
                    "error": None if term.error is None else float(term.error[self.place]),
                    **(self.whole.inside(term, self.place, 2) if at < _LARGEST else {"cells": []}),
                }
                for at, (term, value) in enumerate(
                    zip(self.terms, self.values.tolist(), strict=True)
                )
            ],
            **{whose: self.sum_of(whose) for whose in WHOSE},
            "predicted": self.predicted,
            "neighbours": [
                {"node": str(near) if names is None else names[near], "contribution": amount}
                for near, amount in self.neighbours
            ],
            "meaning": self.whole.explainer.meaning,
            "changes": [change.__dict__ for change in self.changes],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a row per term, the largest value first."""
        import pandas as pd

        return pd.DataFrame(
            {
                "term": [term.name for term in self.terms],
                "columns": [term.columns for term in self.terms],
                "whose": [term.whose for term in self.terms],
                "value": self.values,
                "shown": [", ".join(self.shown(term)) for term in self.terms],
            }
        )

    def plot(self, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw the way from the average to the score: the largest terms, and the rest summed."""
        from crossgcn.explanation.figures import plot_node

        return plot_node(self, top, ax)

    def __repr__(self) -> str:
        head = f"node {self.name}, {score_name(self.output, self.unit)}"
        lines = [head, f"  {self.average:+.4g}  average"]
        for term, value in list(zip(self.terms, self.values.tolist(), strict=True))[:12]:
            shown = ", ".join(self.shown(term))
            lines.append(f"  {value:+.4g}  {term.name[:60]}" + (f" ({shown})" if shown else ""))
        if len(self.terms) > 12:
            rest = float(self.values[12:].sum())
            lines.append(f"  {rest:+.4g}  {len(self.terms) - 12:,} other terms")
        return "\n".join([*lines, f"  {self.score:+.4g}  score"])


@dataclass(frozen=True)
class _Values:
    """Values that nodes have in one column.

    Attributes:
        ranks: Place of each value among those of all nodes; ``None`` for categories.
        ordered: The number of all nodes, ascending.
        projected: From :meth:`Polynomial.project`.
    """

    column: Column
    features: Floats
    projected: Floats
    ranks: Ints | None = None
    ordered: Floats | None = None

    def distances(self, own: Floats) -> Floats:
        """Return how far each value is from that of a node."""
        if self.ranks is None or self.ordered is None:
            return np.full(len(self.features), _OTHER_CATEGORY)
        place = np.searchsorted(self.ordered, own[0])
        return np.asarray(np.abs(self.ranks - place) / len(self.ordered))


class Changes:
    """Finds the changes of own columns after which a model predicts another class.

    The values are those of other nodes, and the model is evaluated with them. The neighbourhood
    stays as it is. A number as target has no other answer.
    """

    def __init__(self, whole: Explanation) -> None:
        self._explainer, self._inputs = whole.explainer, whole.inputs
        self._columns = [column for column in whole.columns if column.own and len(column.places)]
        self._values: dict[int, list[_Values]] = {}

    def predict(self, node: int) -> int:
        """Return the predicted class."""
        return int(self._labels(node, self._project(node))[0])

    def nearest(self, node: int, *, top: int = 3, evaluations: int = _MOST_PAIRS) -> list[Change]:
        """Return the smallest changes of one own column, or else of two.

        Args:
            top: How many changes, each of other columns.
            evaluations: How many changes of two columns are tried, about.
        """
        classes = self._explainer.classes
        if len(classes) == 1:
            return []
        own, base = self._explainer.own_row(node)[0], self._project(node)
        predicted = self._labels(node, base)[0]
        pairs = max(1, len(self._columns) * (len(self._columns) - 1) // 2)
        share = evaluations / self._explainer.work(node) / pairs
        fewer = min(_MOST_VALUES, max(2, int(share**0.5)))

        def find(most: int, size: int) -> Iterator[Change]:
            values = [self._others(each, own) for each in self._known_values(most)]
            for chosen in combinations(values, size):
                shape = [len(each.features) for each, _ in chosen]
                if 0 in shape:
                    continue
                projected, distance = base, np.zeros(1)
                for each, distances in chosen:
                    projected = (projected[:, :, None] + each.projected[:, None]).reshape(
                        len(base), -1, base.shape[2]
                    )
                    distance = (distance[:, None] + distances).ravel()
                outcomes = self._labels(node, projected)
                flips = np.flatnonzero(outcomes != predicted)
                if flips.size:
                    best = int(flips[distance[flips].argmin()])
                    places = np.unravel_index(best, shape)
                    columns = [each.column for each, _ in chosen]
                    yield Change(
                        tuple(column.name for column in columns),
                        tuple(value_text(column, own[column.places]) for column in columns),
                        tuple(
                            value_text(each.column, each.features[place])
                            for (each, _), place in zip(chosen, places, strict=True)
                        ),
                        classes[outcomes[best]],
                        float(distance[best]),
                    )

        found = list(find(_MOST_VALUES, 1)) or list(find(fewer, 2))
        return sorted(found, key=lambda change: change.distance)[:top]

    def _project(self, node: int) -> Floats:
        own = self._explainer.own_row(node)
        return self._explainer.polynomial.project(own, np.arange(own.shape[1]))

    def _labels(self, node: int, projected: Floats) -> Ints:
        scores = self._explainer.scores_after(node, projected)
        if scores.shape[1] == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))

    def _known_values(self, most: int) -> list[_Values]:
        if most not in self._values:
            self._values[most] = [self._values_of(column, most) for column in self._columns]
        return self._values[most]

    def _values_of(self, column: Column, most: int) -> _Values:
        """Return values of a column: quantiles of a number, else the commonest."""
        features, ranks, ordered = self._inputs[:, column.places], None, None
        if column.is_number:
            order = np.argsort(features[:, 0], kind="stable")
            ranks = np.unique(np.linspace(0, len(order) - 1, most).astype(int))
            rows, ordered = features[order[ranks]], features[order, 0]
        else:
            rows, counts = np.unique(features, axis=0, return_counts=True)
            rows = rows[np.argsort(-counts, kind="stable")[:most]]
        projected = self._explainer.polynomial.project(rows, column.places)
        return _Values(column, rows, projected, ranks, ordered)

    def _others(self, values: _Values, own: Floats) -> tuple[_Values, Floats]:
        """Return the values that a node does not have, as differences, and how far they are."""
        mine = own[values.column.places]
        others = np.abs(values.features - mine).max(axis=1) > 1e-6
        here = self._explainer.polynomial.project(mine[np.newaxis], values.column.places)
        away = replace(
            values, features=values.features[others], projected=(values.projected - here)[:, others]
        )
        return away, values.distances(mine)[others]
