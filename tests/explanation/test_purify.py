"""Purified terms are exact and unique, and a planted polynomial is recovered."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgcn.explanation import purify
from crossgcn.explanation.polynomial import Floats, Ints, Polynomial
from crossgcn.explanation.purify import Key, Terms

Product = tuple[float, tuple[Floats, ...]]
"""A factor, and one row of weights per projection."""


def polynomial_of(products: list[Product], order: int) -> Polynomial:
    """A polynomial as the model has it: a unit per product, whose lower orders are cancelled."""
    num_columns = len(products[0][1][0])
    weights = np.zeros((order + 1, len(products), num_columns))
    gates, factors = np.zeros((order, len(products))), np.zeros((len(products), 1))
    for unit, (factor, rows) in enumerate(products):
        for place, row in enumerate(rows):
            weights[place + 1, unit] = row
        if len(rows) == 1:
            weights[0, unit] = rows[0]
        gates[len(rows) - 1, unit] = 1.0
        factors[unit] = factor
    return Polynomial(weights, gates, factors, np.zeros(1))


def random_polynomial(
    random: np.random.Generator, num_columns: int, order: int, units: int = 5
) -> Polynomial:
    weights = random.normal(size=(order + 1, units, num_columns))
    gates = random.normal(size=(order, units))
    return Polynomial(weights, gates, random.normal(size=(units, 2)), np.zeros(2))


def purified(polynomial: Polynomial, values: Floats, groups: list[Ints]) -> dict[Key, Floats]:
    return dict(Terms(polynomial, values, groups).purify())


def flags(codes: Ints, levels: int) -> Floats:
    return np.eye(levels)[codes]


def encode_number(number: Floats) -> Floats:
    """The number, its rank and three ranges, as tables are encoded."""
    rank = number.argsort().argsort() / len(number) - 0.5
    ranges = flags(np.digitize(number, np.quantile(number, [1 / 3, 2 / 3])), 3)
    return np.concatenate([number[:, None], rank[:, None], ranges], axis=1)


def make_table(random: np.random.Generator, num_nodes: int) -> tuple[Floats, list[Ints]]:
    """A category, a number with its ranges, shares of neighbours and a mean of neighbours."""
    city = random.integers(3, size=num_nodes)
    age = random.normal(size=num_nodes) + 0.4 * city
    near = random.dirichlet(np.ones(3) + 3 * flags(city, 3).mean(0), num_nodes)
    mean = 0.5 * age + random.normal(size=num_nodes)
    blocks = [flags(city, 3), encode_number(age), near - near.mean(0), mean[:, None]]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    groups = [np.arange(low, high) for low, high in pairwise(ends)]
    return np.concatenate(blocks, axis=1), groups


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.integers(1, 3))
def test_terms_add_up_and_vanish_against_smaller_ones(seed: int, order: int) -> None:
    random = np.random.default_rng(seed)
    values, groups = make_table(random, 600)
    polynomial = random_polynomial(random, values.shape[1], order)
    terms = Terms(polynomial, values, groups)
    found = dict(terms.purify())
    everything = polynomial.project(values, np.arange(values.shape[1]))
    scores = polynomial.evaluate(everything)
    size = np.abs(scores).max()
    total = terms.constant + np.sum(list(found.values()), axis=0)
    np.testing.assert_allclose(total, scores, atol=1e-9 * size)
    for key, term in found.items():
        assert np.abs(term.mean(axis=0)).max() < 1e-9 * size
        for group in key if len(key) > 1 else ():
            features = values[:, groups[group]]
            centered = features - features.mean(axis=0)
            assert np.abs(centered.T @ term).max() / len(values) < 1e-7 * size


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.integers(2, 3))
def test_the_form_of_the_weights_does_not_matter(seed: int, order: int) -> None:
    """Flags add up to 1 and are their own squares: the same scores in another form."""
    random = np.random.default_rng(seed)
    values, groups = make_table(random, 600)
    columns = values.shape[1]
    product = tuple(random.normal(size=columns) for _ in range(order))
    line = random.normal(size=columns)
    ones = np.isin(np.arange(columns), groups[0]).astype(float)  # the flags of city
    first = np.eye(columns)[0]
    plain = [(1.0, product), (2.0, (line,)), (-1.5, (first,))]
    other = [
        (1.0, product[::-1]),
        (0.5, (line,)),
        (1.5, (line, ones)),
        (-1.5, (first,) * order),
    ]
    one = purified(polynomial_of(plain, order), values, groups)
    two = purified(polynomial_of(other, order), values, groups)
    size = max(np.abs(term).max() for term in one.values())
    for key in one:
        np.testing.assert_allclose(one[key], two[key], atol=1e-8 * size)


def test_other_nodes_have_the_same_functions_of_their_columns() -> None:
    random = np.random.default_rng(0)
    values, groups = make_table(random, 300)
    polynomial = random_polynomial(random, values.shape[1], 2)
    known = purified(polynomial, values, groups)
    outside = np.concatenate([values, values[:20], 2 * values[20:40]])
    terms = Terms(polynomial, outside, groups, num_fitted=300)
    found = dict(terms.purify())
    size = np.abs(terms.scores).max()
    for key, term in found.items():
        np.testing.assert_allclose(term[:300], known[key], atol=1e-9 * size)
        np.testing.assert_allclose(term[300:320], known[key][:20], atol=1e-9 * size)
    total = terms.constant + np.sum(list(found.values()), axis=0)
    np.testing.assert_allclose(total, terms.scores, atol=1e-9 * size)


def full_factorial() -> tuple[list[Floats], list[Ints], Floats]:
    """Every combination of a category, a number with ranges, shares and a mean, once each."""
    city, age, share, mean = np.indices((3, 6, 4, 5)).reshape(4, -1)
    number = np.array([-2.0, -1.0, -0.5, 0.3, 1.2, 2.5])[age]
    shares = np.array([[0.0, 1.0], [0.3, 0.7], [0.6, 0.4], [1.0, 0.0]])[share]
    means = np.array([-1.5, -0.2, 0.1, 0.9, 2.0])[mean]
    ranges = flags(age // 2, 3)
    blocks = [flags(city, 3), np.column_stack([number, ranges]), shares, means[:, None]]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    groups = [np.arange(low, high) for low, high in pairwise(ends)]
    return blocks, groups, np.concatenate(blocks, axis=1)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_planted_polynomial_is_recovered(order: int) -> None:
    """With all combinations equally often, products of centered functions are pure."""
    blocks, groups, values = full_factorial()
    random = np.random.default_rng(order)
    columns = values.shape[1]
    planted: dict[Key, Floats] = {}
    products: list[Product] = []
    for size in range(1, order + 1):
        for key in combinations(range(4), size):
            rows, term = [], np.ones(len(values))
            for group in key:
                weights = random.normal(size=len(groups[group]))
                function = blocks[group] @ weights
                row = np.zeros(columns)
                row[groups[group]] = weights
                # The flags of city add up to 1, so a constant is a sum of them.
                row[groups[0]] -= function.mean()
                rows.append(row)
                term = term * (function - function.mean())
            planted[key] = term
            products.append((1.0, tuple(rows)))
    polynomial = polynomial_of(products, order)
    found = purified(polynomial, values, groups)
    assert set(found) == set(planted)
    for key, term in planted.items():
        np.testing.assert_allclose(found[key][:, 0], term, atol=1e-6)


def purify_cells(cells: Floats, counts: Floats) -> dict[Key, Floats]:
    """The slow twin: move weighted means of a table's slices until they vanish."""
    axes = range(cells.ndim)
    tables = {tuple(axes): cells.copy()}
    for size in range(cells.ndim, 0, -1):
        for key in combinations(axes, size):
            table = tables.setdefault(key, np.zeros([cells.shape[axis] for axis in key]))
            others = tuple(axis for axis in axes if axis not in key)
            weights = counts.sum(axis=others)
            for _ in range(3000):
                moved = 0.0
                for place, axis in enumerate(key):
                    lower = tuple(each for each in key if each != axis)
                    sums = weights.sum(axis=place)
                    mean = (table * weights).sum(axis=place) / np.maximum(sums, 1e-12)
                    table -= np.expand_dims(mean, place)
                    tables[lower] = tables.get(lower, 0.0) + mean
                    moved = max(moved, float(np.abs(mean).max()))
                if moved < 1e-13:
                    break
    return tables


