"""Scores as sums of terms of table columns.

The features that encode one column of the table (``age``, ``age rank``, ``dorm=7``) are one group,
and so are their means over neighbours. A term belongs to a set of groups: a single column, a pair,
a triple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.encode.numbers import MAX_DEVIATIONS
from crossgcn.errors import BadInput
from crossgcn.explanation.polynomial import Polynomial, as_array
from crossgcn.explanation.purify import Key, Terms, cells_per_node
from crossgcn.explanation.reading import Floats, Ints
from crossgcn.graph import SparseMatrix
from crossgcn.graph.hops import HopPlan, Scale
from crossgcn.graph.sampling.source import Features
from crossgcn.models.cross_hops import CrossHops

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

CELLS = 1 << 26
"""Numbers kept at once. More nodes than fit are represented by a sample."""
_LEAST_NODES = 200
MOST_COLUMNS = 200
"""A table with more columns is explained as one group per neighbourhood."""

CROSS = " × "
WHOSE = ("own", "neighbourhood", "both")


@dataclass(frozen=True)
class ColumnGroup:
    """The features of one column of the table, own or of the neighbourhood.

    Attributes:
        name: Such as ``age`` or ``neighbours: age``.
        columns: Positions among the columns of the model.
        features: Name of each of them.
        own: Whether it describes the node itself.
        is_number: Whether it is a number; then ``columns`` starts with the number itself.
        scale: Zero point and step of the number, ``number = zero + step * value``.
        limits: Least and largest number that the encoding tells apart.
        is_log: Whether the number is the logarithm of a count plus one.
    """

    name: str
    columns: Ints
    features: tuple[str, ...]
    own: bool
    is_number: bool
    scale: tuple[float, float] = (0.0, 1.0)
    limits: tuple[float, float] = (-inf, inf)
    is_log: bool = False


@dataclass(frozen=True)
class ColumnTerm:
    """One term of the scores.

    Attributes:
        groups: Positions of its groups; empty for a sum of terms that are not listed.
        columns: Their names.
        contributions: ``[nodes, outputs]``.
        importance: Standard deviation of the contributions over nodes, ``[outputs]``.
        error: Standard error of the importance, ``[outputs]``; ``None`` for a single model.
        spread: Standard error of each contribution, ``[nodes, outputs]``, likewise.
    """

    groups: Key
    columns: tuple[str, ...]
    contributions: Floats
    importance: Floats
    error: Floats | None
    spread: NDArray[np.float32] | None = None

    @property
    def name(self) -> str:
        """The columns as one text, as ``gender × neighbours: age``."""
        return CROSS.join(self.columns) or "all other crosses"


@dataclass(frozen=True)
class ColumnTerms:
    """Scores as sums: ``scores = average + sum of the contributions of all terms``.

    ``values``, ``base_values`` and ``feature_names`` are what SHAP's plots take.

    Attributes:
        outputs: What each score is for: the second of two classes, each of more classes, or the
            target that is a number.
        unit: ``"log-odds"`` for two classes, ``"margin"`` for more (a class against the mean of
            the others), and the name of the target for a number.
        nodes: Numbers of the nodes: all nodes, or a sample of a large graph.
        scores: ``[nodes, outputs]``.
        average: The constant, ``[outputs]``. For purified terms it is the mean score.
        terms: In no particular order.
        rest: The sum of the terms that are not listed, if there are any.
        inputs: The columns that the groups refer to, ``[nodes, columns]``.
        neighbours: For models that sum over neighbours: the weight of each node in the
            neighbourhood of each other, ``[nodes, nodes]``. Columns of the neighbourhood are
            then those of the neighbours themselves, not their means.
        num_unlisted: How many sets of 2, 3, ... columns are in ``rest``.
        rows: The positions in ``nodes`` that ``values`` and ``base_values`` are of, for rows of
            an estimator; all by default.
        unlisted_by_group: Importance of the sets in ``rest`` with each group, ``[groups,
            outputs]``.
    """

    outputs: tuple[str, ...]
    unit: str
    nodes: Ints
    scores: Floats
    average: Floats
    terms: tuple[ColumnTerm, ...]
    rest: ColumnTerm | None
    groups: tuple[ColumnGroup, ...]
    inputs: Floats
    neighbours: Any = None
    num_unlisted: Mapping[int, int] = field(default_factory=dict)
    rows: Ints | None = None
    unlisted_by_group: Floats | None = None

    @property
    def all_terms(self) -> tuple[ColumnTerm, ...]:
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

    def strongest(self, output: int = 0, order: int | None = None) -> list[ColumnTerm]:
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
        if self.unlisted_by_group is None:
            return {}
        sizes = self.unlisted_by_group[:, output]
        largest = np.argsort(-sizes, kind="stable")
        return {self.groups[group].name: float(sizes[group]) for group in largest}

    def whose(self, term: ColumnTerm) -> str:
        """Return whose columns a term is made of: the node's own, its neighbourhood's or both."""
        own = {self.groups[group].own for group in term.groups}
        return "both" if len(own) != 1 else "own" if own == {True} else "neighbourhood"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per score and term, the most important first, with what is inside."""
        from crossgcn.explanation.column_details import term_records, terms_frame

        outputs = range(len(self.outputs))
        return terms_frame([row for output in outputs for row in term_records(self, output)])

    def plot(self, output: int = 0, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw the importance of the strongest terms of one score as bars with error bars."""
        from crossgcn.explanation.column_details import draw_importance

        return draw_importance(self, output, top, ax)


def group_columns(
    plan: HopPlan,
    space: FeatureSpace,
    classes: Sequence[str],
    target: str = "label",
    relation: str = "neighbours",
    *,
    scale: Scale | None = None,
    numbers: Mapping[str, tuple[float, float]] | None = None,
) -> tuple[ColumnGroup, ...]:
    """Return the columns of a model, grouped by the columns of the table.

    Args:
        classes: Names of the classes, or the name of the number.
        target: The column that is predicted, if it holds classes.
        relation: What neighbours are called.
        scale: How the model standardises its columns.
        numbers: Mean and deviation by which the table's numbers, and a number as target, were
            standardised.
    """
    if len(classes) == 1:
        labels, target = [classes[0]], classes[0]
    else:
        shown = classes[1:] if plan.num_labels == 1 else classes
        labels = [f"{target}={name}" for name in shown]
    labels = labels[: plan.num_labels]
    features = plan.name_columns(space.names, labels, relation)
    fields = space.fields
    if len(set(fields)) > MOST_COLUMNS:
        fields = ("all columns",) * len(fields)
    names = plan.name_columns(fields, [target] * len(labels), relation)
    members: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        members.setdefault(name, []).append(position)
    are_numbers = {  # A feature that is named as its column is the number itself.
        own for own, (name, column) in enumerate(zip(space.names, space.fields, strict=True))
        if name == column and fields is space.fields
    }  # fmt: skip
    centers, deviations = (0.0, 1.0) if scale is None else map(as_array, scale)
    centers, deviations = (np.broadcast_to(a, plan.num_columns) for a in (centers, deviations))
    groups = []
    within = plan.num_features * (1 + plan.hops * (2 if plan.directed else 1))
    sides = 2 if plan.directed else 1
    for name, columns in members.items():
        first = [c for c in columns if c < within and c % plan.num_features in are_numbers][:1]
        ordered = first + [c for c in columns if c not in first]
        zero, step, limits = 0.0, 1.0, (-inf, inf)
        if first:
            column = space.fields[first[0] % plan.num_features]
            mean, deviation = (numbers or {}).get(column, (0.0, 1.0))
            limits = number_limits(column, numbers)
            zero = mean + deviation * float(centers[first[0]])
            step = deviation * float(deviations[first[0]])
        is_single, place = len(columns) == 1 and columns[0] >= within, columns[0] - within - sides
        is_log = is_single and (place < 0 or place % (plan.num_labels + 1) == plan.num_labels)
        if is_single:
            known = {} if is_log or len(classes) > 1 else numbers or {}
            mean, deviation = known.get(target, (0.0, 1.0))
            zero = mean + deviation * float(centers[columns[0]])
            step = deviation * float(deviations[columns[0]])
        groups.append(
            ColumnGroup(
                name,
                np.array(ordered),
                tuple(features[c] for c in ordered),
                columns[0] < plan.num_features,
                bool(first) or is_single,
                (zero, step),
                limits,
                is_log,
            )
        )
    return tuple(groups)


def number_limits(
    column: str, numbers: Mapping[str, tuple[float, float]] | None
) -> tuple[float, float]:
    """Return the numbers beyond which the encoding of a table is the same."""
    if numbers is None or column not in numbers:
        return -inf, inf
    mean, deviation = numbers[column]
    return mean - MAX_DEVIATIONS * deviation, mean + MAX_DEVIATIONS * deviation


def column_terms(
    model: CrossHops,
    columns: Features,
    groups: Sequence[ColumnGroup],
    classes: Sequence[str],
    *,
    node: int | None = None,
    raw: bool = False,
    contrast: tuple[int, int] | None = None,
) -> ColumnTerms:
    """Split the scores of a model into terms of column groups.

    :mod:`~crossgcn.explanation.purify` says what purified terms are.

    Args:
        columns: The standardised columns, from :meth:`~crossgcn.CrossHops.columns`.
        groups: From :func:`group_columns`.
        classes: Names of the classes, or the name of the number.
        node: A node that must be among the nodes, also in a sample.
        raw: Return the terms as trained, not purified.
        contrast: Explain the score of one class minus that of another.
    """
    polynomial = Polynomial.of_model(model, contrast)
    limit = CELLS // cells_per_node(polynomial, len(groups))
    nodes = _sample(columns.shape[0], max(limit, _LEAST_NODES), node)
    inputs = dense_rows(columns, nodes, model)
    terms = Terms(polynomial, inputs, [group.columns for group in groups], raw=raw)
    found = {key: make_term(key, groups, each, polynomial.bags) for key, each in terms.purify()}
    outputs, unit = name_outputs(classes, contrast)
    return ColumnTerms(
        outputs,
        unit,
        nodes,
        polynomial.mean_of_bags(terms.scores) + polynomial.bias,
        polynomial.mean_of_bags(terms.constant[np.newaxis])[0] + polynomial.bias,
        tuple(found[key] for key in sorted(found)),
        None if terms.rest is None else make_term((), groups, terms.rest, polynomial.bags),
        tuple(groups),
        inputs,
        num_unlisted=terms.num_unlisted,
        unlisted_by_group=terms.rest_by_group.std(axis=0),
    )


def name_outputs(
    classes: Sequence[str], contrast: tuple[int, int] | None = None
) -> tuple[tuple[str, ...], str]:
    """Return what each score is for, and its unit; see :class:`ColumnTerms`."""
    if contrast is not None:
        first, second = (classes[label] for label in contrast)
        return (first if len(classes) == 2 else f"{first} rather than {second}",), "log-odds"
    if len(classes) == 2:
        return (classes[1],), "log-odds"
    return tuple(classes), classes[0] if len(classes) == 1 else "margin"


def error_over_models(models: Sequence[ColumnTerms]) -> ColumnTerms:
    """Return the first, with standard errors of importances and contributions over all."""
    first, *others = models
    same: dict[tuple[str, ...], list[ColumnTerm]] = {term.columns: [term] for term in first.terms}
    for other in others:
        for term in other.terms:
            if term.columns in same:
                same[term.columns].append(term)

    def with_errors(found: list[ColumnTerm]) -> ColumnTerm:
        if len(found) < 2:
            return found[0]
        error = np.std([term.importance for term in found], axis=0, ddof=1)
        spread = np.std([term.contributions for term in found], axis=0, ddof=1)
        root = sqrt(len(found))
        return replace(found[0], error=error / root, spread=(spread / root).astype(np.float32))

    return replace(first, terms=tuple(map(with_errors, same.values())))


def make_term(
    key: Key, groups: Sequence[ColumnGroup], contributions: Floats, bags: int
) -> ColumnTerm:
    """Measure the importance of a term, and its error by the jackknife over bags."""
    by_bag = contributions.reshape(len(contributions), bags, -1)
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
    return ColumnTerm(
        key,
        tuple(groups[group].name for group in key),
        contributions.reshape(len(contributions), bags, -1).mean(axis=1),
        np.sqrt(np.maximum(total, 0.0)) / bags,
        error,
        spread,
    )


def _sample(num_nodes: int, at_most: int, node: int | None) -> Ints:
    """Return all nodes, or an even sample that includes ``node``."""
    if node is not None and not 0 <= node < num_nodes:
        raise BadInput(f"there is no node {node}: give a number from 0 to {num_nodes - 1}")
    if num_nodes <= at_most:
        return np.arange(num_nodes)
    nodes = np.random.default_rng(0).choice(num_nodes, at_most, replace=False)
    nodes = nodes if node is None else np.append(nodes[:-1], node)
    return np.unique(nodes)


def dense_rows(columns: Features, nodes: Ints, model: CrossHops) -> Floats:
    """Return the standardised columns of some nodes."""
    if isinstance(columns, SparseMatrix):  # not centered
        shift = as_array(model.center) / as_array(model.deviation)
        rows: Floats = columns.to_scipy()[nodes].toarray().astype(np.float64) - shift
        return rows
    return as_array(columns[nodes])
