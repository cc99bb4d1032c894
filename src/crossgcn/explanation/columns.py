r"""Scores of :class:`~crossgcn.CrossHops` as sums of terms of table columns.

The score is a polynomial of standardised features. The features that encode one column of the
table (``age``, ``age rank``, ``dorm=7``) are one group, and so are their means over neighbours. A
term belongs to a set of groups: a single column, a pair, a triple.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations, permutations, takewhile
from math import comb, sqrt

import numpy as np

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.reading import Floats, Ints
from crossgcn.graph import SparseMatrix
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.sampling.source import Features
from crossgcn.models.cross_hops import CrossHops

_CELLS = 1 << 26
"""Numbers kept at once. More nodes than fit are represented by a sample."""
_MOST_TERMS = {2: 2000}
_MOST_LARGER_TERMS = 500
"""Listed terms of each size. The others are summed."""
_MOST_CANDIDATES = 100_000
_SCREENED_NODES = 100
_LEAST_DISTINCT = 0.01
"""Directions that two groups share up to this (1 - correlation) are not told apart."""
_MOST_COLUMNS = 200
"""A table with more columns is explained as one group per neighbourhood."""

CROSS = " × "
WHOSE = ("own", "neighbourhood", "both")

Key = tuple[int, ...]


@dataclass(frozen=True)
class ColumnGroup:
    """The features of one column of the table, own or of the neighbourhood.

    Attributes:
        name: Such as ``age`` or ``neighbours: age``.
        columns: Positions among the columns of the model.
        features: Name of each of them.
        own: Whether it describes the node itself.
        is_number: Whether it is a number; then ``columns`` starts with the number itself.
    """

    name: str
    columns: Ints
    features: tuple[str, ...]
    own: bool
    is_number: bool


@dataclass(frozen=True)
class ColumnTerm:
    """One term of the scores.

    Attributes:
        groups: Positions of its groups; empty for a sum of terms that are not listed.
        columns: Their names.
        contributions: ``[nodes, outputs]``.
        importance: Standard deviation of the contributions over nodes, ``[outputs]``.
        error: Standard error of the importance, ``[outputs]``; ``None`` for a single model.
    """

    groups: Key
    columns: tuple[str, ...]
    contributions: Floats
    importance: Floats
    error: Floats | None

    @property
    def name(self) -> str:
        """The columns as one text, as ``gender × neighbours: age``."""
        return CROSS.join(self.columns) or "all other crosses"


@dataclass(frozen=True)
class ColumnTerms:
    """Scores as sums: ``scores = average + sum of the contributions of all terms``.

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
        values: The standardised columns, ``[nodes, columns]``.
    """

    outputs: tuple[str, ...]
    unit: str
    nodes: Ints
    scores: Floats
    average: Floats
    terms: tuple[ColumnTerm, ...]
    rest: ColumnTerm | None
    groups: tuple[ColumnGroup, ...]
    values: Floats

    def strongest(self, output: int = 0) -> list[ColumnTerm]:
        """Return all terms of one score, the most important first."""
        return sorted(self.terms, key=lambda term: -float(term.importance[output]))

    def by_size(self, output: int = 0) -> dict[int, float]:
        """Return the importance of all listed terms of 1, 2, ... columns together."""
        sums: dict[int, Floats] = {}
        for term in self.terms:
            size = len(term.columns)
            sums[size] = sums.get(size, 0.0) + term.contributions[:, output]
        return {size: float(sums[size].std()) for size in sorted(sums)}

    def mirrored(self, name: str) -> ColumnTerms:
        """Return the same for the first of two classes, called ``name``: all signs change."""
        negated = [
            replace(term, contributions=-term.contributions)
            for term in (*self.terms, *([] if self.rest is None else [self.rest]))
        ]
        return replace(
            self,
            outputs=(name,),
            scores=-self.scores,
            average=-self.average,
            terms=tuple(negated[: len(self.terms)]),
            rest=None if self.rest is None else negated[-1],
        )

    def whose(self, term: ColumnTerm) -> str:
        """Return whose columns a term is made of: the node's own, its neighbourhood's or both."""
        own = {self.groups[group].own for group in term.groups}
        return "both" if len(own) != 1 else "own" if own == {True} else "neighbourhood"


def group_columns(
    plan: HopPlan,
    space: FeatureSpace,
    classes: Sequence[str],
    target: str = "label",
    relation: str = "neighbours",
) -> tuple[ColumnGroup, ...]:
    """Return the columns of a model, grouped by the columns of the table.

    Args:
        classes: Names of the classes, or the name of the number.
        target: The column that is predicted, if it holds classes.
        relation: What neighbours are called.
    """
    if len(classes) == 1:
        labels, target = [classes[0]], classes[0]
    else:
        shown = classes[1:] if plan.num_labels == 1 else classes
        labels = [f"{target}={name}" for name in shown]
    labels = labels[: plan.num_labels]
    features = plan.name_columns(space.names, labels, relation)
    fields = space.fields
    if len(set(fields)) > _MOST_COLUMNS:
        fields = ("all columns",) * len(fields)
    names = plan.name_columns(fields, [target] * len(labels), relation)
    members: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        members.setdefault(name, []).append(position)
    numbers = {  # A feature that is named as its column is the number itself.
        own for own, (name, field) in enumerate(zip(space.names, space.fields, strict=True))
        if name == field and fields is space.fields
    }  # fmt: skip
    groups = []
    within = plan.num_features * (1 + plan.hops * (2 if plan.directed else 1))
    for name, columns in members.items():
        first = [c for c in columns if c < within and c % plan.num_features in numbers][:1]
        ordered = first + [c for c in columns if c not in first]
        is_number = bool(first) or (len(columns) == 1 and columns[0] >= within)
        groups.append(
            ColumnGroup(
                name,
                np.array(ordered),
                tuple(features[c] for c in ordered),
                columns[0] < plan.num_features,
                is_number,
            )
        )
    return tuple(groups)


def column_terms(
    model: CrossHops,
    columns: Features,
    groups: Sequence[ColumnGroup],
    classes: Sequence[str],
    *,
    node: int | None = None,
    raw: bool = False,
) -> ColumnTerms:
    r"""Split the scores of a model into terms of column groups.

    Write :math:`F(R)` for the score of a node with all groups outside :math:`R` replaced by
    their mean over the nodes. The term of a set of groups is what they do together:
    :math:`f_T = \sum_{R \subseteq T} (-1)^{|T| - |R|} F(R)`. The terms add up to the score, and
    a function of fewer groups is in no larger term: moving ``b(income)`` from the column to a
    pair ``gender × income``, whose flags of gender add up to 1, changes no term.

    Groups depend on each other, so a pair may still correlate with its columns. Purified terms do
    not. From the largest sets to the smallest, a term is regressed by least squares over the
    nodes on products of features of its proper subsets, the fit of each subset is moved into
    that subset's term, and the mean into the average. Then

    - every term has mean 0;
    - a pair is orthogonal, over the nodes, to every linear function of the features of either of
      its two groups; if both are one-hot, its weighted row and column means are 0;
    - a triple is orthogonal to the same of its three groups, and to products of two features.

    The features of a group are represented by their leading principal components if there are
    many: a regression has at most one column per ten nodes. Where a direction of one group is
    almost one of the other (correlation above 0.99), their common part is moved, half to each,
    and the difference between them stays in the pair. Terms that do not share a subset are not
    orthogonal to each other.

    Args:
        columns: The standardised columns, from :meth:`~crossgcn.CrossHops.columns`.
        groups: From :func:`group_columns`.
        classes: Names of the classes, or the name of the number.
        node: A node that must be among the nodes, also in a sample.
        raw: Return the terms as trained: :math:`F(R)` has zeros instead of means, and nothing
            is moved.
    """
    if type(model) is not CrossHops:
        raise BadInput(
            f"{type(model).__name__} is not a sum of named terms: explain a cross-hops model"
        )
    polynomial = Polynomial.read(model)
    limit = _CELLS // polynomial.cells_per_node(len(groups))
    nodes = _sample(columns.shape[0], max(limit, 2 * _SCREENED_NODES), node)
    values = _rows(columns, nodes, model)
    parts = _Parts(polynomial, values, groups, centered=not raw)
    sizes = range(1, polynomial.order + 1)
    chosen = {size: dict.fromkeys(parts.choose(size)) for size in sizes}
    found: dict[Key, Floats] = {}
    moved: dict[Key, Floats] = {}
    constant = parts.only(())[0]
    for key in (key for size in reversed(sizes) for key in chosen[size]):
        contributions = parts.interaction(key) + moved.pop(key, 0.0)
        if not raw:
            for subset, fit in parts.regress(key, contributions, chosen):
                moved[subset] = moved.get(subset, 0.0) + fit
                contributions = contributions - fit
            constant = constant + contributions.mean(axis=0)
            contributions = contributions - contributions.mean(axis=0)
        found[key] = contributions
    scores = parts.only(tuple(range(len(groups))))
    rest = None
    if any(len(chosen[size]) < comb(len(groups), size) for size in sizes):
        others = scores - constant - np.sum(list(found.values()), axis=0)
        if not raw:
            constant = constant + others.mean(axis=0)
            others = others - others.mean(axis=0)
        rest = _make_term((), groups, others, polynomial.bags)
    return ColumnTerms(
        tuple(classes[1:] if len(classes) == 2 else classes),
        {1: classes[0], 2: "log-odds"}.get(len(classes), "margin"),
        nodes,
        _mean_of_bags(scores, polynomial.bags) + polynomial.bias,
        _mean_of_bags(constant[np.newaxis], polynomial.bags)[0] + polynomial.bias,
        tuple(
            _make_term(key, groups, each, polynomial.bags) for key, each in sorted(found.items())
        ),
        rest,
        tuple(groups),
        values,
    )


def error_over_models(models: Sequence[ColumnTerms]) -> ColumnTerms:
    """Return the first, with the standard error of each importance over all of them."""
    first, *others = models
    importances = {term.columns: [term.importance] for term in first.terms}
    for other in others:
        for term in other.terms:
            if term.columns in importances:
                importances[term.columns].append(term.importance)

    def error(values: list[Floats]) -> Floats | None:
        if len(values) < 2:
            return None
        spread: Floats = np.std(values, axis=0, ddof=1) / sqrt(len(values))
        return spread

    terms = tuple(replace(t, error=error(importances[t.columns])) for t in first.terms)
    return replace(first, terms=terms)


@dataclass(frozen=True)
class Polynomial:
    """A model as float64 arrays; scores are margins, or numbers in their unit.

    Attributes:
        projections: ``[order, units, columns]``.
        order_weights: ``[order, units]``.
        readout: ``[units, bags * outputs]``, zero between a unit and other bags.
        bias: Mean over bags, ``[outputs]``.
    """

    projections: Floats
    order_weights: Floats
    readout: Floats
    bias: Floats
    bags: int

    @classmethod
    def read(cls, model: CrossHops) -> Polynomial:
        """Read the weights of a model."""
        weight, readout = _array(model.transform.weight), _array(model.readout.weight)
        order, units, _ = weight.shape
        gates = model.transform.unit_order_weights()
        gate = np.ones((1, units)) if order == 1 or gates is None else _array(gates)
        bias = _array(model.readout.bias).reshape(model.bags, -1).mean(axis=0)
        num_scores, shift = len(readout), 0.0
        if num_scores == 1:
            margin = np.ones((1, 1))
            if model.target_scale is not None:
                shift, deviation = _array(model.target_scale)
                margin = margin * deviation
        elif num_scores == 2:
            margin = np.array([[-1.0, 1.0]])
        else:
            margin = (np.eye(num_scores) * num_scores - 1) / (num_scores - 1)
        by_bag = (margin @ readout).reshape(len(margin), model.bags, -1)
        blocks = np.einsum("obu,bc->buco", by_bag, np.eye(model.bags))
        return cls(weight, gate, blocks.reshape(units, -1), margin @ bias + shift, model.bags)

    @property
    def order(self) -> int:
        """Highest order of the products."""
        return len(self.projections)

    def cells_per_node(self, num_groups: int) -> int:
        """Estimate the numbers that :func:`column_terms` keeps per node."""
        order, units, num_columns = self.projections.shape
        terms = [min(comb(num_groups, size), _MOST_TERMS[2]) for size in range(1, order + 1)]
        outputs = self.readout.shape[1]
        kept = sum(terms[:-1]) * outputs + sum(terms) * (outputs // self.bags)
        return int(kept + num_columns + order * units * num_groups)

    def evaluate(self, projected: Floats) -> Floats:
        """Return ``[nodes, bags * outputs]`` from projections ``[order, nodes, units]``."""
        total = np.zeros(())
        for weights, value in zip(self.order_weights[::-1], projected[::-1], strict=True):
            total = value * (weights + total)
        scores: Floats = total @ self.readout
        return scores


class _Parts:
    """The projections of each group, and what groups contribute together."""

    def __init__(
        self,
        polynomial: Polynomial,
        values: Floats,
        groups: Sequence[ColumnGroup],
        *,
        centered: bool,
    ) -> None:
        self._polynomial = polynomial
        self._features = [values[:, group.columns] for group in groups]
        self._projected = [
            np.stack([features @ weight[:, group.columns].T for weight in polynomial.projections])
            for features, group in zip(self._features, groups, strict=True)
        ]
        self._base = np.zeros((polynomial.order, 1, polynomial.projections.shape[1]))
        if centered:
            for part in self._projected:
                mean = part.mean(axis=1, keepdims=True)
                self._base += mean
                part -= mean
        self._num_nodes = len(values)
        self._scores: dict[Key, Floats] = {}
        self._bases: dict[int, Floats] = {}

    def only(self, key: Key) -> Floats:
        """Return the scores with all other groups at their mean, without the bias."""
        if key not in self._scores:
            projected = np.repeat(self._base, self._num_nodes, axis=1)
            for group in key:
                projected += self._projected[group]
            scores = self._polynomial.evaluate(projected)
            if len(key) > self._polynomial.order - 2 and key:
                return scores
            self._scores[key] = scores
        return self._scores[key]

    def interaction(self, key: Key) -> Floats:
        """Return what groups contribute together and in no subset."""
        if len(key) == self._polynomial.order:
            return self._highest_products(key)
        total = self.only(key).copy()
        for subset in ((), *_subsets(key)):
            sign = -1.0 if (len(key) - len(subset)) % 2 else 1.0
            total += sign * self.only(subset)
        return total

    def _highest_products(self, key: Key) -> Floats:
        """Return the products of one projection of each group: all there is of as many groups."""
        total = np.zeros(())
        for places in permutations(key):
            product = self._projected[places[0]][0]
            for order, group in enumerate(places[1:], start=1):
                product = product * self._projected[group][order]
            total = total + product
        weights = self._polynomial.order_weights[-1][:, np.newaxis]
        contributions: Floats = total @ (weights * self._polynomial.readout)
        return contributions

    def choose(self, size: int) -> list[Key]:
        """Return the sets of groups to be listed: all pairs, the strongest of larger sets."""
        keys = combinations(range(len(self._features)), size)
        count, most = comb(len(self._features), size), _MOST_TERMS.get(size, _MOST_LARGER_TERMS)
        if size == 1 or count <= most:
            return list(keys)
        if count > _MOST_CANDIDATES:
            return []
        few = self._some_nodes(_SCREENED_NODES)

        def strength(key: Key) -> float:
            contributions = _mean_of_bags(few.interaction(key), self._polynomial.bags)
            return -float(contributions.std(axis=0).max())

        return sorted(sorted(keys, key=strength)[:most])

    def _some_nodes(self, count: int) -> _Parts:
        """Return the same of fewer nodes."""
        every = slice(None, None, max(1, self._num_nodes // count))
        few = copy(self)
        few._projected = [part[:, every] for part in self._projected]
        few._num_nodes, few._scores = few._projected[0].shape[1], {}
        return few

    def regress(
        self, key: Key, contributions: Floats, chosen: Mapping[int, Collection[Key]]
    ) -> Iterator[tuple[Key, Floats]]:
        """Yield the least-squares fit of each proper subset of the groups."""
        subsets = [subset for subset in _subsets(key) if subset in chosen[len(subset)]]
        if not subsets:
            return
        most = self._num_nodes // 10
        widths = takewhile(
            lambda width: sum(width ** len(subset) for subset in subsets) <= most,
            range(1, self._num_nodes),
        )
        width = max(widths, default=1)
        blocks = [self._products(subset, width) for subset in subsets]
        design = np.concatenate(blocks, axis=1)
        if not design.shape[1]:
            return
        sizes, directions = np.linalg.eigh(design.T @ design)
        directions = directions[:, sizes > _LEAST_DISTINCT] / np.sqrt(
            sizes[sizes > _LEAST_DISTINCT]
        )
        weights = directions @ (directions.T @ (design.T @ contributions))
        first = 0
        for subset, block in zip(subsets, blocks, strict=True):
            yield subset, block @ weights[first : first + block.shape[1]]
            first += block.shape[1]

    def _products(self, key: Key, width: int) -> Floats:
        """Return products of one feature of each group, centered, each of length 1."""
        bases = [self._basis(group)[:, :width] for group in key]
        product = bases[0]
        for basis in bases[1:]:
            product = (product[:, :, np.newaxis] * basis[:, np.newaxis]).reshape(
                self._num_nodes, -1
            )
        if len(key) > 1:
            product = product - product.mean(axis=0)
            lengths = np.linalg.norm(product, axis=0)
            product = product / np.where(lengths > 0, lengths, 1.0)
        return product

    def _basis(self, group: int) -> Floats:
        """Return an orthonormal basis of a group's centered features, largest variance first."""
        if group not in self._bases:
            features = self._features[group]
            basis, sizes, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
            self._bases[group] = basis[:, sizes > 1e-5 * max(sizes[0], 1e-9)]
        return self._bases[group]


