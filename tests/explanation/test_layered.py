"""Terms of models that sum over neighbours: own and neighbours' apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from small_models import draw_graph, draw_model
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCN, CrossGCNConv, explain
from crossgcn.data.features import FeatureSpace, csr_tensor
from crossgcn.explanation import Explanation, NotASum, Products
from crossgcn.explanation.api import make_explainer
from crossgcn.explanation.columns import HIDDEN, POSITION, Names
from crossgcn.explanation.polynomial import Floats, read_model

SPACE = FeatureSpace(
    ("a=1", "a=2", "a=3", "b=1", "b=2", "b=3", "red", "tall", "age", "income"),
    ("a", "a", "a", "b", "b", "b", "red", "tall", "age", "income"),
)


def explainer_of(
    model: Any, graph: Data, classes: tuple[str, ...] = ("0", "1", "2"), **names: Any
) -> Any:
    return make_explainer(model, graph, Names(SPACE, classes, num_rows=graph.num_nodes, **names))


def margins(logits: Floats) -> Floats:
    """A class against the mean of the others, the second of two, and a number as it is."""
    if logits.shape[1] == 1:
        return logits
    others = (logits.sum(axis=1, keepdims=True) - logits) / (logits.shape[1] - 1)
    return np.asarray(logits - others)[:, slice(1, None) if logits.shape[1] == 2 else slice(None)]


def total(whole: Explanation) -> Floats:
    return np.asarray(whole.average + sum(term.contributions for term in whole.all_terms))


@pytest.mark.parametrize("order", [(2,), (3,), (2, 1), (2, 2)])
def test_terms_add_up_to_the_margins(order: tuple[int, ...]) -> None:
    graph = draw_graph(num_nodes=120)
    model = draw_model(order, len(order))
    whole = explain(model, graph, feature_names=SPACE)
    with torch.no_grad():
        expected = margins(model(graph.x, graph.edge_index).double().numpy())
    np.testing.assert_allclose(whole.scores, expected, atol=1e-5)
    np.testing.assert_allclose(total(whole), whole.scores, atol=1e-9)
    sums = whole.values.sum(axis=1) + whole.base_values
    np.testing.assert_allclose(sums, whole.scores, atol=1e-9)
    names = [term.name for term in whole.terms]
    assert (HIDDEN in names) == (order == (2, 2))
    assert all(abs(term.contributions.mean(axis=0)).max() < 1e-9 for term in whole.terms)
    assert {"a × b", "neighbours: a × neighbours: b", POSITION} <= set(names)


@pytest.mark.parametrize("order", [(2,), (2, 1)])
def test_own_terms_are_those_of_the_node_itself(order: tuple[int, ...]) -> None:
    """Without the features of all other nodes, what is left of a score is the node's own."""
    graph = draw_graph(num_nodes=60)
    explainer = explainer_of(draw_model(order, len(order), bias=False), graph)
    whole, reading = explainer.explain(), explainer.reading
    rows = reading.inputs.toarray()
    units = explainer.polynomial.evaluate(explainer.polynomial.project(rows))
    units = units - units.mean(axis=0)
    own = sum(term.contributions for term in whole.terms if term.scope == "own")
    expected = np.zeros((60, 3))
    first = reading.adjacencies[0].toarray()
    for node in range(60):
        if len(order) == 1:
            logits = first[node, node] * units[node]
        else:
            hidden = np.outer(first[:, node], units[node]) * (reading.outputs[0] > 0)
            second = reading.adjacencies[1].toarray()[node]
            logits = (second @ hidden) @ reading.layers[1].weights[0].T
        expected[node] = margins(logits[None])[0]
    np.testing.assert_allclose(own, expected - expected.mean(axis=0), atol=1e-9)
    # What single neighbours contribute adds up to the terms of all neighbours.
    around = sum(
        term.contributions
        for term in whole.terms
        if term.scope == "neighbourhood" and term.name != POSITION
    )
    sums = np.array([explainer.neighbours(node)[1].sum(axis=0) for node in range(60)])
    np.testing.assert_allclose(around, sums - sums.mean(axis=0), atol=1e-9)


def test_a_node_is_not_said_to_have_the_values_of_its_neighbours() -> None:
    graph = draw_graph(num_nodes=60)
    explainer = explainer_of(draw_model(2), graph, numbers={"age": (40.0, 10.0)})
    held = explainer.explain().node(0).held
    assert set(held) == set(SPACE.fields)
    age = explainer.inputs(np.array([0]))[0, 8]
    assert float(held["age"]) == pytest.approx(40 + 10 * age, rel=1e-3)


def test_the_slope_of_a_number_of_neighbours_is_its_weight_per_deviation() -> None:
    graph, model = draw_graph(num_nodes=60), draw_model(1)
    explainer = explainer_of(model, graph)
    whole = explainer.explain()
    weights = margins(explainer.polynomial.weights[0].T)
    for place, name in ((8, "neighbours: age"), (9, "neighbours: income")):
        deviation = float(graph.x[:, place].double().std(correction=0))
        for output in range(3):
            slope = whole.inside(whole.term(name), output)["slope"]
            assert slope == pytest.approx(weights[place, output] * deviation)


EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 3, 2], [1, 0, 2, 1, 4, 2, 3, 3, 4]])  # 5 is alone
WEIGHTS = torch.linspace(0.4, 1.8, EDGES.size(1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"add_self_loops": False},
        {"normalize": False},
        {"improved": True},
        {"order": [3, 1]},
        {"order": 2, "order_weights": "per-unit"},
        {"order": 2, "order_weights": [0.5, 2.0]},
        {"order": 2, "first_order": "release"},
        {"aggregate_first": True, "order": 2},
    ],
    ids=str,
)
def test_the_function_that_the_model_computes_is_read(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = CrossGCN(5, 4, 2, 3, **options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(6, 5)
    with torch.no_grad():
        expected = model(x, EDGES, WEIGHTS).numpy()
    sparse = sp.csr_array(x.numpy())
    for features in (x, csr_tensor(sparse.indptr, sparse.indices, sparse.data, (6, 5))):
        graph = Data(x=features, edge_index=EDGES, edge_weight=WEIGHTS)
        np.testing.assert_allclose(read_model(model, graph).outputs[-1], expected, atol=1e-5)
        whole = explain(model, graph)
        if options.get("aggregate_first"):
            assert "aggregate_first" in whole.reason
        else:
            np.testing.assert_allclose(total(whole), margins(expected), atol=1e-4)


def test_what_is_no_sum_of_terms_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr("crossgcn.explanation.explainers.most_nodes", lambda *_: 3)
    many = explain(draw_model(2), graph)
    assert isinstance(many, Products) and "30 nodes with 10 columns are too many" in many.reason
    monkeypatch.undo()
    deep = explain(draw_model((2, 1, 1), 3), graph)
    assert isinstance(deep, Products) and "it has 3 layers" in deep.reason
    monkeypatch.setattr("crossgcn.explanation.explainers.MOST_COLUMNS", 9)
    words = "single nodes.*explained by column.*it has 10 columns.*train cross-hops"
    with pytest.raises(BadInput, match=words):
        explain(draw_model(2), graph, node=3)
    with pytest.raises(BadInput, match=words):
        explain(draw_model(2), graph).node(3)
    with pytest.raises(BadInput, match="it has 10 columns"):
        explain(draw_model(2), graph, contrast=("0", "1"))
