from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import draw_transform, enumerate_terms
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation import pairs as pairs_module
from crossgcn.explanation.occurrence import Best, CrossRule, PairOccurrence, cross_products
from crossgcn.explanation.pairs import PairFactors, pair_factors, top_pairs
from crossgcn.explanation.reading import read_model

KINDS = ("gaussian", "sparse", "one-hot", "constant", "mixed")


def draw_inputs(kind: str, num_nodes: int, num_features: int, seed: int) -> sp.csr_array:
    generator = np.random.default_rng(seed)
    shape = (num_nodes, num_features)
    if kind == "one-hot":
        x = np.zeros(shape)
        half = num_features // 2
        x[np.arange(num_nodes), generator.integers(half, size=num_nodes)] = 1.0
        x[np.arange(num_nodes), half + generator.integers(num_features - half, size=num_nodes)] = 1
    else:
        x = generator.normal(size=shape)
        if kind == "constant":
            x[:] = 1.0
        if kind in ("sparse", "mixed"):
            x *= generator.random(shape) < 0.2
        if kind == "mixed":
            x[:, ::2] = x[:, ::2] != 0
    return sp.csr_array(x)


def slow_top_pairs(
    factors: PairFactors, inputs: sp.csr_array | None, label: int, top: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = (factors.left * factors.scale[label]) @ factors.right.T
    strength = np.abs(weights + weights.T)
    if inputs is not None:
        sizes = np.abs(inputs.toarray())
        strength *= sizes.T @ sizes / inputs.shape[0]
    found = np.sort(strength[np.triu_indices_from(strength, 1)])[::-1][:top]
    return found[found > 0]


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    weights=st.sampled_from(["normal", "ties", "zeros", "long tail"]),
    way=st.sampled_from(["meetings", "blocks", "weight only"]),
    top=st.integers(1, 30),
)
def test_the_best_pairs_are_those_of_plain_enumeration(
    seed: int, kind: str, weights: str, way: str, top: int
) -> None:
    generator = np.random.default_rng(seed)
    num_features = int(generator.integers(2, 25))
    left, right = generator.normal(size=(2, num_features, 3))
    if weights == "ties":
        left, right = np.sign(left), np.sign(right)
    elif weights == "zeros":
        left[::2], right[::2] = 0.0, 0.0
        left[:, 0] = 0.0
    elif weights == "long tail":
        left *= 10.0 ** generator.uniform(-6, 0, size=(num_features, 1))
    factors = PairFactors(left, right, generator.normal(size=(2, 3)))
    inputs = draw_inputs(kind, 12, num_features, seed)
    used = None if way == "weight only" else inputs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_module, "_BLOCK", 4)
        patch.setattr(pairs_module, "_CHUNK_PAIRS", 5)
        patch.setattr(pairs_module, "_CHUNK_MEETINGS", 40)
        patch.setattr(pairs_module, "MEETINGS", 0 if way == "blocks" else 10**9)
        found = top_pairs(factors, used, top)
    for label, best in enumerate(found):
        strength = np.abs(best.weight) * best.occurrence
        expected = slow_top_pairs(factors, used, label, top)
        np.testing.assert_allclose(strength, expected, rtol=1e-9)
        assert len(np.unique(best.features, axis=0)) == len(best.features)
        assert (best.features[:, 0] < best.features[:, 1]).all()
        np.testing.assert_allclose(best.weight, factors.weigh(best.features)[:, label], rtol=1e-9)
        if used is not None:
            products = cross_products(inputs, best.features.tolist())
            np.testing.assert_allclose(
                best.occurrence, np.asarray(abs(products).sum(axis=0)).ravel() / 12
            )


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), order=st.integers(1, 4), kind=st.sampled_from(KINDS))
def test_factors_hold_every_product_that_folds_into_a_pair(
    seed: int, order: int, kind: str
) -> None:
    inputs = draw_inputs(kind, 8, 5, seed)
    reading = read_model(
        draw_transform(5, 3, order, seed), Data(x=torch.from_numpy(inputs.toarray()))
    )
    readout = np.random.default_rng(seed).normal(size=(2, 3))
    factors = pair_factors(reading.layers[0], readout, reading.binary)
    for name, weight in enumerate_terms(reading.layers[0], reading.binary).items():
        if len(name) == 2 and name[0] != name[1]:
            found = factors.weigh(np.array([name]))[0]
            np.testing.assert_allclose(found, readout @ weight, atol=1e-10)


def test_among_equals_the_first_by_features_is_best() -> None:
    best = Best(2, 2)
    ones = np.ones(2)
    best.offer(np.array([[3, 4], [1, 2]]), ones, ones)
    best.offer(np.array([[0, 9], [5, 6]]), -ones, ones)
    assert best.features.tolist() == [[0, 9], [1, 2]]
    assert best.weight.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("way", ["meetings", "blocks"])
def test_a_number_and_its_own_range_name_no_cross(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_module, "MEETINGS", 0 if way == "blocks" else 10**9)
    inputs = sp.csr_array(np.array([[0.5, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 1.0]]))
    space = FeatureSpace(("age", "age=young", "tag=a", "tag=b"), ("age", "age", "tag", "tag"))
    rule = CrossRule.of(space, inputs)
    factors = PairFactors(np.ones((4, 1)), np.ones((4, 1)), np.ones((1, 1)))
    (best,) = top_pairs(factors, inputs, 10, rule)
    assert {tuple(pair) for pair in best.features} == {(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}


@pytest.mark.parametrize("kind", KINDS)
def test_occurrence_is_the_mean_size_of_the_product(kind: str) -> None:
    inputs = draw_inputs(kind, 9, 6, 0)
    first, second = np.triu_indices(6, 1)
    sizes = np.abs(inputs.toarray())
    expected = (sizes[:, first] * sizes[:, second]).mean(axis=0)
    np.testing.assert_allclose(PairOccurrence(inputs).of(first, second), expected)
