"""Terms by column of cross-hops: exact sums, purified, unique, and what is inside them."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from crossgcn import explain, explain_terms
from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.encode.numbers import MAX_DEVIATIONS
from crossgcn.errors import BadInput
from crossgcn.explanation import columns, purify
from crossgcn.explanation.column_details import describe_term, node_sum, value_text
from crossgcn.explanation.columns import (
    ColumnTerms,
    column_terms,
    error_over_models,
    group_columns,
)
from crossgcn.explanation.explainers import HopExplainer
from crossgcn.explanation.one_node import answer_node
from crossgcn.explanation.reading import Floats
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.models.cross_hops import CrossHops, HopPerceptron

SPACE = FeatureSpace(
    ("city=oslo", "city=lima", "city=rome", "sport=judo", "sport=golf", "age", "age rank"),
    ("city", "city", "city", "sport", "sport", "age", "age"),
)
CITY, SPORT, AGE = slice(0, 3), slice(3, 5), 5


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


def explained(model: CrossHops, graph: Data, *, raw: bool = False) -> ColumnTerms:
    classes = [f"c{label}" for label in range(model.readout.out_channels)]
    assert isinstance(graph.x, Tensor) and isinstance(graph.edge_index, Tensor)
    values = model.columns(graph.x, graph.edge_index)
    return column_terms(model, values, group_columns(model.plan, SPACE, classes), classes, raw=raw)


def margins(model: CrossHops, graph: Data) -> Floats:
    scores = model(graph.x, graph.edge_index).numpy()
    if scores.shape[1] == 1:
        return np.asarray(scores)
    if scores.shape[1] == 2:
        return np.asarray(scores[:, 1:] - scores[:, :1])
    others = (scores.sum(axis=1, keepdims=True) - scores) / (scores.shape[1] - 1)
    return np.asarray(scores - others)


def total(terms: ColumnTerms) -> Floats:
    parts = [term.contributions for term in terms.terms]
    parts += [] if terms.rest is None else [terms.rest.contributions]
    return np.asarray(terms.average + np.sum(parts, axis=0))


def importances(terms: ColumnTerms) -> dict[tuple[str, ...], float]:
    return {term.columns: float(term.importance[0]) for term in terms.terms}


Linear = dict[int, float]
Unit = tuple[float, Linear, Linear | None]


def planted(*units: Unit) -> CrossHops:
    """A model of a number: each unit is a factor times p, or times p (1 + q)."""
    model = CrossHops(7, len(units), 1, 1, order=2).double().eval()
    model.predict_number(0.0, 1.0)
    for weight in model.parameters():
        torch.nn.init.zeros_(weight).requires_grad_(False)
    gates = model.transform.aggregator.gates  # type: ignore[union-attr]
    for unit, (factor, first, second) in enumerate(units):
        for position, each in enumerate((first, second or {})):
            for column, value in each.items():
                model.transform.weight[position, unit, column] = value
        model.readout.weight[0, unit] = factor
        gates[unit] = 1.0 if second else 0.0  # type: ignore[operator]
    return model


def product_of(
    factor: float, first: Linear, second: Linear
) -> list[tuple[float, Linear, Linear | None]]:
    return [(factor, first, second), (-factor, first, None)]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("num_classes", "order", "bags"), [(2, 1, 2), (2, 2, 3), (3, 2, 1), (1, 2, 2), (1, 3, 2)]
)
def test_terms_add_up_to_the_score(num_classes: int, order: int, bags: int, raw: bool) -> None:
    graph, model = make_graph(), make_model(num_classes, order=order, bags=bags)
    terms = explained(model, graph, raw=raw)
    scores = margins(model, graph)
    np.testing.assert_allclose(terms.scores, scores, atol=1e-9 * np.abs(scores).max())
    np.testing.assert_allclose(total(terms), scores, atol=1e-9 * np.abs(scores).max())
    assert max(len(term.columns) for term in terms.terms) == order


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("num_classes", "bags"), [(1, 2), (2, 1), (3, 3)])
def test_an_importance_is_the_deviation_of_the_contributions(
    num_classes: int, bags: int, raw: bool
) -> None:
    terms = explained(make_model(num_classes, bags=bags), make_graph(), raw=raw)
    for term in terms.terms:
        np.testing.assert_allclose(term.importance, term.contributions.std(axis=0), atol=1e-9)
    assert terms.unit == {1: "c0", 2: "log-odds", 3: "margin"}[num_classes]
    assert terms.outputs == (("c1",) if num_classes == 2 else ("c0", "c1", "c2")[:num_classes])


def test_purified_terms_are_centered_and_orthogonal() -> None:
    terms = explained(make_model(), make_graph())
    np.testing.assert_allclose(terms.average, terms.scores.mean(axis=0))
    for term in terms.terms:
        assert abs(term.contributions.mean()) < 1e-9
        if len(term.groups) == 2:
            for group in term.groups:
                features = terms.inputs[:, terms.groups[group].columns]
                along = (features - features.mean(axis=0)).T @ term.contributions
                assert np.abs(along).max() < 1e-6


def test_the_form_of_the_weights_does_not_matter() -> None:
    graph = make_graph()
    cells = product_of(1.5, {0: 1.0, 1: -2.0}, {3: 1.0, AGE: 0.3})
    number = {AGE: 2.0}
    plain = planted(*cells, (1.0, number, None))
    # The flags of city add up to 1, so this is the same function: 0.5 age and 1.5 age × city.
    city = {0: 1.0, 1: 1.0, 2: 1.0}
    other = planted(*cells, (0.25, number, None), *product_of(0.75, city, number))
    np.testing.assert_allclose(margins(plain, graph), margins(other, graph), atol=1e-9)
    first, second = explained(plain, graph), explained(other, graph)
    for one, two in zip(first.terms, second.terms, strict=True):
        np.testing.assert_allclose(one.contributions, two.contributions, atol=1e-8)
    raw = importances(explained(plain, graph, raw=True))
    assert abs(raw["age",] - importances(explained(other, graph, raw=True))["age",]) > 0.5


def test_a_pure_product_has_no_main_effects() -> None:
    graph = make_graph(2000)
    neighbours_age = 7 + AGE
    terms = explained(planted(*product_of(1.0, {AGE: 1.0}, {neighbours_age: 1.0})), graph)
    found = importances(terms)
    strongest = terms.strongest()[0]
    assert strongest.columns == ("age", "neighbours: age")
    assert found.pop(strongest.columns) > 0.3
    assert max(found.values()) < 0.05
    assert terms.whose(strongest) == "both"
    product = terms.inputs[:, AGE] * terms.inputs[:, neighbours_age]
    assert describe_term(terms, strongest)["slope"] == pytest.approx(float(product.std()), rel=0.1)


def test_a_pair_of_flags_excludes_what_its_columns_do_alone() -> None:
    """One cell is raised. Its row, its column and the mean take what belongs to them."""
    graph = make_graph()
    terms = explained(planted(*product_of(1.0, {1: 1.0}, {3: 1.0})), graph)
    pair = next(term for term in terms.terms if term.columns == ("city", "sport"))
    cells = describe_term(terms, pair)["cells"]
    assert cells[0]["names"] == ["city=lima", "sport=judo"]
    assert cells[0]["contribution"] > 0
    by_column: dict[str, float] = {}
    for cell in describe_term(terms, pair, top=6)["cells"]:
        for name in cell["names"]:
            by_column[name] = by_column.get(name, 0.0) + cell["contribution"] * cell["nodes"]
    assert len(by_column) == 5
    assert max(map(abs, by_column.values())) < 1e-8


def test_groups_are_columns_of_the_table() -> None:
    model = CrossHops(7, 4, 1, 3, label_features=True, hops=1)
    groups = group_columns(model.plan, SPACE, ["a", "b", "c"], "club")
    assert [group.name for group in groups] == [
        *("city", "sport", "age", "neighbours: city", "neighbours: sport", "neighbours: age"),
        *("number of neighbours", "neighbours: club", "neighbours: known labels"),
    ]
    assert groups[2].features == ("age", "age rank")
    assert groups[5].is_number and not groups[5].own
    assert groups[7].features == tuple(f"neighbours: club={name}" for name in "abc")
    assert sorted(np.concatenate([group.columns for group in groups])) == list(
        range(model.plan.num_columns)
    )


def test_numbers_are_shown_in_their_unit_and_the_largest_as_such() -> None:
    model = CrossHops(7, 4, 1, 2)
    numbers = {"age": (40.0, 10.0)}
    age = group_columns(model.plan, SPACE, ["a", "b"], numbers=numbers)[2]
    for value, text in ((-0.55, "34.5"), (MAX_DEVIATIONS, "≥ "), (-MAX_DEVIATIONS, "≤ ")):
        assert value_text(age, np.array([value, 0.2])).startswith(text)
    assert value_text(age, np.array([-4.0 + 1e-9, 0.2])) == "0"


@pytest.mark.parametrize(("classes", "unit"), [(["no", "yes"], "% yes"), (["sales"], "")])
def test_the_neighbourhood_of_a_node_is_shown_in_its_unit(classes: list[str], unit: str) -> None:
    model, graph = CrossHops(7, 4, 1, len(classes), hops=1, label_features=True), make_graph()
    model.center += 0.25
    model.deviation *= 0.5
    if not unit:
        model.predict_number(100.0, 20.0)
    y = torch.arange(graph.num_nodes) % 2 if unit else torch.arange(graph.num_nodes) / 100
    labels = neighbour_labels(y, torch.arange(len(y)), len(classes))
    numbers = {"age": (40.0, 10.0)}
    explainer = HopExplainer(model, graph, SPACE, classes, labels=labels, numbers=numbers)
    held = answer_node(explainer, 0).total.held
    row, groups = explainer.own_row(0)[0], {group.name: group for group in explainer.groups}
    age, label = "neighbours: age", "neighbours: label" if unit else "neighbours: sales"
    mean, share = (0.25 + 0.5 * row[groups[name].columns[0]] for name in (age, label))
    assert float(held[age]) == pytest.approx(40 + 10 * mean, rel=1e-3)
    assert held[label] == (f"{share:.0%} yes" if unit else f"{100 + 20 * share:.4g}")
    around = graph.edge_index[:, graph.edge_index[1] == 0][0].unique()
    assert held["number of neighbours"] == str(int((around != 0).sum()))


def test_equal_bags_have_no_error_and_others_have_one() -> None:
    graph, model = make_graph(), make_model(bags=2)
    assert all(float(t.error[0]) > 0 for t in explained(model, graph).terms if t.error is not None)
    model.transform.weight[:, 4:] = model.transform.weight[:, :4]
    model.readout.weight[:, 4:] = model.readout.weight[:, :4]
    gates = model.transform.aggregator.gates  # type: ignore[union-attr]
    gates[4:] = gates[:4]  # type: ignore[index,operator]
    for term in explained(model, graph).terms:
        assert term.error is not None
        assert float(term.error[0]) < 1e-6
    single = explained(make_model(), graph)
    assert single.terms[0].error is None
    both = error_over_models([single, single])
    assert both.terms[0].error is not None and float(both.terms[0].error[0]) == 0.0


def test_a_node_adds_up_also_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = make_graph(1000), make_model(3)
    monkeypatch.setattr(columns, "CELLS", 1)
    monkeypatch.setattr(purify, "_MOST_TERMS", {2: 6, 3: 6})
    classes = ["a", "b", "c"]
    assert isinstance(graph.x, Tensor) and isinstance(graph.edge_index, Tensor)
    values = model.columns(graph.x, graph.edge_index)
    groups = group_columns(model.plan, SPACE, classes)
    terms = column_terms(model, values, groups, classes, node=777)
    assert len(terms.nodes) == 200
    assert terms.rest is not None
    assert sum(len(term.columns) == 2 for term in terms.terms) == 6
    explained_node = node_sum(terms, 777, 1)
    assert explained_node.score == pytest.approx(margins(model, graph)[777, 1])
    parts = [explained_node.sum_of(whose) for whose in ("own", "neighbourhood", "both")]
    assert explained_node.average + sum(parts) == pytest.approx(explained_node.score)
    content = explained_node.to_json(3)
    listed = sum(term["contribution"] for term in content["terms"])
    assert content["average"] + listed + content["other_terms"] == pytest.approx(content["score"])


def test_explain_lists_terms_and_one_node() -> None:
    graph, model = make_graph(), make_model()
    frame = explain(model, graph, feature_names=SPACE, classes=["no", "yes"], top=4)
    assert list(frame["class"]) == ["yes"] * 8
    assert list(frame["columns"].map(len)).count(2) == 4
    assert frame["importance"].is_monotonic_decreasing
    pairs = explain(model, graph, feature_names=SPACE, order=2, top=3)
    assert set(pairs["columns"].map(len)) == {2}
    node = explain(model, graph, 5, feature_names=SPACE, top=3)
    assert len(node) == 4
    score = node.attrs["average"] + node["contribution"].sum()
    assert score == pytest.approx(margins(model, graph)[5, 0])
    with pytest.raises(BadInput, match="there is no node 300: give a number from 0 to 299"):
        explain(model, graph, 300)


def test_a_model_that_sees_labels_needs_the_training_nodes() -> None:
    graph = make_graph()
    graph.y = (graph.x[:, 0] > 0).long()
    model = CrossHops(7, 4, 1, 2, label_features=True).double().eval()
    with pytest.raises(BadInput, match="give train_nodes"):
        explain(model, graph)
    frame = explain(model, graph, train_nodes=torch.arange(100), top=100)
    assert ("neighbours: label",) in list(frame["columns"])


def hop_explainer(num_classes: int = 3, **settings: Any) -> HopExplainer:
    """An explainer of a model that sees labels, on a graph with weights."""
    graph = make_graph(120)
    assert isinstance(graph.x, Tensor) and isinstance(graph.edge_index, Tensor)
    if settings.get("directed"):
        graph.edge_index = graph.edge_index[:, : graph.edge_index.size(1) // 2]
    graph.y = torch.arange(120) % num_classes
    graph.edge_weight = torch.rand(
        graph.edge_index.size(1), generator=torch.Generator().manual_seed(1)
    )
    torch.manual_seed(0)
    model = CrossHops(7, 4, 1, num_classes, label_features=True, **settings).double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5).requires_grad_(False)
    model.prior.copy_(graph.x.mean(dim=0))
    model.strength.fill_(0.7)
    labels = neighbour_labels(graph.y, torch.arange(60), num_classes)
    classes = [f"c{label}" for label in range(num_classes)]
    return HopExplainer(model, graph, SPACE, classes, labels=labels)


@pytest.mark.parametrize("directed", [False, True])
def test_a_neighbour_counts_as_much_as_its_edges(directed: bool) -> None:
    explainer = hop_explainer(directed=directed)
    data, model = explainer.data, explainer.model
    for node in (3, 90):
        near, effects = explainer.neighbours(node)
        assert len(near) > 2
        sources, targets = data.edge_index
        for neighbour, effect in list(zip(near.tolist(), effects, strict=True))[:4]:
            apart = (sources != node) | (targets != neighbour)
            apart &= (sources != neighbour) | (targets != node)
            full = model(data.x, data.edge_index, data.edge_weight, explainer.labels)
            less = model(
                data.x, data.edge_index[:, apart], data.edge_weight[apart], explainer.labels
            )
            change = (full - less).detach().numpy()[[node]]
            others = (change.sum() - change) / 2
            np.testing.assert_allclose(effect, (change - others)[0], atol=1e-6)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_change_of_own_columns_gives_the_answer_that_is_said(num_classes: int) -> None:
    explainer = hop_explainer(num_classes)
    inputs = explainer.terms().inputs
    found = 0
    for node in range(6):
        answer = answer_node(explainer, node)
        row = explainer.own_row(node)
        scores = explainer.model(torch.from_numpy(row))[0]
        assert answer.predicted == explainer.classes[int(scores.argmax())]
        for change in answer.changes:
            assert change.outcome != answer.predicted
            after = row.copy()
            for name, value in zip(change.columns, change.after, strict=True):
                group = next(group for group in explainer.groups if group.name == name)
                rows = inputs[:, group.columns]
                texts = [value_text(group, each) for each in rows]
                after[0, group.columns] = rows[texts.index(value)]
            scores = explainer.model(torch.from_numpy(after))[0]
            assert explainer.classes[int(scores.argmax())] == change.outcome
            found += 1
    assert found


def test_a_threshold_decides_which_answer_is_another() -> None:
    explainer = hop_explainer(2)
    score = float(explainer.terms().scores[3, 0])
    for cut, predicted in ((score - 0.01, 1), (score + 0.01, 0)):
        explainer.cut = cut
        answer = answer_node(explainer, 3)
        assert answer.predicted == explainer.classes[predicted]
        assert {change.outcome for change in answer.changes} == {explainer.classes[1 - predicted]}


def test_one_class_against_another() -> None:
    graph, model = make_graph(), make_model(3)
    terms = explain_terms(model, graph, feature_names=SPACE, contrast=("2", "0"))
    scores = model(graph.x, graph.edge_index).numpy()
    np.testing.assert_allclose(total(terms)[:, 0], scores[:, 2] - scores[:, 0], atol=1e-9)
    assert terms.outputs == ("2 rather than 0",)
    with pytest.raises(BadInput, match="class"):
        explain_terms(model, graph, contrast=("2", "x"))


def test_tables_arrays_and_figures() -> None:
    graph, model = make_graph(), make_model(bags=2)
    terms = explain_terms(model, graph, feature_names=SPACE, classes=["no", "yes"])
    frame = terms.to_frame()
    assert list(frame["term"]) == [term.name for term in terms.strongest()]
    assert frame["importance"].is_monotonic_decreasing
    assert terms.values.shape == (300, len(terms.feature_names))
    sums = terms.values.sum(axis=1) + terms.base_values
    np.testing.assert_allclose(sums, margins(model, graph)[:, 0], atol=1e-9)
    axes = terms.plot(top=5)
    assert [label.get_text() for label in axes.get_yticklabels()][::-1] == list(frame["term"][:5])
    node = node_sum(terms, 4, 0)
    steps = node.plot(top=3)
    assert len(steps.patches) == 4
    last = steps.patches[-1]
    assert isinstance(last, Rectangle)
    assert last.get_x() + last.get_width() == pytest.approx(node.score)
    plt.close("all")


def test_a_perceptron_on_the_same_columns_is_refused() -> None:
    graph = Data(
        x=torch.rand(5, 2), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.zeros(5).long()
    )
    with pytest.raises(BadInput, match="HopPerceptron is not a sum of named terms"):
        explain(HopPerceptron(2, 3, 1, 2), graph)
