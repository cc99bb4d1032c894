"""The strongest products of features are those of plain enumeration, and the planted ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import draw_graph, draw_model, draw_transform, enumerate_terms
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCN, CrossGCNConv, explain
from crossgcn.data.features import FeatureSpace, csr_tensor
from crossgcn.explanation import NotASum, Products
from crossgcn.explanation.polynomial import read_layer
from crossgcn.explanation.products import weigh


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
    transform = draw_transform(6, 3, order, seed)
    space = FeatureSpace(tuple("abcdef"), ("a", "b", "c", "c", "e", "f"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crossgcn.explanation.products.TOP", top)
        patch.setattr("crossgcn.explanation.products._AT_ONCE", 12)
        found = explain(transform, Data(x=torch.from_numpy(x)), feature_names=space)
    everything = enumerate_terms(read_layer(transform, 0))
    margin = (np.eye(3) * 3 - 1) / 2
    for output in range(3):
        for length in (1, 2):
            sizes = []
            for name, weight in everything.items():
                one_column = {2, 3} <= set(name)
                if len(name) == length and (length == 1 or len(set(name)) > 1) and not one_column:
                    deviation = x[:, list(name)].prod(axis=1).std()
                    sizes.append(abs((margin @ weight)[output]) * deviation)
            expected = np.sort([size for size in sizes if size > 1e-12])[::-1][:top]
            listed = found.to_json(output=output)
            ours = np.array([e["importance"] for e in listed if len(e["columns"]) == length])
            np.testing.assert_allclose(ours[ours > 1e-12], expected, rtol=1e-9)
    for row in found.to_json(2):
        assert abs(row["slope"]) == row["importance"] and row["error"] is None
    assert len(repr(found)) < 3000 and len(found.to_frame(1)) == (6 if order > 1 else 3)


EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 3, 2], [1, 0, 2, 1, 4, 2, 3, 3, 4]])  # 5 is alone
WEIGHTS = torch.linspace(0.4, 1.8, EDGES.size(1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": False},
        {"order": [3, 1]},
        {"order": 2, "order_weights": "per-unit"},
        {"order": 2, "order_weights": [0.5, 2.0]},
        {"order": 2, "first_order": "release"},
        {"aggregate_first": True, "order": 2},
        {"aggregate_first": True, "order": 1, "improved": True},
    ],
    ids=str,
)
def test_products_are_those_of_the_function_that_the_model_computes(
    options: dict[str, Any],
) -> None:
    """The weights are the change of the scores with the values, at the units that are active."""
    torch.manual_seed(0)
    model = CrossGCN(5, 4, 2, 3, **options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(6, 5).double()
    first: Any = model.layers[0]
    layer = read_layer(first, 0)
    rows = x.numpy()
    with torch.no_grad():
        expected = first.transform(x).numpy()
        np.testing.assert_allclose(layer.evaluate(layer.project(rows)), expected)
        share = (first(x, EDGES, WEIGHTS) > 0).double().mean(0).numpy()
    if options.get("aggregate_first"):
        linear = CrossGCNConv(5, 5, 1, bias=False, improved=options.get("improved", False)).double()
        torch.nn.init.eye_(linear.weight[0])
        rows = linear(x, EDGES, WEIGHTS).detach().numpy()
    logits = read_layer(model.layers[1], 1).weights[0] @ (share[:, None] * np.eye(4))
    margin = (np.eye(3) * 3 - 1) / 2
    sparse = sp.csr_array(x.numpy())
    for features in (x, csr_tensor(sparse.indptr, sparse.indices, sparse.data, (6, 5))):
        found = explain(model, Data(x=features, edge_index=EDGES, edge_weight=WEIGHTS))
        for record in found.to_json():
            places = [int(name[1:]) for name in record["columns"]]
            weights = margin @ logits @ weigh(layer, np.array([places]))[0]
            assert record["weight"] == pytest.approx(weights[int(record["class"])])
            deviation = rows[:, places].prod(axis=1).std()
            assert record["importance"] == pytest.approx(abs(record["weight"]) * deviation)


def test_a_model_of_a_number_is_weighed_in_its_unit() -> None:
    graph, model = draw_graph(), CrossGCN(10, 5, 1, 1, order_weights="learned")
    plain = explain(model, graph)
    model.predict_number(100.0, 20.0)
    for one, other in zip(plain.to_json(3), explain(model, graph).to_json(3), strict=True):
        assert other["importance"] == pytest.approx(20 * one["importance"])


def test_what_is_no_sum_of_terms_is_refused_by_name() -> None:
    graph = draw_graph()
    for layer, words in (
        (CrossGCNConv(10, 3, 2, aggr="max"), "layer 1 .*'?max"),
        (CrossGCNConv(10, 3, 2, order_weights=torch.nn.Identity()), "layer 1 .*by Identity"),
        (torch.nn.Linear(10, 3), "layer 1 multiplies by a Linear of torch"),
    ):
        with pytest.raises(NotASum, match=words):
            explain(layer, graph)
    with pytest.raises(BadInput, match="3 class"):
        explain(draw_model(2), graph, classes=["a", "b"])
    with pytest.raises(BadInput, match="has 9 features per node, but the model takes 10"):
        explain(draw_model(2), Data(x=graph.x[:, :9], edge_index=graph.edge_index))
    with pytest.raises(BadInput, match="give data with an edge_index"):
        explain(draw_model(2), Data(x=graph.x))


def test_models_of_layers_have_no_terms_of_columns() -> None:
    graph, model = draw_graph(), draw_model((2, 1, 1), 3)
    whole = explain(model, graph)
    assert isinstance(whole, Products) and "only the scores of cross-hops" in whole.reason
    words = "single nodes.*explained by terms of columns.*train cross-hops"
    for options in ({"node": 3}, {"contrast": ("0", "1")}):
        with pytest.raises(BadInput, match=words):
            explain(model, graph, **options)
    for view in (whole.node, whole.term):
        with pytest.raises(BadInput, match=words):
            view(3)
