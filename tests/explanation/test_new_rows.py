"""Rows that were never trained on are explained as those that were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import circles
from shop_tables import make_shop
from torch_geometric.data import Data

from crossgcn import (
    BadInput,
    CrossGCNClassifier,
    CrossGCNRegressor,
    CrossHops,
    TableModel,
    explain,
    from_tables,
)
from crossgcn.data.features import FeatureSpace
from crossgcn.explanation import Explanation
from crossgcn.explanation.columns import Names
from crossgcn.explanation.hop_explainer import HopExplainer
from crossgcn.graph.neighbourhood import neighbour_labels

SHOP = make_shop(300)
ALONE = SHOP.new_nodes.tail(2).assign(customer=["alone", "far"], income=[900, 10**6], city="Rome")
NEW = pd.concat([SHOP.new_nodes, ALONE])
QUICK: dict[str, Any] = {"num_splits": 1, "epochs": 8, "bags": 2, "columns": 12, "tuning": 1}


@pytest.fixture(scope="module", params=["four classes", "two classes", "a number"])
def model(request: pytest.FixtureRequest) -> TableModel:
    nodes = SHOP.nodes
    if request.param == "two classes":
        nodes = nodes.assign(
            buys=nodes["buys"].isin(["books", "toys"]).map({True: "x", False: "y"})
        )
    if request.param == "a number":
        random = np.random.default_rng(0).normal(size=len(nodes))
        nodes = nodes.assign(buys=nodes["age"] + nodes["income"] / 900 + random)
    return from_tables(nodes, SHOP.edges, "buys", **QUICK).fit()


@pytest.mark.filterwarnings("ignore:column city:UserWarning", "ignore:values beyond:UserWarning")
def test_terms_add_up_to_what_predict_gives(model: TableModel) -> None:
    whole, predicted = model.explain(NEW, SHOP.new_edges), model.predict(NEW, SHOP.new_edges)
    scores: Any = whole.base_values + whole.values.sum(axis=1)
    expected: Any = predicted["predicted"]
    if scores.ndim == 2:  # margins
        scores = np.exp(scores * (1 - 1 / scores.shape[1]))
        scores, expected = scores / scores.sum(1, keepdims=True), predicted.filter(like="probab")
    elif whole.unit == "log-odds":
        scores, expected = 1 / (1 + np.exp(-scores)), predicted[f"probability: {whole.outputs[0]}"]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    for place in (3, len(NEW) - 1):
        one = model.explain(NEW, SHOP.new_edges, node=NEW["customer"].iloc[place])
        assert one.average + one.values.sum() == pytest.approx(one.score, abs=1e-9)
        assert one.score == pytest.approx(whole.scores[-len(NEW) + place, one.place], abs=1e-9)
        assert one.predicted in (None, predicted["predicted"].iloc[place])
        assert all(len(one.shown(term)) == len(term.columns) for term in one.terms if term.key)


def test_new_rows_leave_the_terms_of_others_as_they_were(model: TableModel) -> None:
    known, whole = model.explain(), model.explain(NEW, SHOP.new_edges)
    np.testing.assert_allclose(whole.average, known.average, atol=1e-12)
    for term, same in zip(whole.all_terms, known.all_terms, strict=True):
        np.testing.assert_allclose(term.contributions[:300], same.contributions, atol=1e-9)
        assert term.columns == same.columns
        np.testing.assert_allclose(term.importance, same.importance, atol=1e-9)
        cells, others = (each["cells"] for each in (whole.inside(term), known.inside(same)))
        for cell, other in zip(cells, others, strict=True):
            assert (cell["names"], cell["nodes"]) == (other["names"], other["nodes"])
            assert cell["contribution"] == pytest.approx(other["contribution"], abs=1e-9)
    row = SHOP.nodes.drop(columns="buys").head(1)
    ends = SHOP.edges[SHOP.edges.isin(row["customer"].tolist()).any(axis=1)]
    assert len(ends)
    copy, again = row.assign(customer="copy"), ends.replace(row["customer"].iloc[0], "copy")
    one, own = model.explain(copy, again, node="copy"), model.explain("u_1")
    held = {name: text for name, text in own.held.items() if not name.startswith("2 hops")}
    assert held == {name: one.held[name] for name in held}
    of_known = {term.columns: value for term, value in zip(own.terms, own.values, strict=True)}
    for term, value in zip(one.terms, one.values, strict=True):
        if not any(name.startswith("2 hops") for name in term.columns):
            assert value == pytest.approx(of_known[term.columns], abs=1e-5)


def test_a_row_without_neighbours_says_so_once(model: TableModel) -> None:
    whole = model.explain(NEW, SHOP.new_edges)
    one = whole.node("alone")
    around = [term.columns for term in one.terms if term.scope != "own" and term.columns]
    read = any(column.scope != "own" for column in whole.columns)
    assert around == [("has no neighbours",)] * read and not one.neighbours
    terms = [term for term in whole.terms if term.scope != "own"]
    row = whole.place_of[one.node]
    together = sum(term.contributions[row, one.place] for term in terms)
    assert one.to_json()["neighbourhood"] == pytest.approx(together, abs=1e-9)


def test_new_rows_beside_a_sample_of_a_large_graph(
    model: TableModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = model.explain(NEW, SHOP.new_edges)
    monkeypatch.setattr("crossgcn.explanation.purify._CELLS", 1)
    whole = model.explain(NEW, SHOP.new_edges)
    assert whole.num_fitted == 200 and len(whole.nodes) == 200 + len(NEW)
    scores = np.squeeze(every.scores[-len(NEW) :])
    np.testing.assert_allclose(whole.base_values + whole.values.sum(1), scores, atol=1e-6)
    np.testing.assert_allclose(whole.average, whole.scores[:200].mean(axis=0))


def test_rows_that_cannot_be_explained_are_named(model: TableModel) -> None:
    for nodes, node, words in (
        (NEW, "nobody", "nodes: there is no node 'nobody' among its 17; the first are 'u_301'"),
        (NEW, "u_1", "'u_1' is not in it, but was trained on: leave out the tables"),
        (SHOP.nodes.head(1), "u_1", "the model was trained on 'u_1'"),
        (NEW.drop(columns="age"), "alone", "there is no column 'age'"),
        (None, "alone", "there is no node 'alone' among the 300 trained on"),
    ):
        with pytest.raises(BadInput, match=words):
            model.explain(nodes, node=node)
    with pytest.raises(BadInput, match="edges go with new nodes"):
        model.explain(edges=SHOP.new_edges)


X, Y, EDGES = circles()


@pytest.mark.parametrize("kind", [CrossGCNClassifier, CrossGCNRegressor])
def test_new_rows_of_an_estimator(kind: Any) -> None:
    """Rows 150 to 199 are new; those before come again with them, so that labels are seen."""
    old, every = np.arange(150), np.arange(200)
    y = Y if kind is CrossGCNClassifier else X[:, 0] * 3 + Y
    fitted = kind(model="cross-hops", epochs=5, hidden_channels=4)
    fitted.fit(X[old], y[old], EDGES, node_index=old)
    edges = EDGES[:, (EDGES < 199).all(axis=0)]  # the last row is alone
    whole, known = explain(fitted, X, edges, node_index=every), explain(fitted)
    score = fitted.decision_function if kind is CrossGCNClassifier else fitted.predict
    expected = score(X, edges, node_index=every)
    np.testing.assert_allclose(whole.base_values + whole.values.sum(1), expected, atol=1e-6)
    np.testing.assert_allclose(whole.average, known.average, atol=1e-12)
    for term, same in zip(whole.all_terms, known.all_terms, strict=True):
        np.testing.assert_allclose(term.contributions[:150], same.contributions, atol=1e-9)
    one = explain(fitted, X, edges, node=199, node_index=every)
    assert one.average + one.values.sum() == pytest.approx(expected[199], abs=1e-6)
    assert [term.name for term in one.terms].count("has no neighbours") == 1
    changed = pd.DataFrame(X[old]).rename_axis("node").iloc[[7]] + 1.0
    what_if = explain(fitted, changed)
    np.testing.assert_allclose(what_if.average, known.average)
    total = what_if.base_values + what_if.values.sum(1)
    np.testing.assert_allclose(total, score(changed), atol=1e-6)


@pytest.mark.parametrize("num_classes", [1, 2, 3])
def test_values_of_neighbours_are_those_of_the_table(num_classes: int) -> None:
    """By counting shares and means, whatever the model smooths and cuts."""
    graph, space = _people(), ("age", "city=oslo", "city=rome", "city=lima", "member")
    model = CrossHops(5, 4, 1, num_classes, hops=1, label_features=True)
    model.center += 0.25
    model.deviation *= 0.5
    model.strength += 3
    model.prior[0] = 0.1
    model.low.fill_(-0.2)
    model.high.fill_(0.2)
    y = torch.arange(60) / 7 if num_classes == 1 else torch.arange(60) % num_classes
    if num_classes == 1:
        model.predict_number(float(y[:40].mean()), float(y[:40].std(correction=0)))
    features = FeatureSpace(space, ("age", "city", "city", "city", "member"))
    classes = ("sales",) if num_classes == 1 else tuple("abc")[:num_classes]
    names = Names(features, classes, num_rows=60, numbers={"age": (40.0, 10.0)})
    labels = neighbour_labels(y, torch.arange(40), num_classes)
    whole = HopExplainer(model, graph, names, labels).explain()
    assert isinstance(whole, Explanation)
    for node in range(60):
        held, near = whole.node(node).held, graph.edge_index[0][graph.edge_index[1] == node]
        ages, shares = 40 + 10 * graph.x[near, 0], graph.x[near, 1:4].double().mean(0).tolist()
        assert held["age"] == f"{40 + 10 * float(graph.x[node, 0]):.4g}"
        assert float(held["neighbours: age"]) == pytest.approx(float(ages.mean()), rel=1e-3)
        largest = sorted(zip(shares, ("oslo", "rome", "lima"), strict=True), key=lambda s: -s[0])
        told = [f"{100 * share:.0f} % {name}" for share, name in largest[:2] if share]
        assert sorted(held["neighbours: city"].split(", ")) == sorted(told) or len(near) > 2
        assert held["neighbours: city"].startswith(f"{100 * largest[0][0]:.0f} % ")
        member = float(graph.x[near, 4].mean())
        assert held["neighbours: member"] == f"{100 * member:.0f} % yes"
        known = near[near < 40]
        label = held[f"neighbours: {('sales', 'b', 'class')[num_classes - 1]}"]
        if not len(known):
            assert label == "unknown"
        elif num_classes == 1:
            assert float(label) == pytest.approx(float(y[known].mean()), rel=1e-3)
        elif num_classes == 2:
            assert label == f"{100 * float(y[known].double().mean()):.0f} % yes"
        else:
            most = torch.bincount(y[known]).max() / len(known)
            assert label.startswith(f"{100 * float(most):.0f} % ")
        assert held["neighbours: known labels"] == str(len(known))
        assert held["number of neighbours"] == str(len(near))


def _people() -> Data:
    random = torch.Generator().manual_seed(0)
    city = torch.nn.functional.one_hot(torch.randint(3, (60,), generator=random), 3)
    member = torch.randint(2, (60, 1), generator=random)
    x = torch.cat([torch.randn(60, 1, generator=random), city, member], dim=1)
    ring = torch.stack([torch.arange(60), torch.arange(1, 61) % 60])
    ends = torch.cat([torch.randint(60, (2, 90), generator=random), ring], dim=1)
    ends = ends[:, ends[0] != ends[1]]
    return Data(x=x, edge_index=torch.unique(torch.cat([ends, ends.flip(0)], 1), dim=1))


@pytest.mark.filterwarnings("ignore:column city:UserWarning", "ignore:values beyond:UserWarning")
def test_predictions_have_the_largest_terms_of_each_row_in_words(
    model: TableModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = model.predict(NEW, SHOP.new_edges, terms=3)
    plain = model.predict(NEW, SHOP.new_edges)
    pd.testing.assert_frame_equal(found[list(plain.columns)], plain)
    for place in (0, len(NEW) - 1):
        one = model.explain(NEW, SHOP.new_edges, node=NEW["customer"].iloc[place])
        for number, (term, value) in enumerate(zip(one.terms[:3], one.values, strict=False), 1):
            text = found[f"term {number}"].iloc[place]
            assert text.startswith(term.name) and text.endswith(f" {value:+.3g}")
            assert all(held in text for held in one.shown(term))
    # Rows that do not fit into one explanation are explained part by part.
    monkeypatch.setattr("crossgcn.explanation.hop_explainer._LEAST_NODES", 2)
    monkeypatch.setattr("crossgcn.explanation.hop_explainer.most_nodes", lambda *_: 2)
    few = model.predict(NEW, SHOP.new_edges, terms=1)
    assert len(few) == len(NEW) and few["term 1"].ne("").all()
