from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import draw_transform, enumerate_terms
from torch_geometric.data import Data

from crossgcn.explanation.expansion import Expansion, count_terms, fold, list_terms, term_weights
from crossgcn.explanation.reading import read_layer, read_model

seeds = st.integers(0, 2**32 - 1)


def test_a_product_is_named_by_its_features_and_powers_of_binary_ones_fold() -> None:
    binary = np.array([True, False, True])
    assert fold((2, 0, 2), binary) == (0, 2)
    assert fold((1, 0, 1), binary) == (0, 1, 1)
    assert fold((0, 0, 0), binary) == (0,)
    assert fold((1, 1, 1), binary) == (1, 1, 1)


@given(
    seed=seeds,
    order=st.integers(1, 4),
    binary=st.lists(st.booleans(), min_size=3, max_size=3),
    first_order=st.sampled_from(["paper", "release"]),
)
def test_weights_are_those_of_plain_enumeration(
    seed: int, order: int, binary: list[bool], first_order: str
) -> None:
    layer = read_layer(draw_transform(3, 2, order, seed, first_order=first_order), 0)
    folds = np.array(binary)
    expected = enumerate_terms(layer, folds)
    for length in range(1, order + 1):
        names = [name for name in expected if len(name) == length]
        if not names:
            continue
        weights = term_weights(layer, np.array(names), folds)
        np.testing.assert_allclose(weights, [expected[name] for name in names], atol=1e-12)


def test_a_layer_whose_gates_are_shut_has_first_order_terms_only() -> None:
    transform = draw_transform(4, 2, 3, 0)
    torch.nn.init.zeros_(transform.order_weights)  # type: ignore[arg-type]
    layer = read_layer(transform, 0)
    assert layer.order == 1
    assert not term_weights(layer, np.array([[0, 1]]), np.zeros(4, np.bool_)).any()


@given(seed=seeds, order=st.integers(1, 4), binary=st.integers(0, 4))
def test_rows_multiply_out_to_their_terms(seed: int, order: int, binary: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(5, 4)) * (generator.random((5, 4)) < 0.6)
    x[:, :binary] = x[:, :binary] != 0
    data = Data(x=torch.from_numpy(x))
    reading = read_model(draw_transform(4, 3, order, seed), data)
    coefficients = generator.normal(size=(5, 3))
    expansion = Expansion(reading, np.arange(5), coefficients)
    terms = expansion.list_terms()
    names = expansion.codes.decode(terms.code)
    found = {node: dict[tuple[int, ...], float]() for node in range(5)}
    for node, name, contribution, value in zip(
        terms.row, names, terms.contribution, terms.value, strict=True
    ):
        assert value == pytest.approx(np.prod(x[node, list(name)]))
        found[node][name] = found[node].get(name, 0.0) + contribution
    for name, weight in enumerate_terms(reading.layers[0], reading.binary).items():
        for node in range(5):
            expected = coefficients[node] @ weight * np.prod(x[node, list(name)])
            assert found[node].get(name, 0.0) == pytest.approx(expected, abs=1e-10)
    codes, sums = expansion.sum_by_code()
    assert len(set(codes.tolist())) == codes.size
    assert sums.sum() == pytest.approx(terms.contribution.sum(), abs=1e-10)
    by_row = np.bincount(terms.row, terms.contribution, minlength=5)
    np.testing.assert_allclose(expansion.sum_by_row(), by_row, atol=1e-10)


@given(
    seed=seeds, order=st.integers(1, 4), binary=st.integers(0, 4), share=st.sampled_from([0.2, 1.0])
)
def test_sums_over_many_nodes_are_those_of_their_rows(
    seed: int, order: int, binary: int, share: float
) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(60, 5)) * (generator.random((60, 5)) < share)
    x[:, :binary] = x[:, :binary] != 0
    reading = read_model(draw_transform(5, 3, order, seed), Data(x=torch.from_numpy(x)))
    coefficients = generator.normal(size=(60, 3)) * [1.0, 0.0, 1.0]
    expansion = Expansion(reading, np.arange(60), coefficients)
    sums = []
    for sum_terms in (expansion.sum_by_code, expansion.sum_by_product, expansion.sum_by_node):
        codes, contributions = sum_terms()
        sums.append(dict(zip(expansion.codes.decode(codes), contributions, strict=True)))
    for name, weight in enumerate_terms(reading.layers[0], reading.binary).items():
        expected = (x[:, list(name)].prod(axis=1) @ coefficients) @ weight
        for found in sums:
            assert found.pop(name, 0.0) == pytest.approx(expected, abs=1e-9)
    assert sums == [{}, {}, {}]


def test_dense_features_are_summed_product_by_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).normal(size=(50, 6))
    reading = read_model(draw_transform(6, 2, 3, 0), Data(x=torch.from_numpy(x)))
    expansion = Expansion(reading, np.arange(50), np.ones((50, 2)))
    monkeypatch.setattr("crossgcn.explanation.expansion.MAX_CELLS", 0)
    codes, sums = expansion.sum_by_code()
    assert codes.size == 6 + 21 + 56
    assert sums.sum() == pytest.approx(expansion.sum_by_row().sum())


def test_units_and_nodes_of_weight_zero_have_no_terms() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    reading = read_model(draw_transform(3, 2, 3, 0), Data(x=torch.from_numpy(x)))
    nothing = Expansion(reading, np.arange(4), np.zeros((4, 2)))
    assert nothing.list_terms().code.size == 0
    assert nothing.sum_by_code()[0].size == 0
    assert not nothing.sum_by_row().any()
    one = np.zeros((4, 2))
    one[2, 1] = 1.0
    assert set(Expansion(reading, np.arange(4), one).list_terms().row) == {2}


@pytest.mark.parametrize("binary", [0, 2, 5])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_terms_are_listed_as_by_plain_enumeration(binary: int, length: int) -> None:
    is_binary = np.arange(5) < binary
    expected = [
        term
        for term in combinations_with_replacement(range(5), length)
        if not any(is_binary[each] and term.count(each) > 1 for each in term)
    ]
    assert [tuple(term) for term in list_terms(is_binary, length).tolist()] == expected
    if binary == 0:
        counts = [count_terms(np.array([5]), order)[0] for order in (length - 1, length)]
        assert counts[1] - counts[0] == len(expected)


def test_sums_over_nodes_do_not_depend_on_when_terms_are_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crossgcn.explanation.expansion._PENDING", 20)
    x = sp.random_array((6, 40), density=0.1, rng=np.random.default_rng(0)).toarray()
    reading = read_model(draw_transform(40, 2, 3, 0), Data(x=torch.from_numpy(x)))
    expansion = Expansion(reading, np.arange(6), np.ones((6, 2)))
    terms = expansion.list_terms()
    codes, sums = expansion.sum_by_code()
    slow: dict[int, float] = {}
    for code, contribution in zip(terms.code.tolist(), terms.contribution, strict=True):
        slow[code] = slow.get(code, 0.0) + contribution
    assert dict(zip(codes.tolist(), sums, strict=True)) == pytest.approx(slow)