def test_a_table_of_three_categories_is_purified_as_by_moving_means() -> None:
    random = np.random.default_rng(0)
    first = random.integers(3, size=2000)
    second = np.where(random.random(2000) < 0.4, first, random.integers(4, size=2000))
    third = np.where(random.random(2000) < 0.3, second % 2, random.integers(2, size=2000))
    codes, shape = (first, second, third), (3, 4, 2)
    counts = np.zeros(shape)
    np.add.at(counts, codes, 1)
    cells = random.normal(size=shape)
    values = np.concatenate([flags(c, n) for c, n in zip(codes, shape, strict=True)], axis=1)
    ends = np.cumsum([0, *shape])
    groups = [np.arange(low, high) for low, high in pairwise(ends)]
    products: list[Product] = []
    for place in np.ndindex(shape):
        rows = tuple(np.eye(9)[ends[axis] + level] for axis, level in enumerate(place))
        products.append((float(cells[place]), rows))
    found = purified(polynomial_of(products, 3), values, groups)
    expected = purify_cells(cells, counts)
    for key, term in found.items():
        table = expected[key][tuple(codes[axis] for axis in key)]
        np.testing.assert_allclose(term[:, 0], table, atol=1e-6)


def test_too_many_triples_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    values, groups = make_table(random, 300)
    polynomial = random_polynomial(random, values.shape[1], 3)
    for most, listed in (({2: 2000, 3: 2}, 2), ({2: 2000, 3: 0}, 0)):
        monkeypatch.setattr(purify, "_MOST_TERMS", most)
        terms = Terms(polynomial, values, groups)
        found = dict(terms.purify())
        assert sum(len(key) == 3 for key in found) == listed and () in found
        assert terms.num_unlisted == {3: 4 - listed}
        total = terms.constant + np.sum(list(found.values()), axis=0)
        np.testing.assert_allclose(total, terms.scores, atol=1e-9 * np.abs(total).max())
    monkeypatch.setattr(purify, "_MOST_CANDIDATES", 3)
    assert not Terms(polynomial, values, groups).chosen[3]


def test_pairs_that_the_model_does_not_multiply_have_no_term() -> None:
    one, two, three = np.eye(3)
    polynomial = polynomial_of([(2.0, (one, two)), (1.0, (three,))], order=2)
    polynomial = replace(polynomial, bias=np.array([0.1]))
    values = np.random.default_rng(0).normal(size=(300, 3))
    terms = Terms(polynomial, values, [np.array([column]) for column in range(3)])
    assert set(dict(terms.purify())) == {(0,), (1,), (2,), (0, 1)}
    assert not terms.num_unlisted
