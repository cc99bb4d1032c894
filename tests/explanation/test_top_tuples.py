from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import draw_transform, enumerate_terms
from test_top_pairs import KINDS, draw_inputs
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.occurrence import CrossRule, cross_products
from crossgcn.explanation.reading import read_model
from crossgcn.explanation.tuples import TupleSearch


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    order=st.integers(3, 4),
    length=st.integers(2, 4),
    top=st.integers(1, 12),
)
def test_the_best_tuples_are_those_of_plain_enumeration(
    seed: int, kind: str, order: int, length: int, top: int
) -> None:
    check_against_enumeration(seed, kind, order, min(length, order), top)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_for_large_and_small_weights(kind: str) -> None:
    for size in (1e-4, 1e4):
        for seed in range(6):
            check_against_enumeration(seed, kind, order=3, length=3, top=3, size=size)


def check_against_enumeration(
    seed: int, kind: str, order: int, length: int, top: int, size: float = 1.0
) -> None:
    inputs = draw_inputs(kind, 10, 6, seed)
    transform = draw_transform(6, 3, order, seed)
    with torch.no_grad():
        transform.weight.mul_(size)
    reading = read_model(transform, Data(x=torch.from_numpy(inputs.toarray())))
    readout = np.random.default_rng(seed).normal(size=3) * [1.0, 0.0, 1.0]
    rule = CrossRule.of(FeatureSpace.unnamed(6), reading.features)
    found = TupleSearch(reading.layers[0], readout, reading.inputs, rule, length=length, top=top)
    weights = {
        name: readout @ weight
        for name, weight in enumerate_terms(reading.layers[0], reading.binary).items()
        if len(name) == length and len(set(name)) > 1
    }
    products = cross_products(reading.inputs, list(weights))
    occurrence = np.asarray(abs(products).sum(axis=0)).ravel() / 10
    strength = np.abs(list(weights.values())) * occurrence
    expected = np.sort(strength[strength > 0])[::-1][:top]
    np.testing.assert_allclose(
        np.abs(found.best.weight) * found.best.occurrence, expected, rtol=1e-9
    )
    assert found.complete
    for features, weight in zip(found.best.features.tolist(), found.best.weight, strict=True):
        assert weight == pytest.approx(weights[tuple(features)])


def test_a_search_that_gives_up_says_so() -> None:
    inputs = draw_inputs("gaussian", 10, 18, 0)
    reading = read_model(draw_transform(18, 2, 3, 0), Data(x=torch.from_numpy(inputs.toarray())))
    rule = CrossRule.of(FeatureSpace.unnamed(18), reading.features)
    settings = {"length": 3, "top": 5}
    layer, readout = reading.layers[0], np.ones(2)
    short = TupleSearch(layer, readout, reading.inputs, rule, limit=40, **settings)
    assert not short.complete
    assert TupleSearch(layer, readout, reading.inputs, rule, **settings).complete


def test_bounds_spare_most_tuples() -> None:
    inputs = draw_inputs("sparse", 400, 60, 0)
    transform = draw_transform(60, 1, 3, 0)
    with torch.no_grad():
        transform.weight[:, :, 6:] *= 0.05
    reading = read_model(transform, Data(x=torch.from_numpy(inputs.toarray())))
    rule = CrossRule.of(FeatureSpace.unnamed(60), reading.features)
    found = TupleSearch(reading.layers[0], np.ones(1), reading.inputs, rule, length=3, top=5)
    assert found.complete
    assert found.best.features.max() < 6
    assert found.looked_at < 60 * 61 * 62 / 6 / 4
