"""Scores of all nodes as sums of purified terms of table columns.

The features that encode one column of the table (``age``, ``age rank``, ``dorm=7``) are one column
here, and so are their means over neighbours. A term belongs to a set of columns: a single one, a
pair, a triple. :mod:`~crossgcn.explanation.purify` says what purified terms are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from crossgcn.errors import BadInput, unknown_name
from crossgcn.explanation.columns import Column, score_name, show_frame
from crossgcn.explanation.inside import ALL_LEVELS, Grid, describe, make_grid
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.explanation.purify import Key

if TYPE_CHECKING:
    import pandas as pd

    from crossgcn.explanation.hop_explainer import HopExplainer

CROSS, OTHERS = " × ", "all other crosses"
SHOWN = 12
"""Terms that the text of an explanation lists."""
_MOST_VALUES = 100


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the scores.

    Attributes:
        key: Positions of its columns; empty for a sum of terms that are not listed.
        columns: Their names.
        scope: What its columns describe: the node itself (``own``), its ``neighbourhood`` or
            ``both``.
        contributions: ``[nodes, outputs]``.
        importance: Standard deviation of the contributions over nodes, ``[outputs]``.
        error: Standard error of the importance, ``[outputs]``; ``None`` for a single model.
        spread: Standard error of each contribution, ``[nodes, outputs]``, likewise.
    """

    key: Key
    columns: tuple[str, ...]
    scope: str
    contributions: Floats
    importance: Floats
    error: Floats | None = None
    spread: NDArray[np.float32] | None = None

    @property
    def name(self) -> str:
        """The columns as one text, as ``gender × neighbours: age``."""
        return CROSS.join(self.columns) or OTHERS

    def describe(self, output: int | slice = slice(None)) -> dict[str, Any]:
        """Return columns, scope, importance and error, as ``explain --json`` has them.

        The mean of all outputs is the default.
        """
        return {
            "columns": list(self.columns),
            "scope": self.scope,
            "importance": float(self.importance[output].mean()),
            "error": None if self.error is None else float(self.error[output].mean()),
        }

    def __repr__(self) -> str:
        error = "" if self.error is None else f" ± {self.error.max():.2g}"
        return f"Term({self.name}, importance {self.importance.max():.3g}{error})"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Scores as sums: ``scores = average + sum of the contributions of all terms``.

    :meth:`term` and :meth:`node` look at one term and at one node. ``values``, ``base_values`` and
    ``feature_names`` are what SHAP's plots take.

    Attributes:
        outputs: What each score is for: the second of two classes, each of more classes, or the
            target that is a number.
        unit: ``"log-odds"`` for two classes, ``"margin"`` for more (a class against the mean of
            the others), and the name of the target for a number.
        against: The class or classes that a lower score is for; empty for a number.
        nodes: Numbers of the nodes that the terms are fitted on, all nodes or a sample of a large
            graph; then of rows that are not among them.
        scores: ``[nodes, outputs]``.
        average: The mean score, ``[outputs]``.
        terms: In no particular order.
        rest: The sum of the terms that are not listed, if there are any.
        inputs: The inputs of the model that the columns refer to, ``[nodes, inputs]``.
        explainer: Explains single nodes.
        num_unlisted: How many sets of 2, 3, ... columns are in ``rest``.
        num_fitted: How many of the first nodes the terms are fitted on. Average and importance
            are theirs, and so is what is inside a term.
    """

    outputs: tuple[str, ...]
    unit: str
    against: str
    nodes: Ints
    scores: Floats
    average: Floats
    terms: tuple[Term, ...]
    rest: Term | None
    inputs: Floats
    explainer: HopExplainer
    num_unlisted: Mapping[int, int]
    num_fitted: int

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the terms refer to."""
        return self.explainer.columns

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the columns that the model does not read, so that no term has them."""
        return self.explainer.dropped

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probability of each output, or of one of two classes against the other."""
        count = scores.shape[-1]
        if self.unit == "margin":
            return np.asarray(softmax(scores * (1 - 1 / count), axis=-1))
        return np.asarray(expit(scores))

    @property
    def all_terms(self) -> tuple[Term, ...]:
        """The terms and, if there is one, the rest."""
        return self.terms if self.rest is None else (*self.terms, self.rest)

    @property
    def values(self) -> Floats:
        """The contributions, ``[nodes, terms]``, or ``[nodes, terms, outputs]`` of many.

        Of an estimator that was given rows: of these rows.
        """
        values = np.stack([term.contributions for term in self.all_terms], axis=1)[self._rows]
        return np.asarray(values[:, :, 0] if len(self.outputs) == 1 else values)

    @property
    def base_values(self) -> Floats:
        """The average of each node, ``[nodes]``, or ``[nodes, outputs]`` of many."""
        base: Floats = np.repeat(self.average[np.newaxis], len(self.nodes[self._rows]), axis=0)
        return base[:, 0] if len(self.outputs) == 1 else base

    @property
    def feature_names(self) -> list[str]:
        """The name of each term."""
        return [term.name for term in self.all_terms]

    def strongest(self, output: int = 0, top: int | None = None) -> list[Term]:
        """Return the terms of one score, the most important first.

        Args:
            top: How many of one column, of two, and so on; all by default.
        """
        ranked = sorted(self.terms, key=lambda term: -float(term.importance[output]))
        return keep_strongest(ranked, top, lambda term: len(term.columns))

    def overall(self, top: int | None = None) -> list[tuple[Term, int]]:
        """Return the terms by mean importance over the scores, and the score each matters most to.

        Args:
            top: As in :meth:`strongest`.
        """
        ranked = sorted(self.terms, key=lambda term: -float(term.importance.mean()))
        kept = keep_strongest(ranked, top, lambda term: len(term.columns))
        return [(term, int(term.importance.argmax())) for term in kept]

    def by_size(self, output: int = 0) -> dict[int, float]:
        """Return the importance of all listed terms of 1, 2, ... columns together."""
        sums: dict[int, Floats] = {}
        for term in self.terms:
            size = len(term.columns)
            sums[size] = sums.get(size, 0.0) + term.contributions[: self.num_fitted, output]
        return {size: float(sums[size].std()) for size in sorted(sums)}

    def shares_of_largest(self, nodes: Ints | None = None) -> Floats:
        """Return which share of a prediction its 1, 2, 3, ... largest terms carry, ``[terms]``.

        For one node this is the sum of the absolute contributions of its largest terms, divided by
        that of all its terms. Returned is the median over some nodes, all by default. Of several
        scores, that of the predicted class counts. ``rest`` is never one of the largest terms.
        """
        rows = np.flatnonzero(
            np.isin(self.nodes, self.nodes[: self.num_fitted] if nodes is None else nodes)
        )
        outputs = self.scores[rows].argmax(axis=1)
        sizes = np.abs([term.contributions[rows, outputs] for term in self.all_terms])
        largest = -np.sort(-sizes[: len(self.terms)], axis=0)
        total = sizes.sum(axis=0)
        sums = largest.cumsum(axis=0)
        shares = np.divide(sums, total, out=np.ones_like(sums), where=total > 0)
        return np.asarray(np.median(shares, axis=1))

    def term(self, *columns: str) -> Term:
        """Return the term of some columns, in any order."""
        for term in self.terms:
            if sorted(term.columns) == sorted(columns):
                return term
        known = sorted(column.name for column in self.columns)
        for name in columns:
            if name in self.dropped:
                raise BadInput(
                    f"there is no term of {name!r}: the model does not read this column; train "
                    "with --columns all to keep every column"
                )
            if name not in known:
                raise unknown_name("column", name, known)
        raise BadInput(
            f"there is no term of {CROSS.join(columns)}: the model does not multiply them, or it "
            "is among those that are not listed one by one"
        )

    def node(self, node: Any, output: int | None = None) -> NodeExplanation:
        """Return one score of one node as a sum.

        Args:
            node: The number of a node, or of a row of an estimator; the id of a node of a run.
            output: Position of the score; that of the predicted class by default.
        """
        place = self.explainer.names.node(node)
        whole = self if place in self.place_of else self.explainer.explain([place])
        return NodeExplanation(whole, place, output)

    def inside(self, term: Term, output: int = 0, top: int = 5) -> dict[str, Any]:
        """Return what is inside a term: ``cells``, and the ``slope`` of numbers."""
        return describe(self, term, output, top)

    def grid(self, term: Term) -> Grid | None:
        """Return a term by all values of its columns; ``None`` if they have no values."""
        return make_grid(self, term, ALL_LEVELS)

    def to_json(self, top: int | None = None, output: int | None = None) -> list[dict[str, Any]]:
        """Return the terms as ``explain --json`` lists them, the most important first.

        Args:
            top: As in :meth:`strongest`.
            output: Terms of one score only.
        """
        listed = range(len(self.outputs)) if output is None else [output]
        return [
            {"class": self.outputs[each], **term.describe(each), **self.inside(term, each)}
            for each in listed
            for term in self.strongest(each, top)
        ]

    def to_frame(self, top: int | None = None) -> pd.DataFrame:
        """Return one row per score and term, the most important first, with what is inside.

        The last row of a score is the sum of the terms that are not listed, if there are any.
        """
        records = []
        for at, name in enumerate(self.outputs):
            records += self.to_json(top, at)
            if self.rest is not None:
                records.append({"class": name, **self.rest.describe(at)})
        return make_frame(records)

    @cached_property
    def place_of(self) -> dict[int, int]:
        """The row of each node."""
        return {int(node): row for row, node in enumerate(self.nodes)}

    @cached_property
    def other_values(self) -> list[tuple[Column, Floats, Floats | None]]:
        """Values of each own column: numbers at a hundred ranks, or the commonest categories.

        With numbers comes the share of nodes below each.
        """
        found: list[tuple[Column, Floats, Floats | None]] = []
        for column in (column for column in self.columns if column.scope == "own"):
            values = self.inputs[: self.num_fitted, column.places]
            if column.is_number:
                ranks = np.unique(np.linspace(0, len(values) - 1, _MOST_VALUES).astype(int))
                in_order = np.argsort(values[:, 0], kind="stable")
                found.append((column, values[in_order[ranks]], ranks / len(values)))
            else:
                values, counts = np.unique(values, axis=0, return_counts=True)
                commonest = np.argsort(-counts, kind="stable")[:_MOST_VALUES]
                found.append((column, values[commonest], None))
        return found

    def occurs(self, row: Floats, column: Column, values: Floats) -> bool:
        """Return whether nodes with about these values of a column are like a row otherwise.

        These are the nodes with the same category, or the eighth with the nearest numbers, at most
        a quarter of a standard deviation away. In each other own column, the row must be between
        the least and the most of them.
        """
        known = self.inputs[: self.num_fitted]
        if column.is_number:
            numbers = known[:, column.places[0]]
            distance = np.abs(numbers - values[0])
            near = known[distance <= min(np.quantile(distance, 1 / 8), numbers.std() / 4)]
        else:
            near = known[(known[:, column.places] == values).all(axis=1)]
        own = [each.places for each in self.columns if each.scope == "own" and each is not column]
        places = np.concatenate([np.zeros(0, np.int64), *own])
        near, own_values = near[:, places], row[places]
        return bool(
            (near.min(axis=0) <= own_values).all() and (own_values <= near.max(axis=0)).all()
        )

    @property
    def _rows(self) -> Any:
        """The rows of the user among the nodes."""
        rows = self.explainer.names.rows
        if rows is None:
            return slice(None)
        if not self.place_of.keys() >= set(rows.tolist()):
            raise BadInput(
                f"only a sample of {len(self.nodes)} nodes is explained at once, and not all rows "
                "are in it; explain single rows: explain(estimator, X, node=0)"
            )
        return [self.place_of[row] for row in rows.tolist()]

    def __repr__(self) -> str:
        lines = [f"Explanation of {self.num_fitted:,} nodes, {len(self.terms):,} terms"]
        if self.dropped:
            every = len(self.columns) + len(self.dropped)
            lines[0] += f" of {len(self.columns):,} of {every:,} columns"
        if len(self.outputs) == 1:
            named = score_name(self.outputs[0], self.unit, self.against)
            lines.append(f"{named}; average {self.average[0]:+.4g}")
        largest = self.overall()[:SHOWN]
        shown = make_frame([{**t.describe(), "class": self.outputs[at]} for t, at in largest])
        kept = ["term", "importance", "error"] + ["class"] * (len(self.outputs) > 1)
        return "\n".join([*lines, show_frame(shown[kept])])


