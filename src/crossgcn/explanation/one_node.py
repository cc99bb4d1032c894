"""One node: its score as a sum, which neighbours made it, and what would change the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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
    predicted = None
    if len(explainer.classes) > 1:
        own = explainer.own_row(node)
        projected = explainer.polynomial.project(own, np.arange(own.shape[1]))
        predicted = explainer.classes[int(_labels(explainer, node, projected)[0])]
    return NodeAnswer(
        node_sum(terms, node, output),
        predicted,
        [(int(near[place]), float(effects[place, output])) for place in largest],
        explainer.meaning,
        nearest_changes(explainer, terms, node),
    )


def _labels(explainer: Explainer, node: int, projected: Floats) -> Ints:
    scores = explainer.scores_after(node, projected)
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.int64)
    return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class _Values:
    """Other values of one column: their features, and how far they are."""

    group: ColumnGroup
    features: Floats
    distances: Floats
    projected: Floats


def nearest_changes(
    explainer: Explainer, terms: ColumnTerms, node: int, *, top: int = 3
) -> list[Change]:
    """Return the smallest changes of one own column, or else of two, that change the prediction.

    The values are those of other nodes, and the model is evaluated with them. Its neighbourhood
    stays as it is. A number as target has no other answer: the list is empty.

    Args:
        terms: Of this explainer.
        top: How many changes, each of other columns.
    """
    classes = explainer.classes
    if len(classes) == 1:
        return []
    own = explainer.own_row(node)
    base = explainer.polynomial.project(own, np.arange(own.shape[1]))
    groups = [group for group in terms.groups if group.own and len(group.columns)]
    pairs = max(1, len(groups) * (len(groups) - 1) // 2)
    evaluations = _MOST_PAIRS / explainer.work(node)
    fewer = min(_MOST_VALUES, max(2, int((evaluations / pairs) ** 0.5)))
    predicted = _labels(explainer, node, base)[0]

    def find(most: int, size: int) -> Iterator[Change]:
        values = [_other_values(explainer, terms, each, own, most) for each in groups]
        for chosen in combinations(values, size):
            shape = [len(each.distances) for each in chosen]
            if 0 in shape:
                continue
            projected, distance = base, np.zeros(1)
            for each in chosen:
                projected = (projected[:, :, None] + each.projected[:, None]).reshape(
                    len(base), -1, base.shape[2]
                )
                distance = (distance[:, None] + each.distances).ravel()
            outcomes = _labels(explainer, node, projected)
            flips = np.flatnonzero(outcomes != predicted)
            if flips.size:
                best = int(flips[distance[flips].argmin()])
                places = np.unravel_index(best, shape)
                yield Change(
                    tuple(each.group.name for each in chosen),
                    tuple(value_text(v.group, own[0, v.group.columns]) for v in chosen),
                    tuple(
                        value_text(v.group, v.features[place])
                        for v, place in zip(chosen, places, strict=True)
                    ),
                    classes[outcomes[best]],
                    float(distance[best]),
                )

    found = list(find(_MOST_VALUES, 1)) or list(find(fewer, 2))
    return sorted(found, key=lambda change: change.distance)[:top]


def _other_values(
    explainer: Explainer, terms: ColumnTerms, group: ColumnGroup, own: Floats, most: int
) -> _Values:
    """Return values that other nodes have: quantiles of a number, else the commonest."""
    features = terms.inputs[:, group.columns]
    mine = own[0, group.columns]
    if group.is_number:
        order = np.argsort(features[:, 0], kind="stable")
        ranks = np.unique(np.linspace(0, len(order) - 1, most).astype(int))
        rows, place = features[order[ranks]], np.searchsorted(features[order, 0], mine[0])
        distances = np.abs(ranks - place) / len(order)
    else:
        rows, counts = np.unique(features, axis=0, return_counts=True)
        rows = rows[np.argsort(-counts, kind="stable")[:most]]
        distances = np.full(len(rows), _OTHER_CATEGORY)
    others = np.abs(rows - mine).max(axis=1) > 1e-6
    rows, distances = rows[others], distances[others]
    projected = explainer.polynomial.project(rows - mine, group.columns)
    return _Values(group, rows, distances, projected)
