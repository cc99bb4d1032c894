"""Scores of all nodes as sums of purified terms of table columns.

The features that encode one column of the table (``age``, ``age rank``, ``dorm=7``) are one column
here, and so are their means over neighbours. A term belongs to a set of columns: a single one, a
pair, a triple. :mod:`~crossgcn.explanation.purify` says what purified terms are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput, unknown_name
from crossgcn.explanation.purify import Key
from crossgcn.explanation.reading import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from crossgcn.explanation.hops import HopExplainer
    from crossgcn.explanation.layered import LayeredExplainer
    from crossgcn.explanation.node import Changes, NodeExplanation

MOST_COLUMNS = 200
"""A table with more columns has no terms by column."""
CELLS = 1 << 26
"""Numbers kept at once. More nodes than fit are represented by a sample."""
CROSS = " × "
WHOSE = ("own", "neighbourhood", "both")
_SHOWN = 12


class NotByColumn(BadInput):
    """A model has no terms by column; the products of its features can be listed."""


@dataclass(frozen=True)
class Column:
    """A column of the table, own or of the neighbourhood.

    Attributes:
        name: Such as ``age`` or ``neighbours: age``.
        places: Positions of its features among the inputs of the model.
        features: Name of each of them.
        own: Whether it describes the node itself.
        is_number: Whether it is a number; then ``places`` starts with the number itself.
        scale: Zero point and step of the number, ``number = zero + step * value``.
        limits: Least and largest number that the encoding tells apart.
        is_log: Whether the number is the logarithm of a count plus one.
    """

    name: str
    places: Ints
    features: tuple[str, ...]
    own: bool
    is_number: bool
    scale: tuple[float, float] = (0.0, 1.0)
    limits: tuple[float, float] = (-inf, inf)
    is_log: bool = False

    def numbers(self, values: Floats) -> Floats:
        """Return numbers in their own unit."""
        numbers: Floats = self.scale[0] + self.scale[1] * values
        return np.expm1(numbers) if self.is_log else numbers


@dataclass(frozen=True)
class Term:
    """One term of the scores.

    Attributes:
        key: Positions of its columns; empty for a sum of terms that are not listed.
        columns: Their names.
        whose: Whose columns they are: the node's ``own``, its ``neighbourhood``'s or ``both``.
        contributions: ``[nodes, outputs]``.
        importance: Standard deviation of the contributions over nodes, ``[outputs]``.
        error: Standard error of the importance, ``[outputs]``; ``None`` for a single model.
        spread: Standard error of each contribution, ``[nodes, outputs]``, likewise.
    """

    key: Key
    columns: tuple[str, ...]
    whose: str
    contributions: Floats
    importance: Floats
    error: Floats | None = None
    spread: NDArray[np.float32] | None = None

    @property
    def name(self) -> str:
        """The columns as one text, as ``gender × neighbours: age``."""
        return CROSS.join(self.columns) or "all other crosses"

    def __repr__(self) -> str:
        error = "" if self.error is None else f" ± {self.error.max():.2g}"
        return f"Term({self.name}, importance {self.importance.max():.3g}{error})"


@dataclass(frozen=True, repr=False)
class Explanation:
    """Scores as sums: ``scores = average + sum of the contributions of all terms``.

    :meth:`term` and :meth:`node` look at one term and at one node. ``values``, ``base_values`` and
    ``feature_names`` are what SHAP's plots take.

    Attributes:
        outputs: What each score is for: the second of two classes, each of more classes, or the
            target that is a number.
        unit: ``"log-odds"`` for two classes, ``"margin"`` for more (a class against the mean of
            the others), and the name of the target for a number.
        nodes: Numbers of the nodes: all nodes, or a sample of a large graph.
        scores: ``[nodes, outputs]``.
        average: The mean score, ``[outputs]``.
        terms: In no particular order.
        rest: The sum of the terms that are not listed, if there are any.
        columns: The columns that the terms refer to.
        inputs: The inputs of the model that the columns refer to, ``[nodes, inputs]``.
        neighbours: For models that sum over neighbours: the weight of each node in the
            neighbourhood of each other, ``[nodes, nodes]``. Columns of the neighbourhood are
            then those of the neighbours themselves, not their means.
        explainer: Explains single nodes.
        num_unlisted: How many sets of 2, 3, ... columns are in ``rest``.
        unlisted_by_column: Importance of the sets in ``rest`` with each column, ``[columns,
            outputs]``.
        rows: The positions in ``nodes`` that ``values`` and ``base_values`` are of, for rows of
            an estimator; all by default.
        find: Returns the number of a node by what users call it.
        names: What nodes are called.
    """

    outputs: tuple[str, ...]
    unit: str
    nodes: Ints
    scores: Floats
    average: Floats
    terms: tuple[Term, ...]
    rest: Term | None
    columns: tuple[Column, ...]
    inputs: Floats
    neighbours: Any
    explainer: HopExplainer | LayeredExplainer
    num_unlisted: Mapping[int, int] = field(default_factory=dict)
    unlisted_by_column: Floats | None = None
    rows: Ints | None = None
    find: Callable[[Any], int] | None = None
    names: Sequence[str] | None = None

    @property
    def all_terms(self) -> tuple[Term, ...]:
        """The terms and, if there is one, the rest."""
        return self.terms if self.rest is None else (*self.terms, self.rest)

    @property
    def values(self) -> Floats:
        """The contributions, ``[nodes, terms]``, or ``[nodes, terms, outputs]`` of many."""
        values = np.stack([term.contributions for term in self.all_terms], axis=1)
        values = values if self.rows is None else values[self.rows]
        return values[:, :, 0] if len(self.outputs) == 1 else values

    @property
    def base_values(self) -> Floats:
        """The average of each node, ``[nodes]``, or ``[nodes, outputs]`` of many."""
        count = len(self.nodes if self.rows is None else self.rows)
        base: Floats = np.repeat(self.average[np.newaxis], count, axis=0)
        return base[:, 0] if len(self.outputs) == 1 else base

    @property
    def feature_names(self) -> list[str]:
        """The name of each term."""
        return [term.name for term in self.all_terms]

    def strongest(self, output: int = 0, order: int | None = None) -> list[Term]:
        """Return the terms of one score, or those of ``order`` columns; most important first."""
        terms = [term for term in self.terms if order in (None, len(term.columns))]
        return sorted(terms, key=lambda term: -float(term.importance[output]))

    def by_size(self, output: int = 0) -> dict[int, float]:
        """Return the importance of all listed terms of 1, 2, ... columns together."""
        sums: dict[int, Floats] = {}
        for term in self.terms:
            size = len(term.columns)
            sums[size] = sums.get(size, 0.0) + term.contributions[:, output]
        return {size: float(sums[size].std()) for size in sorted(sums)}

    def unlisted_columns(self, output: int = 0) -> dict[str, float]:
        """Return the importance of the crosses in ``rest`` with each column, the largest first."""
        if self.rest is None or self.unlisted_by_column is None:
            return {}
        sizes = self.unlisted_by_column[:, output]
        largest = np.argsort(-sizes, kind="stable")
        return {self.columns[place].name: float(sizes[place]) for place in largest}

    def term(self, *columns: str) -> Term:
        """Return the term of some columns, in any order."""
        for term in self.terms:
            if sorted(term.columns) == sorted(columns):
                return term
        known = {name for term in self.terms for name in term.columns}
        for name in columns:
            if name not in known:
                raise unknown_name("column", name, sorted(known))
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
        from crossgcn.explanation.node import NodeExplanation

        place = self._find(node)
        whole = self
        if place not in self.place_of:
            whole = replace(self.explainer.explain(place), names=self.names)
        return NodeExplanation(whole, place, output)

    def inside(self, term: Term, output: int = 0, top: int = 5) -> dict[str, Any]:
        """Return what is inside a term: ``cells``, and the ``slope`` of numbers."""
        from crossgcn.explanation.inside import describe

        return describe(self, term, output, top)

    def to_json(
        self, top: int | None = None, order: int | None = None, output: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the terms as ``explain --json`` lists them, the most important first.

        Args:
            top: How many terms of one column, of two, and so on; all by default.
            order: Terms of this many columns only.
            output: Terms of one score only.
        """
        listed = range(len(self.outputs)) if output is None else [output]
        return [
            {
                "class": self.outputs[each],
                "columns": list(term.columns),
                "whose": term.whose,
                "importance": float(term.importance[each]),
                "error": None if term.error is None else float(term.error[each]),
                **self.inside(term, each),
            }
            for each in listed
            for term in self._first(each, top, order)
        ]

    def to_frame(self, top: int | None = None, order: int | None = None) -> pd.DataFrame:
        """Return one row per score and term, the most important first, with what is inside."""
        import pandas as pd

        names = ["class", "term", "columns", "whose", "importance", "error", "slope", "cells"]
        rows = [
            row
            | {
                "term": CROSS.join(row["columns"]),
                "columns": tuple(row["columns"]),
                "cells": "; ".join(map(cell_text, row["cells"])),
            }
            for row in self.to_json(top, order)
        ]
        return pd.DataFrame(rows, columns=names)

    def plot(self, output: int = 0, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw the importance of the strongest terms of one score as bars with error bars."""
        from crossgcn.explanation.figures import plot_terms

        return plot_terms(self, output, top, ax)

    @cached_property
    def place_of(self) -> dict[int, int]:
        """The row of each node."""
        return {int(node): row for row, node in enumerate(self.nodes)}

    @cached_property
    def changes(self) -> Changes:
        """Finds what would change the answer for a node."""
        from crossgcn.explanation.node import Changes

        return Changes(self)

    def _first(self, output: int, top: int | None, order: int | None) -> list[Term]:
        seen: dict[int, int] = {}
        chosen = []
        for term in self.strongest(output, order):
            size = len(term.columns)
            seen[size] = seen.get(size, 0) + 1
            if top is None or seen[size] <= top:
                chosen.append(term)
        return chosen

    def _find(self, node: Any) -> int:
        if self.find is not None:
            return self.find(node)
        return int(node)

    def __repr__(self) -> str:
        lines = [f"Explanation of {len(self.nodes):,} nodes, {len(self.terms):,} terms"]
        shown = max(2, _SHOWN // len(self.outputs))
        for output, name in enumerate(self.outputs[:6]):
            lines.append(f"{score_name(name, self.unit)}: average {self.average[output]:+.4g}")
            for term in self.strongest(output)[:shown]:
                error = "" if term.error is None else f" ± {term.error[output]:.2g}"
                lines.append(f"  {term.importance[output]:#.3g}{error}  {term.name[:60]}")
        if len(self.outputs) > 6:
            lines.append(f"and {len(self.outputs) - 6:,} more classes")
        return "\n".join(lines)


def cell_text(cell: Mapping[str, Any]) -> str:
    """Return a cell as text, as ``gender=female & age 20 to 25 +0.31``."""
    return f"{' & '.join(cell['names'])} {cell['contribution']:+.3g}"


def score_name(name: str, unit: str) -> str:
    """Return what a score is for, with its unit."""
    if unit == name:
        return name
    kind = name if " rather than " in name else f"class {name}"
    return f"{kind} ({unit})"


def name_outputs(
    classes: Sequence[str], contrast: tuple[int, int] | None = None
) -> tuple[tuple[str, ...], str]:
    """Return what each score is for, and its unit; see :class:`Explanation`."""
    if contrast is not None:
        first, second = (classes[label] for label in contrast)
        return (first if len(classes) == 2 else f"{first} rather than {second}",), "log-odds"
    if len(classes) == 2:
        return (classes[1],), "log-odds"
    return tuple(classes), classes[0] if len(classes) == 1 else "margin"


def make_term(key: Key, columns: Sequence[Column], contributions: Floats, bags: int) -> Term:
    """Measure the importance of a term, and its error by the jackknife over bags."""
    by_bag = contributions.reshape(len(contributions), bags, -1)
    mean = by_bag.mean(axis=1)
    spread = by_bag.std(axis=1, ddof=1).astype(np.float32) / sqrt(bags) if bags > 1 else None
    by_bag = by_bag - by_bag.mean(axis=0)
    covariance = np.einsum("nbo,nco->obc", by_bag, by_bag) / len(by_bag)
    total, with_others = covariance.sum(axis=(1, 2)), covariance.sum(axis=2)
    error = None
    if bags > 1:
        own = np.diagonal(covariance, axis1=1, axis2=2)
        without = total[:, np.newaxis] - 2 * with_others + own
        each = np.sqrt(np.maximum(without, 0.0)) / (bags - 1)
        error = each.std(axis=1) * sqrt(bags - 1)
    sides = {columns[place].own for place in key}
    whose = "both" if len(sides) != 1 else "own" if sides == {True} else "neighbourhood"
    names = tuple(columns[place].name for place in key)
    return Term(key, names, whose, mean, np.sqrt(np.maximum(total, 0.0)) / bags, error, spread)


def error_over_models(models: Sequence[Explanation]) -> Explanation:
    """Return the first, with standard errors of importances and contributions over all."""
    first, *others = models
    same: dict[tuple[str, ...], list[Term]] = {term.columns: [term] for term in first.terms}
    for other in others:
        for term in other.terms:
            if term.columns in same:
                same[term.columns].append(term)

    def with_errors(found: list[Term]) -> Term:
        if len(found) < 2:
            return found[0]
        error = np.std([term.importance for term in found], axis=0, ddof=1)
        spread = np.std([term.contributions for term in found], axis=0, ddof=1)
        root = sqrt(len(found))
        return replace(found[0], error=error / root, spread=(spread / root).astype(np.float32))

    return replace(first, terms=tuple(map(with_errors, same.values())))


def sample_nodes(num_nodes: int, at_most: int, node: int | None) -> Ints:
    """Return all nodes, or an even sample that includes ``node``."""
    if num_nodes <= at_most:
        return np.arange(num_nodes)
    nodes = np.random.default_rng(0).choice(num_nodes, at_most, replace=False)
    nodes = nodes if node is None else np.append(nodes[:-1], node)
    return np.unique(nodes)