def keep_strongest(ranked: Sequence[Any], top: int | None, size: Callable[[Any], int]) -> list[Any]:
    """Return the first ``top`` of each size, or all."""
    chosen, seen = [], Counter[int]()
    for each in ranked:
        seen[size(each)] += 1
        if top is None or seen[size(each)] <= top:
            chosen.append(each)
    return chosen


def make_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return records of terms as a table, their cells as text."""
    import pandas as pd

    rows = [
        {
            **row,
            "term": CROSS.join(row["columns"]) or OTHERS,
            "columns": tuple(row["columns"]),
            "cells": "; ".join(
                f"{' & '.join(cell['names'])} {cell['contribution']:+.3g}"
                for cell in row.get("cells", ())
            ),
        }
        for row in records
    ]
    names = ["class", "term", "columns", "scope", "importance", "error", "slope", "cells"]
    return pd.DataFrame(rows, columns=names)


def make_term(
    key: Key, columns: Sequence[Column], contributions: Floats, bags: int, num_fitted: int
) -> Term:
    """Measure the importance of a term, and its error by the jackknife over bags.

    Args:
        contributions: ``[nodes, bags * outputs]``; their mean is taken away.
        num_fitted: The importance is over so many of the first nodes.
    """
    by_bag = contributions.reshape(len(contributions), bags, -1)
    by_bag = by_bag - by_bag[:num_fitted].mean(axis=0)
    means, error, spread = by_bag.mean(axis=1), None, None
    if bags > 1:
        spread = by_bag.std(axis=1, ddof=1).astype(np.float32) / sqrt(bags)
        without = (bags * means[:, np.newaxis] - by_bag)[:num_fitted] / (bags - 1)
        error = without.std(axis=0).std(axis=0) * sqrt(bags - 1)
    scopes = {columns[place].scope for place in key}
    scope = scopes.pop() if len(scopes) == 1 else "both"
    names = tuple(columns[place].name for place in key)
    return Term(key, names, scope, means, means[:num_fitted].std(axis=0), error, spread)
