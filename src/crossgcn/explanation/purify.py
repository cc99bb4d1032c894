r"""Split a polynomial into purified terms of groups of columns.

Write :math:`F(R)` for the score of a node with all groups outside :math:`R` replaced by their
mean over the nodes. The term of a set of groups is what they do together:
:math:`f_T = \sum_{R \subseteq T} (-1)^{|T| - |R|} F(R)`. The terms add up to the score.

Groups depend on each other, so a pair may still correlate with what its columns do alone.
Purified terms do not (Lengerich et al. 2020; Hooker 2007). From the largest sets to the smallest,
a term is regressed by least squares over the nodes on functions of its proper subsets, the fit of
each subset is moved into that subset's term, and the mean into the average. The functions of one
group are its features and their products of two (all functions of a category, or of a range);
those of a pair of groups are products of a function of each. Then

- every term has mean 0;
- a pair is orthogonal, over the nodes, to the functions of either of its groups: its weighted
  row and column means are 0;
- a triple is orthogonal to the functions of its groups and of its pairs of groups.

The terms depend on the scores only, not on the form of the weights. Three limits keep regressions
well-posed. A regression has at most one column per ten nodes: the leading functions of each group
(features by variance, then products). Groups of more than 12 features have no products. Where
a function of one group is almost one of another (correlation above 0.99), their common part is
moved, half to each, and the difference between them stays in the pair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from math import comb

import numpy as np

from crossgcn.explanation.polynomial import Floats, Ints, Polynomial

Key = tuple[int, ...]
"""Positions of groups, ascending."""

_CELLS = 1 << 26
"""How many numbers are kept at once."""
_MOST_TERMS = {2: 2000, 3: 300}
_MOST_CANDIDATES = 30_000
_SCREENED_NODES = 100
_LEAST_DISTINCT = 0.01
_LEAST_VARIANCE = 1e-5
_MOST_MULTIPLIED = 12


class Terms:
    """The terms of a polynomial, listed from the largest sets of groups to the smallest.

    Args:
        values: The columns, ``[nodes, columns]``.
        groups: Positions of the columns of each group.
        num_fitted: The means and regressions are over so many of the first nodes, all by
            default. The terms of the other nodes are the same functions of their columns.

    Attributes:
        chosen: The sets of groups that are listed, by size: those that the model multiplies, or
            the strongest of many.
        num_unlisted: How many more it multiplies, by size.
        scores: ``[nodes, bags * outputs]``, without the bias.
        constant: What no term has, ``[bags * outputs]``; complete after :meth:`purify`.
    """

    def __init__(
        self,
        polynomial: Polynomial,
        values: Floats,
        groups: Sequence[Ints],
        num_fitted: int | None = None,
    ) -> None:
        self._fitted = slice(num_fitted)
        self._parts = _Parts(polynomial, values, groups, self._fitted)
        features = [values[:, columns] for columns in groups]
        self._spaces = _Spaces(features, polynomial.order, self._fitted)
        known = values[self._fitted]
        few = known[:: max(1, len(known) // _SCREENED_NODES)]
        screened = _Parts(polynomial, few, groups, slice(None))
        found = {size: screened.choose(size) for size in range(1, polynomial.order + 1)}
        self.chosen = {size: dict.fromkeys(keys) for size, (keys, _) in found.items()}
        self.num_unlisted = {size: count for size, (_, count) in found.items() if count}
        self.scores = self._parts.only(tuple(range(len(groups))))
        self.constant = self._parts.only(())[0].copy()
        self._num_groups = len(groups)

    def purify(self) -> Iterator[tuple[Key, Floats]]:
        """Yield each term, ``[nodes, bags * outputs]``.

        The last one, with an empty key, is the sum of the terms that are not listed, if there are
        any, without what leading functions of single groups explain of it: that is in the terms
        of these groups.
        """
        moved = self._move_unlisted() if self.num_unlisted else {}
        total = np.zeros_like(self.scores)
        for key in (key for size in reversed(self.chosen) for key in self.chosen[size]):
            term = self._parts.interaction(key) + moved.pop(key, 0.0)
            for subset, fit in self._spaces.regress(key, term, self.chosen):
                moved[subset] = moved.get(subset, 0.0) + fit
                term = term - fit
            term = self._center(term)
            total += term
            yield key, term
        if self.num_unlisted:
            yield (), self._center(self.scores - self.constant - total)

    def _move_unlisted(self) -> dict[Key, Floats]:
        """Return what single groups explain of the terms that are not listed."""
        rest = self.scores - self._parts.only(())[0]
        for key in (key for keys in self.chosen.values() for key in keys):
            rest = rest - self._parts.interaction(key)
        everything = tuple(range(self._num_groups))
        singles = {1: dict.fromkeys((group,) for group in everything)}
        return dict(self._spaces.regress(everything, rest, singles))

    def _center(self, term: Floats) -> Floats:
        mean = term[self._fitted].mean(axis=0)
        self.constant = self.constant + mean
        return np.asarray(term - mean)


def most_nodes(polynomial: Polynomial, num_groups: int) -> int:
    """Estimate of how many nodes the numbers fit that are kept while terms are purified."""
    order, units, num_columns = polynomial.weights.shape
    terms = [min(comb(num_groups, size), _MOST_TERMS[2]) for size in range(1, order)]
    outputs = polynomial.readout.shape[1]
    kept = sum(terms[:-1]) * outputs + sum(terms) * (outputs // polynomial.bags)
    return int(_CELLS // (kept + 5 * num_columns + order * units * num_groups))


class _Parts:
    """The projections of each group, and what groups contribute together."""

    def __init__(
        self, polynomial: Polynomial, values: Floats, groups: Sequence[Ints], fitted: slice
    ) -> None:
        self._polynomial = polynomial
        self._projected = [polynomial.project(values[:, each], each) for each in groups]
        self._base = np.zeros((polynomial.order + 1, 1, polynomial.weights.shape[1]))
        for part in self._projected:
            mean = part[:, fitted].mean(axis=1, keepdims=True)
            self._base += mean
            part -= mean
        self._num_nodes = len(values)
        self._scores: dict[Key, Floats] = {}

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
        if len(key) == self._polynomial.order > 1:
            return self._highest_products(key)
        total = self.only(key).copy()
        for size in range(len(key)):
            for subset in combinations(key, size):
                total += (-1) ** (len(key) - size) * self.only(subset)
        return total

    def _highest_products(self, key: Key) -> Floats:
        """Return the products of one projection of each group: all there is of as many groups."""
        total = np.zeros(())
        for places in permutations(key):
            product = self._projected[places[0]][1]
            for order, group in enumerate(places[1:], start=2):
                product = product * self._projected[group][order]
            total = total + product
        weights = self._polynomial.order_weights[-1][:, np.newaxis]
        contributions: Floats = total @ (weights * self._polynomial.readout)
        return contributions

    def choose(self, size: int) -> tuple[list[Key], int]:
        """Return the strongest sets of groups, and how many more the model multiplies.

        None are listed if there are too many to compare.
        """
        keys = combinations(range(len(self._projected)), size)
        if size == 1:
            return list(keys), 0
        count = comb(len(self._projected), size)
        if count > _MOST_CANDIDATES:
            return [], count
        strengths = {}
        for key in keys:
            contributions = self.interaction(key)
            if contributions.any():
                strengths[key] = float(self._polynomial.mean(contributions).std(axis=0).max())
        most = _MOST_TERMS.get(size, _MOST_TERMS[3])
        listed = sorted(strengths, key=lambda key: -strengths[key])[:most]
        return sorted(listed), len(strengths) - len(listed)


class _Spaces:
    """Orthonormal bases of the functions of groups, with mean 0 over the nodes."""

    def __init__(self, features: Sequence[Floats], order: int, fitted: slice) -> None:
        self._features, self._order, self._fitted = features, order, fitted
        self._bases: dict[int, Floats] = {}
        self._joint = lru_cache(maxsize=2 * len(features))(self._multiply)

    def regress(
        self, key: Key, term: Floats, chosen: Mapping[int, Collection[Key]]
    ) -> Iterator[tuple[Key, Floats]]:
        """Yield the least-squares fit of each proper subset of the groups."""
        subsets = [each for size in chosen for each in combinations(key, size) if size < len(key)]
        subsets = [subset for subset in subsets if subset in chosen[len(subset)]]
        if not subsets:
            return
        known = term[self._fitted]
        width = _width(tuple(map(len, subsets)), len(known) // 10)
        blocks = [self._functions(subset, width) for subset in subsets]
        design = np.concatenate([block[self._fitted] for block in blocks], axis=1)
        sizes, directions = np.linalg.eigh(design.T @ design)
        distinct = sizes > _LEAST_DISTINCT
        directions = directions[:, distinct] / np.sqrt(sizes[distinct])
        weights = directions @ (directions.T @ (design.T @ known))
        first = 0
        for subset, block in zip(subsets, blocks, strict=True):
            yield subset, block @ weights[first : first + block.shape[1]]
            first += block.shape[1]

    def _functions(self, key: Key, width: int) -> Floats:
        return self._single(key[0])[:, :width] if len(key) == 1 else self._joint(key, width)

    def _multiply(self, key: Key, width: int) -> Floats:
        """Return what products of functions of groups have beyond these functions."""
        first, second = self._functions(key[:-1], width), self._functions(key[-1:], width)
        products = (first[:, :, np.newaxis] * second[:, np.newaxis]).reshape(len(first), -1)
        return self._beyond(products, np.concatenate([first, second], axis=1))

    def _single(self, group: int) -> Floats:
        """Return the features of a group, largest variance first, then their products of two."""
        if group not in self._bases:
            features = self._features[group]
            basis = self._beyond(features, features[:, :0])
            if self._order > 1 and features.shape[1] <= _MOST_MULTIPLIED:
                first, second = np.triu_indices(basis.shape[1])
                products = basis[:, first] * basis[:, second]
                basis = np.concatenate([basis, self._beyond(products, basis)], axis=1)
            self._bases[group] = basis
        return self._bases[group]

    def _beyond(self, columns: Floats, others: Floats) -> Floats:
        """Return a basis of what some columns have beyond a constant and other columns."""
        columns = columns - columns[self._fitted].mean(axis=0)
        scale = np.linalg.norm(columns[self._fitted], axis=0).max(initial=1e-9)
        known = self._orthonormal(others, _LEAST_VARIANCE)
        for _ in range(2 if known.shape[1] else 0):  # The second time removes rounding errors.
            columns = columns - known @ (known[self._fitted].T @ columns[self._fitted])
        return self._orthonormal(columns, _LEAST_VARIANCE * scale)

    def _orthonormal(self, columns: Floats, least: float) -> Floats:
        """Return directions of the columns, the largest first, of norm 1 over the fitted nodes."""
        _, sizes, directions = np.linalg.svd(columns[self._fitted], full_matrices=False)
        kept = sizes > least
        return np.asarray(columns @ (directions[kept].T / sizes[kept]))


@lru_cache
def _width(sizes: tuple[int, ...], most: int) -> int:
    """Return how many functions of each group give at most ``most`` columns in all; 1 at least."""
    width = 1
    while sum((width + 1) ** size for size in sizes) <= most:
        width += 1
    return width