def _subsets(key: Key) -> Iterator[Key]:
    """Yield the proper nonempty subsets."""
    for size in range(1, len(key)):
        yield from combinations(key, size)


def _make_term(
    key: Key, groups: Sequence[ColumnGroup], contributions: Floats, bags: int
) -> ColumnTerm:
    """Measure the importance of a term, and its error by the jackknife over bags."""
    by_bag = contributions.reshape(len(contributions), bags, -1)
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
        _mean_of_bags(contributions, bags),
        np.sqrt(np.maximum(total, 0.0)) / bags,
        error,
    )


def _mean_of_bags(scores: Floats, bags: int) -> Floats:
    mean: Floats = scores.reshape(len(scores), bags, -1).mean(axis=1)
    return mean


def _sample(num_nodes: int, at_most: int, node: int | None) -> Ints:
    """Return all nodes, or an even sample that includes ``node``."""
    if node is not None and not 0 <= node < num_nodes:
        raise BadInput(f"there is no node {node}: give a number from 0 to {num_nodes - 1}")
    if num_nodes <= at_most:
        return np.arange(num_nodes)
    nodes = np.random.default_rng(0).choice(num_nodes, at_most, replace=False)
    nodes = nodes if node is None else np.append(nodes[:-1], node)
    return np.unique(nodes)


def _rows(columns: Features, nodes: Ints, model: CrossHops) -> Floats:
    if isinstance(columns, SparseMatrix):  # not centered
        shift = _array(model.center) / _array(model.deviation)
        rows: Floats = columns.to_scipy()[nodes].toarray().astype(np.float64) - shift
        return rows
    return _array(columns[nodes])


def _array(tensor: object) -> Floats:
    array: Floats = tensor.detach().cpu().double().numpy()  # type: ignore[attr-defined]
    return array
