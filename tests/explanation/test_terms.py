"""Terms of cross-hops: exact sums, purified, unique, and what is inside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from crossgcn import CrossHops, explain
from crossgcn.data.features import FeatureSpace
from crossgcn.data.relations import Relation
from crossgcn.errors import BadInput
from crossgcn.explanation import Explanation, NotASum
from crossgcn.explanation.columns import SCOPES, Names, hop_columns
from crossgcn.explanation.polynomial import Floats
from crossgcn.models.cross_hops import HopPerceptron

SPACE = FeatureSpace(
    ("city=oslo", "city=lima", "city=rome", "sport=judo", "sport=golf", "age", "age rank"),
    ("city", "city", "city", "sport", "sport", "age", "age"),
)
AGE = 5


def margins(logits: Floats) -> Floats:
    """A class against the mean of the others, the second of two, and a number as it is."""
    if logits.shape[1] == 1:
        return logits
    others = (logits.sum(axis=1, keepdims=True) - logits) / (logits.shape[1] - 1)
    return np.asarray(logits - others)[:, slice(1, None) if logits.shape[1] == 2 else slice(None)]


def total(whole: Explanation) -> Floats:
    return np.asarray(whole.average + sum(term.contributions for term in whole.all_terms))


def make_graph(num_nodes: int = 300) -> Data:
    generator = torch.Generator().manual_seed(0)
    city = torch.randint(3, (num_nodes,), generator=generator)
    other = torch.randint(2, (num_nodes,), generator=generator)
    sport = torch.where(torch.rand(num_nodes, generator=generator) < 0.5, city % 2, other)
    age = torch.randn(num_nodes, 1, generator=generator)
    x = torch.cat([one_hot(city, 3), one_hot(sport, 2), age, age.argsort(0).argsort(0)], dim=1)
    x[:, -1] /= num_nodes
    edges = torch.randint(num_nodes, (2, 3 * num_nodes), generator=generator)
    ring = torch.arange(num_nodes)
    edges = torch.cat([edges, torch.stack([ring, (ring + 1) % num_nodes])], dim=1)
    return Data(x=x.double(), edge_index=torch.cat([edges, edges.flip(0)], dim=1))


def make_model(num_classes: int = 2, *, order: int = 2, bags: int = 1) -> CrossHops:
    """A model with weights as after training."""
    torch.manual_seed(1)
    model = CrossHops(7, 4, 1, num_classes, order=order, bags=bags).double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5).requires_grad_(False)
    if num_classes == 1:
        model.predict_number(100.0, 20.0)
    return model


def explained(model: CrossHops, graph: Data) -> Explanation:
    classes = [f"c{label}" for label in range(model.readout.out_channels)]
    return explain(model, graph, feature_names=SPACE, classes=classes)  # type: ignore[no-any-return]


def margins_of(model: CrossHops, graph: Data) -> Floats:
    return margins(model(graph.x, graph.edge_index).numpy())


Linear = dict[int, float]
Unit = tuple[float, Linear, Linear | None]


def planted(*units: Unit) -> CrossHops:
    """A model of a number: each unit is a factor times p, or times p (1 + q)."""
    model = CrossHops(7, len(units), 1, 1, order=2).double().eval()
    model.predict_number(0.0, 1.0)
    for weight in model.parameters():
        torch.nn.init.zeros_(weight).requires_grad_(False)
    gates: Any = model.transform.aggregator.gates  # type: ignore[union-attr]
    for unit, (factor, first, second) in enumerate(units):
        for position, each in enumerate((first, second or {})):
            for column, value in each.items():
                model.transform.weight[position, unit, column] = value
        model.readout.weight[0, unit] = factor
        gates[unit] = 1.0 if second else 0.0
    return model


def product_of(factor: float, first: Linear, second: Linear) -> list[Unit]:
    return [(factor, first, second), (-factor, first, None)]


@pytest.mark.parametrize(
    ("num_classes", "order", "bags"), [(2, 1, 2), (2, 2, 3), (3, 2, 1), (1, 2, 2), (1, 3, 2)]
)
def test_terms_add_up_to_the_score(num_classes: int, order: int, bags: int) -> None:
    graph, model = make_graph(), make_model(num_classes, order=order, bags=bags)
    whole, scores = explained(model, graph), margins_of(model, graph)
    size = np.abs(scores).max()
    np.testing.assert_allclose(whole.scores, scores, atol=1e-9 * size)
    np.testing.assert_allclose(total(whole), scores, atol=1e-9 * size)
    np.testing.assert_allclose(whole.average, scores.mean(axis=0))
    assert max(len(term.columns) for term in whole.terms) == order
    for term in whole.terms:
        np.testing.assert_allclose(term.importance, term.contributions.std(axis=0), atol=1e-9)
        assert abs(term.contributions.mean(axis=0)).max() < 1e-9 * size
    assert whole.unit == {1: "c0", 2: "log-odds", 3: "margin"}[num_classes]
    assert whole.outputs == (("c1",) if num_classes == 2 else ("c0", "c1", "c2")[:num_classes])


def test_a_pure_product_has_no_main_effects() -> None:
    graph = make_graph(2000)
    whole = explained(planted(*product_of(1.0, {AGE: 1.0}, {7 + AGE: 1.0})), graph)
    strongest, *others = whole.strongest()
    assert strongest.columns == ("age", "neighbours: age") and strongest.scope == "both"
    assert strongest is whole.term("neighbours: age", "age")
    assert strongest.importance[0] > 0.3 and others[0].importance[0] < 0.05
    product = whole.inputs[:, AGE] * whole.inputs[:, 7 + AGE]
    assert whole.inside(strongest)["slope"] == pytest.approx(float(product.std()), rel=0.1)
    with pytest.raises(BadInput, match="column 'aeg'"):
        whole.term("aeg")
    with pytest.raises(BadInput, match="there is no term of age × age"):
        whole.term("age", "age")


def test_cells_are_the_means_of_their_nodes_and_exclude_what_columns_do_alone() -> None:
    """One cell is raised. Its row, its column and the mean take what belongs to them."""
    graph = make_graph()
    whole = explained(planted(*product_of(1.0, {1: 1.0}, {3: 1.0}), (0.5, {AGE: 1.0}, None)), graph)
    pair = whole.term("city", "sport")
    cells = whole.inside(pair, top=6)["cells"]
    assert cells[0]["names"] == ["city=lima", "sport=judo"] and cells[0]["contribution"] > 0
    by_value: dict[str, float] = {}
    for cell in cells:
        inside = np.ones(300, bool)
        for name in cell["names"]:
            inside &= graph.x[:, SPACE.names.index(name)].numpy() == 1
            by_value[name] = by_value.get(name, 0.0) + cell["contribution"] * cell["nodes"]
        assert cell["nodes"] == inside.sum()
        assert cell["contribution"] == pytest.approx(pair.contributions[inside].mean())
    assert len(by_value) == 5 and max(map(abs, by_value.values())) < 1e-8
    age = whole.inside(whole.term("age"))
    assert [cell["nodes"] for cell in age["cells"]] == pytest.approx([37.5] * 8, abs=1)


def test_columns_that_the_model_does_not_read_have_no_terms() -> None:
    whole = explained(planted((1.0, {AGE: 1.0}, None)), make_graph())
    assert [term.name for term in whole.terms] == ["age"]
    assert [column.name for column in whole.columns] == ["age"]
    assert whole.dropped[:4] == ("city", "sport", "neighbours: city", "neighbours: sport")
    assert whole.dropped[-1] == "number of neighbours"
    assert repr(whole).startswith("Explanation of 300 nodes, 1 terms of 1 of 10 columns")
    with pytest.raises(BadInput, match="no term of 'city': the model does not read this column"):
        whole.term("city")
    np.testing.assert_allclose(whole.shares_of_largest(), [1.0])


@pytest.mark.parametrize(("num_classes", "listed"), [(1, 2000), (3, 6)])
def test_the_largest_terms_carry_a_share_of_each_prediction(
    num_classes: int, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossgcn.explanation.purify._MOST_TERMS", {2: listed, 3: listed})
    whole, nodes = explained(make_model(num_classes), make_graph()), np.arange(30, 95)
    assert (whole.rest is None) == (listed > 6)
    frame = whole.to_frame().set_index("class")  # its last rows are what is not listed
    if whole.rest is not None:
        for at, name in enumerate(whole.outputs):
            last = frame.loc[name].iloc[-1]
            assert last["term"] == "all other crosses" and len(frame.loc[name]) == 1 + len(
                whole.terms
            )
            assert last["importance"] == whole.rest.importance[at]
    shares = whole.shares_of_largest(nodes)
    for count in (1, 4, len(whole.terms)):
        of_nodes = []
        for node in nodes.tolist():
            one = whole.node(node)  # the score of the predicted class
            sizes = [
                abs(value) for term, value in zip(one.terms, one.values, strict=True) if term.key
            ]
            of_nodes.append(sum(sorted(sizes)[-count:]) / sum(abs(one.values)))
        assert shares[count - 1] == pytest.approx(np.median(of_nodes))
    assert len(shares) == len(whole.terms) and (np.diff(shares) >= 0).all()
    assert (shares[-1] == pytest.approx(1.0)) == (whole.rest is None)


FRIENDS = (Relation("friends", torch.zeros(2, 0)),)


def test_columns_are_those_of_the_table() -> None:
    model = CrossHops(7, 4, 1, 3, label_features=True, hops=1)
    columns = hop_columns(model, Names(SPACE, ("a", "b", "c"), FRIENDS, "club"))
    assert [column.name for column in columns] == [
        *("city", "sport", "age", "friends: city", "friends: sport", "friends: age"),
        *("number of friends", "friends: club", "friends: known labels"),
    ]
    assert columns[2].features == ("age", "age rank")
    assert columns[5].is_number and columns[5].scope == "neighbourhood"
    assert columns[7].features == tuple(f"friends: club={name}" for name in "abc")
    places = np.concatenate([column.places for column in columns])
    assert sorted(places) == list(range(model.plan.num_columns))
    age = hop_columns(model, Names(SPACE, ("a", "b", "c"), numbers={"age": (40.0, 10.0)}))[2]
    texts = [age.value_text(np.array([value, 0.2])) for value in (-0.55, 99, -99, -4.0 + 1e-9)]
    assert texts[0] == "34.5" and texts[1].startswith("≥ ") and texts[2].startswith("≤ ")
    assert texts[3] == "0"


def test_equal_bags_have_no_error_and_others_have_one() -> None:
    graph, model = make_graph(), make_model(bags=2)
    assert all(float(t.error[0]) > 0 for t in explained(model, graph).terms if t.error is not None)
    model.transform.weight[:, 4:] = model.transform.weight[:, :4]
    model.readout.weight[:, 4:] = model.readout.weight[:, :4]
    gates: Any = model.transform.aggregator.gates  # type: ignore[union-attr]
    gates[4:] = gates[:4]
    for term in explained(model, graph).terms:
        assert term.error is not None and float(term.error[0]) < 1e-6
    assert explained(make_model(), graph).terms[0].error is None


def test_a_node_adds_up_also_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = make_graph(1000), make_model(3)
    monkeypatch.setattr("crossgcn.explanation.purify._CELLS", 1)
    monkeypatch.setattr("crossgcn.explanation.purify._MOST_TERMS", {2: 6, 3: 6})
    whole = explained(model, graph)
    assert len(whole.nodes) == 200 and whole.rest is not None
    assert sum(len(term.columns) == 2 for term in whole.terms) == 6
    node = whole.node(777, 1)
    assert 777 not in whole.nodes and node.average == whole.average[1]
    assert [term.importance[1] for term in node.whole.terms] == pytest.approx(
        [term.importance[1] for term in whole.terms]
    )
    assert node.score == pytest.approx(margins_of(model, graph)[777, 1])
    content = node.to_json()
    values = [term["value"] for term in content["terms"]]
    assert content["average"] + sum(values) == pytest.approx(content["score"])
    assert sum(content[scope] for scope in SCOPES) == pytest.approx(sum(values))
    assert {"columns", "importance", "error", "value", "cells"} <= set(content["terms"][0])


def test_tables_arrays_and_one_screen() -> None:
    graph, model = make_graph(), make_model(bags=2)
    whole = explain(model, graph, feature_names=SPACE, classes=["no", "yes"])
    frame = whole.to_frame()
    assert list(frame["term"]) == [term.name for term in whole.strongest()]
    assert list(whole.to_frame(4)["columns"].map(len)).count(2) == 4
    assert whole.values.shape == (300, len(whole.feature_names))
    np.testing.assert_allclose(
        whole.values.sum(axis=1) + whole.base_values, margins_of(model, graph)[:, 0], atol=1e-9
    )
    node = whole.node(4)
    assert node.to_frame()["value"].sum() == pytest.approx(node.score)
    assert node.to_frame()["term"][0] == "average" and node.points is not None
    assert node.probability == pytest.approx(1 / (1 + np.exp(-node.score)))
    for term, value, points in zip(node.terms, node.values, node.points, strict=True):
        without = 1 / (1 + np.exp(value - node.score))
        assert points == pytest.approx(100 * (node.probability - without)), term
    many = explain(make_model(3, order=3), graph)
    for each in (whole, node, whole.terms[0], many, many.node(4)):
        lines = repr(each).splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 120
    assert "average" in repr(whole) and "log-odds of yes against no: + for yes" in repr(node)


def test_refusals_say_what_the_model_would_need() -> None:
    graph, model = make_graph(), make_model()
    with pytest.raises(BadInput, match="there is no node 300: give a number from 0 to 299"):
        explain(model, graph, node=300)
    with pytest.raises(BadInput, match="give the graph"):
        explain(model)
    with pytest.raises(BadInput, match="class"):
        explain(make_model(3), graph, contrast=("2", "x"))
    with pytest.raises(NotASum, match="HopPerceptron is not a sum of named terms"):
        explain(HopPerceptron(7, 3, 1, 2), graph)
    sees = CrossHops(7, 4, 1, 2, label_features=True).double().eval()
    graph.y = (graph.x[:, 0] > 0).long()
    with pytest.raises(BadInput, match="give the graph a train_mask"):
        explain(sees, graph)
    graph.train_mask = torch.arange(graph.num_nodes) < 100
    whole = explain(sees, graph)
    assert ("neighbours: 1",) in [term.columns for term in whole.terms]


def test_why_this_and_not_that() -> None:
    graph, model = make_graph(), make_model(3)
    whole = explain(model, graph, contrast=("2", "0"))
    scores = model(graph.x, graph.edge_index).numpy()
    np.testing.assert_allclose(total(whole)[:, 0], scores[:, 2] - scores[:, 0], atol=1e-9)
    assert (whole.outputs, whole.against, whole.unit) == (("2",), "0", "log-odds")
    for node in (0, 1, 2):
        predicted = str(scores[node].argmax())
        others = [name for name in "012" if name != predicted]
        one = explain(model, graph, node=node, contrast=(others[0], None))
        assert (one.output, one.whole.against) == (others[0], predicted)
        assert one.score == pytest.approx(scores[node, int(others[0])] - scores[node].max())
        same = explain(model, graph, node=node, contrast=(predicted, None))
        assert (same.output, same.whole.against) == (predicted, "the others")
        with pytest.raises(BadInput, match=f"is predicted as {predicted}: give the class"):
            explain(model, graph, node=node, contrast=(None, predicted))
    with pytest.raises(BadInput, match="give node"):
        explain(model, graph, contrast=("1", None))


def test_probabilities_and_points_of_many_classes() -> None:
    graph, model = make_graph(), make_model(3)
    whole = explained(model, graph)
    scores = model(graph.x, graph.edge_index).numpy()
    chances = np.exp(scores[7]) / np.exp(scores[7]).sum()
    one = whole.node(7, 2)
    assert one.probability == pytest.approx(chances[2]) and one.points is not None
    term = one.terms[0]
    without = scores[7] - term.contributions[7] * (1 - 1 / 3)  # margins: times 2 / 3
    lost = chances[2] - np.exp(without[2]) / np.exp(without).sum()
    assert one.points[0] == pytest.approx(100 * lost)
    ranked = whole.overall()
    sizes = [term.importance.mean() for term, _ in ranked]
    assert sizes == sorted(sizes, reverse=True) and len(ranked) == len(whole.terms)
    assert all(term.importance[at] == term.importance.max() for term, at in ranked)
