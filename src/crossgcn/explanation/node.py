"""One node: its score as a sum, which neighbours made it, and what would change the answer."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crossgcn.explanation.columns import SCOPES, score_name, show_frame
from crossgcn.explanation.polynomial import Floats

if TYPE_CHECKING:
    import pandas as pd

    from crossgcn.explanation.terms import Explanation, Term

_LARGEST, _SHOWN = 100, 12
_MOST_CHANGES = 3
_OTHER_CATEGORY = 0.5
"""The distance of a change of category; that of a number is the share of nodes between."""


class NodeExplanation:
    """One score of one node: ``score = average + values.sum()``.

    Attributes:
        whole: The explanation of all nodes.
        node: The number of the node.
        name: What it is called.
        predicted: The predicted class; ``None`` for a number.
        output: What the score is for, in ``unit``.
        probability: The probability of ``output``, of the two classes if it is against another;
            ``None`` for a number.
        terms: The terms of ``values``, the largest value first.
        values: What each term adds.
    """

    def __init__(self, whole: Explanation, node: int, output: int | None = None) -> None:
        self.whole, self.node = whole, node
        self.name = whole.explainer.names.show(node)
        self.row = whole.place_of[node]
        self._projected = whole.explainer.polynomial.project(whole.inputs[[self.row]])
        label = int(whole.explainer.predict(self._projected)[0])
        classes = whole.explainer.names.classes
        self.predicted = classes[label] if len(classes) > 1 else None
        if output is None:
            output = label if len(whole.outputs) > 1 else 0
        self.place = output
        self.output, self.unit = whole.outputs[output], whole.unit
        self.probability: float | None = None
        if self.predicted is not None:
            self.probability = float(whole.probabilities(whole.scores[self.row])[output])
        self.score = float(whole.scores[self.row, output])
        self.average = float(whole.average[output])
        every = self._terms()
        values = np.array([term.contributions[self.row, output] for term in every])
        order = np.argsort(-np.abs(values), kind="stable")
        self.terms = [every[place] for place in order]
        self.values: Floats = values[order]

    @cached_property
    def held(self) -> dict[str, str]:
        """What the node has, by column: ``{"gender": "female", "neighbours: age": "34.2"}``.

        Of the neighbourhood: means of numbers, and the largest shares of categories, as they are
        in the table, neither cut nor smoothed.
        """
        row = self.whole.explainer.plain(self.node)
        held = {each.name: each.value_text(row[each.places]) for each in self.whole.columns}
        around = [each.name for each in self.whole.columns if each.scope != "own"]
        names = self.whole.explainer.names
        return held | (dict.fromkeys(around, f"no {names.neighbours}") if self.is_alone else {})

    @cached_property
    def is_alone(self) -> bool:
        """Whether the node has no neighbours."""
        return not len(self.whole.explainer.near(self.node))

    @cached_property
    def points(self) -> Floats | None:
        """What each term adds in percentage points of a share or of the probability of a class.

        Of a probability it is what the probability would lose without the term, so that points do
        not add up. ``None`` for a number that is no share.
        """
        if self.predicted is None:
            return 100 * self.values if self.whole.explainer.is_share else None
        scores = self.whole.scores[self.row]
        without = scores - np.stack([term.contributions[self.row] for term in self.terms])
        change = self.whole.probabilities(scores) - self.whole.probabilities(without)
        return np.asarray(100 * change[:, self.place])

    def _terms(self) -> list[Term]:
        """Return all terms; those of the neighbourhood as one if the node has no neighbours."""
        every, explainer = self.whole.all_terms, self.whole.explainer
        around = [term for term in every if term.columns and term.scope != "own"]
        if not around or not self.is_alone:
            return list(every)
        total = np.sum([term.contributions for term in around], axis=0)
        one = replace(
            around[0],
            key=(),
            columns=(f"has no {explainer.names.neighbours}",),
            scope="neighbourhood",
            contributions=total,
            importance=total[: self.whole.num_fitted].std(axis=0),
            error=None,
            spread=None,
        )
        return [*(term for term in every if term not in around), one]

    @cached_property
    def neighbours(self) -> list[tuple[int, float, str]]:
        """The number of each neighbour, its contribution and relation, the largest first."""
        found = self.whole.explainer.neighbours(self.node)
        values = [(near, float(effect[self.place]), name) for near, effect, name in found]
        return sorted(values, key=lambda each: -abs(each[1]))

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """The nearest changes of one own column that give another answer.

        Each has the ``column``, what the node has (``before``), what it would need (``after``),
        the class that would be predicted (``outcome``), and a ``distance``: the share of nodes
        between both numbers, or 0.5 for another category. The values are those of other nodes,
        and the model is evaluated with them. The neighbourhood stays as it is. Nodes with about
        such a value must have values on both sides of the node's own ones, in every other own
        column. Missing values neither change nor result.
        """
        explainer = self.whole.explainer
        found: list[dict[str, Any]] = []
        if self.predicted is None:
            return []
        row = self.whole.inputs[self.row]
        for column, values, below in self.whole.other_values:
            own = row[column.places]
            if column.is_missing(own):
                continue
            distances = np.full(len(values), _OTHER_CATEGORY)
            if below is not None:
                known = self.whole.inputs[: self.whole.num_fitted, column.places[0]]
                distances = np.abs(below - (known < own[0]).mean())
            effects = explainer.polynomial.project(values - own, column.places)
            labels = explainer.predict(self._projected + effects)
            outcomes = np.array(explainer.names.classes)[labels]
            flips = np.flatnonzero((outcomes != self.predicted) & ~column.is_missing(values))
            for best in flips[np.argsort(distances[flips], kind="stable")].tolist():
                if not self.whole.occurs(row, column, values[best]):
                    continue
                change = {
                    "column": column.name,
                    "before": self.held[column.name],
                    "after": column.value_text(values[best]),
                    "outcome": str(outcomes[best]),
                    "distance": float(distances[best]),
                }
                found.append(change)
                break
        return sorted(found, key=lambda change: change["distance"])[:_MOST_CHANGES]

    def shown(self, term: Term) -> list[str]:
        """Return what the node has in each column of a term."""
        return [self.held[name] for name in term.columns if name in self.held]

    def to_json(self) -> dict[str, Any]:
        """Return what ``explain --node --json`` prints; ``average`` and values give ``score``.

        The largest terms have their cells, the others none, which would take long.
        """
        names, terms = self.whole.explainer.names, []
        several = len(names.relations) > 1

        def in_relation(name: str) -> dict[str, str]:
            return {"relation": name} if several else {}

        sums = dict.fromkeys(SCOPES, 0.0)
        points = [None] * len(self.terms) if self.points is None else self.points.tolist()
        for at, (term, value) in enumerate(zip(self.terms, self.values.tolist(), strict=True)):
            sums[term.scope] += value
            inside = self.whole.inside(term, self.place, 2) if at < _LARGEST else {"cells": []}
            record = {**term.describe(self.place), "value": value, "points": points[at]}
            record["shown"] = self.shown(term)
            terms.append(record | inside)
        return {
            "class": self.output,
            "score": self.score,
            "average": self.average,
            "probability": self.probability,
            "terms": terms,
            **sums,
            "predicted": self.predicted,
            "neighbours": [
                {"node": names.show(near), "contribution": amount, **in_relation(name)}
                for near, amount, name in self.neighbours
            ],
            "meaning": self.whole.explainer.meaning,
            "changes": self.changes,
        }

    def in_words(self, top: int) -> list[str]:
        """Return the largest terms as ``neighbours: age (34.2) +0.21``."""
        texts = []
        for term, value in zip(self.terms[:top], self.values.tolist(), strict=False):
            shown = "; ".join(self.shown(term))
            texts.append(f"{term.name}{f' ({shown})' if shown else ''} {value:+.3g}")
        return texts

    def to_frame(self) -> pd.DataFrame:
        """Return rows whose ``value`` add up to the score: the average, then the terms."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "term": ["average", *(term.name for term in self.terms)],
                "columns": [(), *(term.columns for term in self.terms)],
                "scope": ["", *(term.scope for term in self.terms)],
                "value": [self.average, *self.values.tolist()],
                "shown": ["", *("; ".join(self.shown(term)) for term in self.terms)],
            }
        )
        if self.points is not None:
            frame["points"] = [np.nan, *self.points.tolist()]
        return frame

    def __repr__(self) -> str:
        sure = "" if self.probability is None else f", probability {self.probability:.3g}"
        named = score_name(self.output, self.unit, self.whole.against)
        lines = [
            f"node {self.name}: score {self.score:+.4g}{sure}, {len(self.terms):,} terms",
            named,
        ]
        return "\n".join(
            [*lines, show_frame(self.to_frame().head(_SHOWN).drop(columns=["columns", "scope"]))]
        )
