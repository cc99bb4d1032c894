"""The strongest products of features are those of plain enumeration, and the planted ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import draw_transform, enumerate_terms
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.columns import Names
from crossgcn.explanation.polynomial import read_layer, read_model
from crossgcn.explanation.products import products, weigh


@given(seed=st.integers(0, 10_000), order=st.integers(1, 4))
def test_weights_are_those_of_plain_enumeration(seed: int, order: int) -> None:
    layer = read_layer(draw_transform(3, 2, order, seed), 0)
    expected = enumerate_terms(layer)
    for length in range(1, min(2, order) + 1):
        names = [name for name in expected if len(name) == len(set(name)) == length]
        if names:
            weights = weigh(layer, np.array(names))
            np.testing.assert_allclose(weights, [expected[name] for name in names], atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    order=st.integers(2, 4),
    kind=st.sampled_from(["words", "frequencies", "dense"]),
    top=st.sampled_from([1, 3, 500]),
)
def test_the_strongest_are_those_of_plain_enumeration(
    seed: int, order: int, kind: str, top: int
) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(25, 6))
    if kind != "dense":
        x *= random.random((25, 6)) < 0.4
    if kind == "words":
        x = (x != 0).astype(float)
    reading = read_model(draw_transform(6, 3, order, seed), Data(x=torch.from_numpy(x)))
    space = FeatureSpace(tuple("abcdef"), ("a", "b", "c", "c", "e", "f"))
    names = Names(space, ("0", "1", "2"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crossgcn.explanation.products.TOP", top)
        patch.setattr("crossgcn.explanation.products._AT_ONCE", 12)
        found = products(reading, names)
    everything = enumerate_terms(reading.layers[0])
    for output in range(3):
        for length in (1, 2):
            sizes = []
            for name, weight in everything.items():
                one_column = {2, 3} <= set(name)
                if len(name) == length and (length == 1 or len(set(name)) > 1) and not one_column:
                    deviation = x[:, list(name)].prod(axis=1).std()
                    sizes.append(abs((names.outputs().margin @ weight)[output]) * deviation)
            expected = np.sort([size for size in sizes if size > 1e-12])[::-1][:top]
            listed = found.to_json(output=output)
            ours = np.array([e["importance"] for e in listed if len(e["columns"]) == length])
            np.testing.assert_allclose(ours[ours > 1e-12], expected, rtol=1e-9)
    for row in found.to_json(2):
        assert abs(row["slope"]) == row["importance"] and row["error"] is None
    assert len(repr(found)) < 3000 and len(found.to_frame(1)) == (6 if order > 1 else 3)
