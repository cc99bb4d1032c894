"""Weights per unit are still sums of products; other things are not."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import torch
from order_lstm import OrderLSTM
from small_models import draw_graph, enumerate_terms
from torch import nn

from crossgcn import (
    CrossFeatureTransform,
    CrossGCN,
    CrossGCNConv,
    build_model,
    explain,
)
from crossgcn.explanation import NodeExplainer, explain_node
from crossgcn.explanation.expansion import fold, term_weights
from crossgcn.explanation.occurrence import cross_products
from crossgcn.explanation.reading import NotASum, read_layer, read_model


def draw(order: int, num_layers: int = 1, **settings: Any) -> CrossGCN:
    """A model with live gates in every unit, some of them at zero."""
    torch.manual_seed(order)
    model = CrossGCN(10, 5, num_layers, 3, order=[order] + [1] * (num_layers - 1), **settings)
    for name, parameter in model.named_parameters():
        if name.endswith(("gates", "order_weights", "bias")):
            nn.init.normal_(parameter)
        if name.endswith("gates"):
            parameter.data[1::4] = 0.0
    return model.eval()


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("order_weights", ["per-unit", "gated"])
def test_contributions_add_up_to_the_score(order: int, order_weights: str) -> None:
    model, graph = draw(order, order_weights=order_weights), draw_graph()
    with torch.no_grad():
        scores = model(graph.x, graph.edge_index)
    explainer = NodeExplainer(model, graph)
    for node in (0, 17):
        found = explainer.explain(node)
        total = found.bias + found.expansion.list_terms().contribution.sum() + found.left_out
        assert total == pytest.approx(float(scores[node, found.target]), rel=1e-5, abs=1e-5)
        assert found.completeness == 1.0


@pytest.mark.parametrize("order_weights", ["per-unit", "gated"])
def test_two_layers_are_read_as_they_compute(order_weights: str) -> None:
    model, graph = draw(3, 2, order_weights=order_weights), draw_graph()
    reading = read_model(model, graph)
    with torch.no_grad():
        scores = model(graph.x, graph.edge_index)
    np.testing.assert_allclose(reading.logits, scores, rtol=1e-4, atol=1e-4)
    found = explain_node(model, graph, 3)
    by_hand = found.bias + found.expansion.list_terms().contribution.sum() + found.left_out
    assert by_hand == pytest.approx(float(scores[3, found.target]), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("order", [2, 3])
def test_weights_of_products_are_those_of_plain_enumeration(order: int) -> None:
    layer = read_layer(draw(order, order_weights="per-unit").layers[0], 0)
    binary = np.arange(10) < 8
    expected = enumerate_terms(layer, binary)
    for length in range(1, order + 1):
        terms = sorted(
            {
                fold(features, binary)
                for features in combinations_with_replacement(range(10), length)
                if len(fold(features, binary)) == length
            }
        )
        found = term_weights(layer, np.array(terms), binary)
        np.testing.assert_allclose(found, [expected[term] for term in terms], atol=1e-12)


@pytest.mark.parametrize("length", [2, 3])
def test_the_strongest_crosses_are_those_of_plain_enumeration(length: int) -> None:
    model, graph = draw(3, order_weights="per-unit"), draw_graph()
    reading = read_model(model, graph)
    found = explain(model, graph, top=4, order=length)
    everything = enumerate_terms(reading.layers[0], reading.binary)
    names = [n for n in everything if len(n) == length and len(set(n)) > 1]
    occurrence = np.asarray(abs(cross_products(reading.inputs, names)).mean(axis=0)).ravel()
    for label in range(3):
        strength = np.abs([everything[name][label] for name in names]) * occurrence
        ours = found[found["class"] == label]["strength"].abs()
        expected = np.sort(strength[strength > 0])[::-1][:4]
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize("order_weights", ["attention", OrderLSTM(3)], ids=str)
def test_orders_that_are_not_summed_are_refused_by_name(order_weights: Any) -> None:
    layer = CrossGCNConv(10, 3, 2, order_weights=order_weights)
    with pytest.raises(NotASum, match=r"layer 1 combines its orders by Order.*'per-unit'"):
        explain_node(layer, draw_graph(), 0)


@pytest.mark.parametrize("order_weights", ["attention", "per-unit"])
def test_a_single_order_is_a_sum_however_it_is_aggregated(order_weights: str) -> None:
    layer = CrossFeatureTransform(10, 3, 1, order_weights=order_weights)
    graph = draw_graph()
    found = explain_node(layer, graph, 0)
    with torch.no_grad():
        score = float(layer(graph.x)[0, found.target])
    assert found.bias + found.expansion.list_terms().contribution.sum() == pytest.approx(
        score, abs=1e-5
    )


def test_another_transformation_or_aggregation_is_refused_by_name() -> None:
    with pytest.raises(NotASum, match="layer 1 transforms features by a MLPTransform"):
        explain_node(build_model("gin", 10, 3), draw_graph(), 0)
    with pytest.raises(NotASum, match=r"layer 1 joins neighbours by aggr='mean'.*aggr='add'"):
        explain_node(CrossGCNConv(10, 3, 2, aggr="mean"), draw_graph(), 0)
