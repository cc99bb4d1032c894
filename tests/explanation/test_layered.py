"""Terms by column of models that sum over neighbours: own and neighbours' apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_models import draw_graph, draw_model

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation import explain_terms
from crossgcn.explanation.column_details import describe_term
from crossgcn.explanation.columns import ColumnTerms
from crossgcn.explanation.explainers import LayeredExplainer
from crossgcn.explanation.layered import HIDDEN, POSITION, NotByColumn
from crossgcn.explanation.one_node import answer_node
from crossgcn.explanation.reading import Floats

SPACE = FeatureSpace(
    ("a=1", "a=2", "a=3", "b=1", "b=2", "b=3", "red", "tall", "age", "income"),
    ("a", "a", "a", "b", "b", "b", "red", "tall", "age", "income"),
)


def margins(logits: Floats) -> Floats:
    others = (logits.sum(axis=1, keepdims=True) - logits) / (logits.shape[1] - 1)
    return np.asarray(logits - others)


def total(terms: ColumnTerms) -> Floats:
    return np.asarray(terms.average + sum(term.contributions for term in terms.all_terms))


@pytest.mark.parametrize("aggregate_first", [False, True])
@pytest.mark.parametrize("order", [(2,), (3,), (2, 1), (2, 2)])
def test_terms_add_up_to_the_margins(order: tuple[int, ...], aggregate_first: bool) -> None:
    graph = draw_graph(num_nodes=120)
    model = draw_model(order, len(order), aggregate_first=aggregate_first)
    terms = explain_terms(model, graph, feature_names=SPACE)
    explainer = LayeredExplainer(model, graph, SPACE, ["0", "1", "2"])
    expected = margins(explainer.reading.logits)
    np.testing.assert_allclose(terms.scores, expected, atol=1e-9)
    np.testing.assert_allclose(total(terms), expected, atol=1e-9)
    values = terms.values.sum(axis=1) + terms.base_values
    np.testing.assert_allclose(values, expected, atol=1e-9)
    names = [term.name for term in terms.terms]
    assert (HIDDEN in names) == (order == (2, 2))
    assert all(abs(term.contributions.mean(axis=0)).max() < 1e-9 for term in terms.terms)
    if aggregate_first:
        assert {terms.whose(term) for term in terms.terms} <= {"neighbourhood", "both"}
    else:
        assert {"a × b", "neighbours: a × neighbours: b", POSITION} <= set(names)


@pytest.mark.parametrize("order", [(2,), (2, 1)])
def test_own_terms_are_those_of_the_node_itself(order: tuple[int, ...]) -> None:
    """Without the features of all other nodes, what is left of a score is the node's own."""
    graph = draw_graph(num_nodes=60)
    model = draw_model(order, len(order), bias=False)
    explainer = LayeredExplainer(model, graph, SPACE, ["0", "1", "2"])
    terms = explainer.terms()
    reading = explainer.reading
    units = explainer.polynomial.evaluate(
        explainer.polynomial.project(reading.inputs.toarray(), np.arange(10))
    )
    units = units - units.mean(axis=0)
    own = sum(term.contributions for term in terms.terms if terms.whose(term) == "own")
    expected = np.zeros((60, 3))
    first = reading.adjacencies[0].toarray()
    for node in range(60):
        if len(order) == 1:
            logits = first[node, node] * units[node]
        else:
            hidden = np.outer(first[:, node], units[node]) * (reading.outputs[0] > 0)
            second = reading.adjacencies[1].toarray()[node]
            logits = (second @ hidden) @ reading.layers[1].first_order.T
        expected[node] = margins(logits[None])[0]
    np.testing.assert_allclose(own, expected - expected.mean(axis=0), atol=1e-9)
    # What single neighbours contribute adds up to the terms of all neighbours.
    around = sum(
        term.contributions
        for term in terms.terms
        if terms.whose(term) == "neighbourhood" and term.name != POSITION
    )
    sums = np.array([explainer.neighbours(node)[1].sum(axis=0) for node in range(60)])
    np.testing.assert_allclose(around, sums - sums.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("order", [(2,), (2, 1), (2, 2)])
def test_a_change_gives_the_answer_that_is_said(order: tuple[int, ...]) -> None:
    graph, model = draw_graph(num_nodes=60), draw_model(order, len(order))
    explainer = LayeredExplainer(model, graph, SPACE, ["no", "maybe", "yes"])
    changed = 0
    for node in range(8):
        answer = answer_node(explainer, node)
        predicted = model(graph.x, graph.edge_index)[node].argmax()
        assert answer.predicted == explainer.classes[predicted]
        for change in answer.changes:
            graph_after = graph.clone()
            row = graph_after.x[node]
            for name, after in zip(change.columns, change.after, strict=True):
                places = [i for i, column in enumerate(SPACE.fields) if column == name]
                for place in places:
                    value: Any = float(f"{name}={after}" == SPACE.names[place])
                    if len(places) == 1:
                        value = {"yes": 1.0, "no": 0.0}.get(after)
                        value = float(after) if value is None else value
                    row[place] = value
            with torch.no_grad():
                scores = model(graph_after.x, graph.edge_index)[node]
            assert explainer.classes[int(scores.argmax())] == change.outcome != answer.predicted
            changed += 1
    assert changed > 1


def test_a_node_is_not_said_to_have_the_sums_of_its_neighbourhood() -> None:
    graph, numbers = draw_graph(num_nodes=60), {"age": (40.0, 10.0)}
    for aggregate_first, columns in ((False, set(SPACE.fields)), (True, set())):
        model = draw_model(2, aggregate_first=aggregate_first)
        explainer = LayeredExplainer(model, graph, SPACE, ["0", "1", "2"], numbers=numbers)
        held = answer_node(explainer, 0).total.held
        assert set(held) == columns
    own = LayeredExplainer(draw_model(2), graph, SPACE, ["0", "1", "2"], numbers=numbers)
    age = own.own_row(0)[0, 8]
    assert float(answer_node(own, 0).total.held["age"]) == pytest.approx(40 + 10 * age, rel=1e-3)


def test_the_slope_of_a_number_of_neighbours_is_its_weight_per_deviation() -> None:
    graph, model = draw_graph(num_nodes=60), draw_model(1)
    explainer = LayeredExplainer(model, graph, SPACE, ["0", "1", "2"])
    terms = explainer.terms()
    weights = margins(explainer.reading.layers[0].first_order.T)
    found = {term.name: term for term in terms.terms}
    for place, name in ((8, "neighbours: age"), (9, "neighbours: income")):
        deviation = float(graph.x[:, place].double().std(correction=0))
        for output in range(3):
            slope = describe_term(terms, found[name], output)["slope"]
            assert slope == pytest.approx(weights[place, output] * deviation)


def test_why_this_and_not_that() -> None:
    graph, model = draw_graph(num_nodes=60), draw_model(2)
    one = explain_terms(model, graph, classes=["a", "b", "c"], contrast=("c", "a"))
    logits = LayeredExplainer(model, graph, SPACE, ["a", "b", "c"]).reading.logits
    assert (one.outputs, one.unit) == (("c rather than a",), "log-odds")
    np.testing.assert_allclose(total(one)[:, 0], logits[:, 2] - logits[:, 0], atol=1e-9)
    assert one.values.shape == (60, len(one.feature_names))


def test_models_without_terms_by_column_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotByColumn, match="it has 3 layers"):
        explain_terms(draw_model((2, 1, 1), 3), draw_graph())
    monkeypatch.setattr("crossgcn.explanation.layered.MOST_COLUMNS", 9)
    with pytest.raises(NotByColumn, match="it has 10 columns"):
        explain_terms(draw_model(2), draw_graph())
