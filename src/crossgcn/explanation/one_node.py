"""One node: its score as a sum, which neighbours made it, and what would change the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from crossgcn.explanation.column_details import NodeSum, node_sum, predicted_output, value_text
from crossgcn.explanation.columns import ColumnGroup, ColumnTerms
from crossgcn.explanation.explainers import Explainer
from crossgcn.explanation.reading import Floats, Ints

_MOST_VALUES = 30
_MOST_PAIRS = 100_000
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
class NodeAnswer:
    """All that is said about one node.

    Attributes:
        total: The score as a sum.
        predicted: The predicted class; ``None`` for a number.
        neighbours: Number of each neighbour and its contribution, the largest first.
        meaning: What the contribution of a neighbour means, as a sentence.
        changes: The nearest changes that give another answer.
    """

    total: NodeSum
    predicted: str | None
    neighbours: list[tuple[int, float]]
    meaning: str
    changes: list[Change]

    def to_json(self, top: int, ids: Sequence[str]) -> dict[str, Any]:
        """Return what ``explain --node --json`` prints."""
        return self.total.to_json(top) | {
            "predicted": self.predicted,
            "neighbours": [
                {"node": ids[node], "contribution": amount}
                for node, amount in self.neighbours[:top]
            ],
            "changes": [asdict(change) for change in self.changes],
        }


def answer_node(
    explainer: Explainer, node: int, class_name: str | None = None, *, raw: bool = False
) -> NodeAnswer:
    """Explain one node.

    Args:
        class_name: The score to explain of more than two classes; that of the predicted class by
            default. An explainer with a contrast has one score.
        raw: Terms as trained, not purified.
    """
    terms = explainer.terms(node=node, raw=raw)
    output = predicted_output(terms, node)
    if class_name in terms.outputs:
        output = terms.outputs.index(class_name)
    near, effects = explainer.neighbours(node)
    largest = np.argsort(-np.abs(effects[:, output]), kind="stable")
    changes = Changes(explainer, terms)
    many = len(explainer.classes) > 1
    return NodeAnswer(
        node_sum(terms, node, output),
        explainer.classes[changes.predict(node)] if many else None,
        [(int(near[place]), float(effects[place, output])) for place in largest],
        explainer.meaning,
        changes.nearest(node),
    )


@dataclass(frozen=True)
class _Values:
    """Values that nodes have in one column.

    Attributes:
        ranks: Place of each value among those of all nodes; ``None`` for categories.
        ordered: The number of all nodes, ascending.
        projected: From :meth:`Polynomial.project`.
    """

    group: ColumnGroup
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

    Args:
        terms: Of this explainer.
    """

    def __init__(self, explainer: Explainer, terms: ColumnTerms) -> None:
        self._explainer, self._inputs = explainer, terms.inputs
        self._groups = [group for group in terms.groups if group.own and len(group.columns)]
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
        pairs = max(1, len(self._groups) * (len(self._groups) - 1) // 2)
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
                    groups = [each.group for each, _ in chosen]
                    yield Change(
                        tuple(group.name for group in groups),
                        tuple(value_text(group, own[group.columns]) for group in groups),
                        tuple(
                            value_text(each.group, each.features[place])
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
            return (scores[:, 0] > self._explainer.cut).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))

    def _known_values(self, most: int) -> list[_Values]:
        if most not in self._values:
            self._values[most] = [self._values_of(group, most) for group in self._groups]
        return self._values[most]

    def _values_of(self, group: ColumnGroup, most: int) -> _Values:
        """Return values of a column: quantiles of a number, else the commonest."""
        features, ranks, ordered = self._inputs[:, group.columns], None, None
        if group.is_number:
            order = np.argsort(features[:, 0], kind="stable")
            ranks = np.unique(np.linspace(0, len(order) - 1, most).astype(int))
            rows, ordered = features[order[ranks]], features[order, 0]
        else:
            rows, counts = np.unique(features, axis=0, return_counts=True)
            rows = rows[np.argsort(-counts, kind="stable")[:most]]
        projected = self._explainer.polynomial.project(rows, group.columns)
        return _Values(group, rows, projected, ranks, ordered)

    def _others(self, values: _Values, own: Floats) -> tuple[_Values, Floats]:
        """Return the values that a node does not have, as differences, and how far they are."""
        mine = own[values.group.columns]
        others = np.abs(values.features - mine).max(axis=1) > 1e-6
        here = self._explainer.polynomial.project(mine[np.newaxis], values.group.columns)
        away = replace(
            values, features=values.features[others], projected=(values.projected - here)[:, others]
        )
        return away, values.distances(mine)[others]
