"""One node: its score as a sum, which neighbours made it, and what would change the answer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crossgcn.explanation.changes import Change, nearest_changes
from crossgcn.explanation.polynomial import Floats
from crossgcn.explanation.terms import SCOPES, Explanation, Term, score_name

if TYPE_CHECKING:
    import pandas as pd

_LARGEST, _SHOWN = 100, 12


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
        self.name = whole.explainer.names.show(node)
        self.row = whole.place_of[node]
        label = int(whole.explainer.predict(node)[0])
        classes = whole.explainer.names.classes
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

    def sum_of(self, scope: str) -> float:
        """Return what the terms of ``own``, ``neighbourhood`` or ``both`` add in all."""
        parts = zip(self.terms, self.values.tolist(), strict=True)
        return float(sum(value for term, value in parts if term.scope == scope))

    @cached_property
    def held(self) -> dict[str, str]:
        """What the node has, by column: ``{"gender": "female", "neighbours: age": "34.2"}``.

        Of the neighbourhood: means of numbers, and the share of the second of two classes.
        """
        whole = self.whole
        return {
            column.name: column.value_text(whole.inputs[self.row, column.places])
            for column in whole.columns
            if len(column.places)
            if column.scope == "own"
            or (whole.neighbours is None and column.is_number and column.scale != (0.0, 1.0))
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
        return nearest_changes(self.whole, self.node)

    def shown(self, term: Term) -> list[str]:
        """Return what the node has in the columns of a term, where that is known."""
        return [self.held[name] for name in term.columns if name in self.held]

    def to_json(self) -> dict[str, Any]:
        """Return what ``explain --node --json`` prints; ``average`` and values give ``score``.

        The largest terms have their cells, the others none, which would take long.
        """
        names = self.whole.explainer.names
        return {
            "class": self.output,
            "score": self.score,
            "average": self.average,
            "terms": [
                {
                    **term.describe(self.place),
                    "value": value,
                    "shown": self.shown(term),
                    **(self.whole.inside(term, self.place, 2) if at < _LARGEST else {"cells": []}),
                }
                for at, (term, value) in enumerate(
                    zip(self.terms, self.values.tolist(), strict=True)
                )
            ],
            **{scope: self.sum_of(scope) for scope in SCOPES},
            "predicted": self.predicted,
            "neighbours": [
                {"node": names.show(near), "contribution": amount}
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
                "scope": [term.scope for term in self.terms],
                "value": self.values,
                "shown": [", ".join(self.shown(term)) for term in self.terms],
            }
        )

    def __repr__(self) -> str:
        shown = self.to_frame().head(_SHOWN)[["term", "value", "shown"]]
        return (
            f"node {self.name}, {score_name(self.output, self.unit)}: score {self.score:+.4g}, "
            f"average {self.average:+.4g}, {len(self.terms):,} terms\n"
            + shown.to_string(index=False, max_colwidth=50)
        )
