"""The largest terms of columns in the scores of single nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crossgcn.explanation.columns import ColumnTerms


class NodeTerms(NamedTuple):
    """The score of a node's class, or its number: ``score = average + all terms``.

    Attributes:
        largest: Names and contributions of the largest terms.
    """

    average: float
    largest: list[tuple[str, float]]
    score: float


class TermsOfNodes:
    """Looks up the largest terms of any node.

    Args:
        terms: The terms of a model, with contributions to the scores of ``terms.nodes``.
        least_columns: Leave out terms of fewer columns.
    """

    def __init__(self, terms: ColumnTerms, *, least_columns: int = 1) -> None:
        self._terms = terms
        listed = [term for term in terms.terms if len(term.columns) >= least_columns]
        self._names = [term.name for term in listed]
        shape = (0, *terms.scores.shape)
        amounts = [term.contributions for term in listed]
        self._amounts = np.stack(amounts) if amounts else np.zeros(shape)
        self._rows = {int(node): row for row, node in enumerate(terms.nodes)}

    def __contains__(self, node: int) -> bool:
        """Whether the terms of a node are known; large graphs are explained by a sample."""
        return node in self._rows

    def of(self, node: int, label: int, top: int) -> NodeTerms:
        """Return the ``top`` largest terms in the score of a class; a number has ``label`` 0."""
        row, output, sign = self._rows[node], label, 1.0
        if self._terms.unit == "log-odds":  # one score, that of the second of two classes
            output, sign = 0, 1.0 if label == 1 else -1.0
        amounts = sign * self._amounts[:, row, output]
        largest = np.argsort(-np.abs(amounts), kind="stable")[:top]
        return NodeTerms(
            sign * float(self._terms.average[output]),
            [(self._names[each], float(amounts[each])) for each in largest],
            sign * float(self._terms.scores[row, output]),
        )
