from __future__ import annotations

import tracemalloc
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_models import draw_graph, draw_model, enumerate_terms, live
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN as PyGsGCN

from crossgcn import CrossGCNConv, PreparedGraph, build_model, load_dataset
from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation import NodeExplainer, explain_node
from crossgcn.explanation.reading import read_model

PRESETS = ("cross-gcn", "cross-gcn-release", "cross-gcn-release-fix", "cross-gcn-paper",
           "cross-gcn-paper-fix")  # fmt: skip


@pytest.fixture(scope="module", params=["citeseer", "citeseer-cross"])
def data(request: pytest.FixtureRequest) -> Data:
    return load_dataset(request.param)


def score(model: nn.Module, data: Data, node: int, target: int) -> float:
    with torch.no_grad():
        return float(model(data.x, data.edge_index)[node, target])


@pytest.mark.parametrize(
    ("preset", "order"),
    [*((preset, 2) for preset in PRESETS), *((PRESETS[0], k) for k in (1, 3, 4))],
)
def test_contributions_add_up_to_the_models_own_score(data: Data, preset: str, order: int) -> None:
    torch.manual_seed(order)
    model = live(build_model(preset, data.x.size(1), 6, num_layers=1, order=order))
    if data.x.layout == torch.sparse_csr and order == 4:
        nodes = [int(data.x.crow_indices().diff().argmin())]
    else:
        nodes = [0, 77]
    with torch.no_grad():
        scores = model(data.x, data.edge_index)
    explainer = NodeExplainer(model, data)
    for node in nodes:
        found = explainer.explain(node)
        total = found.bias + found.expansion.list_terms().contribution.sum() + found.left_out
        assert found.target == int(scores[node].argmax())
        assert total == pytest.approx(float(scores[node, found.target]), abs=1e-5)
        assert found.completeness == 1.0


@pytest.mark.parametrize("order", [(2, 1), (3, 1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("aggregate_first", [False, True])
def test_deeper_models_add_up_with_what_is_left_out(
    order: tuple[int, ...], aggregate_first: bool
) -> None:
    graph = draw_graph()
    model = draw_model(order, len(order), aggregate_first=aggregate_first)
    for node in range(5):
        found = explain_node(model, graph, node, target=1)
        total = found.bias + found.frame["contribution"].sum() + found.left_out
        assert total == pytest.approx(score(model, graph, node, 1), rel=1e-5, abs=1e-5)
        if max(order[1:]) == 1:
            assert found.left_out == 0.0
            assert found.completeness == 1.0
        else:
            assert found.left_out != 0.0
            named = abs(found.logits[1] - found.left_out)
            assert found.completeness == pytest.approx(named / (named + abs(found.left_out)))


def test_every_term_of_a_deep_model_is_the_sum_over_its_paths() -> None:
    graph = draw_graph()
    reading = read_model(draw_model((2, 1), 2), graph)
    first, second = reading.layers
    adjacency = reading.adjacencies[0].toarray()
    weights = enumerate_terms(first, reading.binary)
    x = reading.inputs.toarray()
    node, target = 4, 2
    expected: dict[tuple[int, tuple[int, ...]], float] = defaultdict(float)
    for middle in np.flatnonzero(adjacency[node]).tolist():
        for source in np.flatnonzero(adjacency[middle]).tolist():
            for unit in np.flatnonzero(reading.outputs[0][middle] > 0):
                path = adjacency[node, middle] * adjacency[middle, source]
                for name, weight in weights.items():
                    expected[source, name] += (
                        path * second.first_order[target, unit] * weight[unit]
                    ) * np.prod(x[source, list(name)])
    found = explain_node(draw_model((2, 1), 2), graph, node, target=target)
    for row in found.frame.to_dict("records"):
        contribution = expected.pop((row["source"], row["features"]))
        assert row["contribution"] == pytest.approx(contribution, abs=1e-12)
        assert row["contribution"] == pytest.approx(row["weight"] * row["value"])
    assert max(map(abs, expected.values()), default=0.0) < 1e-12


def test_views_of_one_explanation_agree() -> None:
    found = explain_node(draw_model((3, 1), 2), draw_graph(), 3)
    total = found.frame["contribution"].sum()
    for view in (found.by_cross, found.by_feature, found.by_node):
        assert view["contribution"].sum() == pytest.approx(total)
        assert view["contribution"].abs().is_monotonic_decreasing
    assert not found.frame.duplicated(["source", "features"]).any()
    assert found.frame["hops"].max() == 2
    assert (found.frame["source"] == 3).equals(found.frame["hops"] == 0)


def test_the_terms_of_some_nodes_are_those_rows_of_the_whole_table() -> None:
    found = explain_node(draw_model((3, 1), 2), draw_graph(), 3)
    sources = found.by_node["source"].head(3).tolist()
    whole = found.frame[found.frame["source"].isin(sources)].reset_index(drop=True)
    some = found.frame_of(sources)
    keys = ["source", "order", "features"]
    whole, some = (
        each.sort_values(keys, ignore_index=True, key=lambda column: column.astype(str))
        for each in (whole, some)
    )
    pd.testing.assert_frame_equal(some, whole)
    assert set(some["source"]) == set(sources)
    assert found.frame_of([]).empty


def test_squares_of_binary_features_have_no_name_of_their_own_and_others_do() -> None:
    names = ["a=1", "a=2", "a=3", "b=1", "b=2", "b=3", "red", "tall", "age", "income"]
    found = explain_node(draw_model(2), draw_graph(), 3, space=names)
    crosses = set(found.by_cross["cross"].str.removeprefix("neighbours: "))
    assert {"age²", "income²", "age & income"} <= crosses
    assert not any(name.endswith("²") for name in crosses - {"age²", "income²"})
    assert not any("a=1" in name and "a=2" in name for name in crosses)


def test_neighbourhoods_are_the_sources_where_features_are_summed_first() -> None:
    found = explain_node(draw_model(2, aggregate_first=True), draw_graph(), 3)
    assert found.reading.of_neighbourhoods
    assert set(found.frame["source"]) == {3}


def test_a_prepared_graph_is_explained_like_its_data(small_graph: Data) -> None:
    torch.manual_seed(0)
    model = live(build_model("cross-gcn", 24, 3, order=2))
    prepared = PreparedGraph(small_graph.x, small_graph.edge_index)
    found = [explain_node(model, each, 7).by_cross for each in (small_graph, prepared)]
    assert found[0].equals(found[1])


@pytest.mark.parametrize("preset", ["gcn", "mlp"])
def test_models_without_crosses_are_sums_of_features(small_graph: Data, preset: str) -> None:
    torch.manual_seed(0)
    model = live(build_model(preset, 24, 3))
    found = explain_node(model, small_graph, 5)
    assert set(found.by_cross["order"]) == {1}
    total = found.bias + found.by_cross["contribution"].sum()
    assert total == pytest.approx(score(model, small_graph, 5, found.target), abs=1e-5)


def test_waterfalls_are_exact_and_list_the_largest_terms() -> None:
    explainer = NodeExplainer(draw_model((3, 2), 2), draw_graph())
    table = explainer.top_crosses([2, 9], num=4)
    for node, rows in table.groupby("node"):
        assert rows["contribution"].sum() == pytest.approx(rows["logit"].iloc[0])
        whole = explainer.explain(int(str(node))).by_cross
        terms = rows[rows["kind"] == "term"]
        assert terms["features"].tolist() == whole["features"].head(4).tolist()
        assert terms["contribution"].tolist() == pytest.approx(
            whole["contribution"].head(4).tolist()
        )
        assert set(rows["kind"]) == {"bias", "term", "rest", "left out"}


def test_crosses_of_neighbours_are_not_printed_as_those_of_the_node() -> None:
    found = explain_node(draw_model((2, 1), 2), draw_graph(), 3)
    own = found.frame[found.frame["source"] == 3].groupby("features")["contribution"].sum()
    listed = found.by_cross[found.by_cross["whose"] == "own"]
    assert len(listed) == len(own)
    for features, amount in zip(listed["features"], listed["contribution"], strict=True):
        assert amount == pytest.approx(own[features])
    others = found.by_cross[found.by_cross["whose"] == "neighbourhood"]
    assert others["cross"].str.startswith("neighbours: ").all() and len(others)


def test_crosses_can_be_listed_without_single_features() -> None:
    explainer = NodeExplainer(draw_model(2), draw_graph())
    table = explainer.top_crosses([2], num=5, targets=[1], min_order=2)
    assert set(table.loc[table["kind"] == "term", "order"]) == {2}
    assert table["contribution"].sum() == pytest.approx(explainer.explain(2, 1).logits[1])


def test_a_node_without_features_is_explained_by_nothing() -> None:
    graph = draw_graph()
    graph.x[3], graph.edge_index = 0.0, torch.zeros(2, 0, dtype=torch.int64)
    found = explain_node(draw_model(2, bias=False), graph, 3)
    assert found.frame.empty
    assert found.by_feature.empty
    assert NodeExplainer(draw_model(2, bias=False), graph).top_crosses([3]).empty


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: build_model("gin", 10, 3),
            "by a MLPTransform.*transform='cross'",
        ),
        (lambda: draw_model(2, order_weights="lstm"), "layer 1 reads its orders with an LSTM"),
        (lambda: draw_model(2, aggr="max"), "layer 1 joins neighbours by 'max'"),
        (lambda: nn.Linear(10, 3), "layer 1 is a Linear of torch"),
        (lambda: PyGsGCN(10, 4, 1, 3), "is a GCN of torch_geometric.*explain.* crossgcn's GCN"),
        (lambda: build_model("gcn", 9, 3), "10 features per node, but the model takes 9"),
        (lambda: CrossGCNConv(-1, 3), "has seen no data yet"),
    ],
)
def test_models_without_an_exact_explanation_are_refused(model: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        explain_node(model(), draw_graph(), 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"node": 30}, "node 30 does not exist; the graph has nodes 0 to 29"),
        ({"node": -1}, "node -1 does not exist"),
        ({"node": 1.5}, "node is 1.5; give a whole number"),
        ({"node": 0, "target": "a"}, "target is 'a'; give a whole number"),
        ({"node": 0, "target": 3}, "class 3 does not exist; there are 0 to 2"),
        ({"node": 0, "space": FeatureSpace.unnamed(9)}, "9 feature names were given, but"),
    ],
)
def test_bad_arguments_are_refused_with_a_remedy(settings: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        explain_node(draw_model(2), draw_graph(), **settings)


def test_a_value_that_is_not_finite_names_its_node() -> None:
    graph = draw_graph()
    graph.x[7, 2] = float("nan")
    with pytest.raises(BadInput, match="node 7 has a feature that is not finite"):
        explain_node(draw_model(2), graph, 0)


def test_too_many_products_of_one_node_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crossgcn.explanation.expansion.MAX_CELLS", 10)
    with pytest.raises(BadInput, match="products of order 2 are too many to list"):
        _ = explain_node(draw_model(2), draw_graph(), 0).frame


@pytest.mark.parametrize(
    ("limit", "view", "message"),
    [
        ("expansion.MAX_ROWS", "frame", "too many for one table .at most 10.; use by_cross"),
        ("node.MAX_ROWS", "by_cross", "too many for one table .*top_crosses"),
        ("expansion.MAX_WORK", "by_cross", "products of order 2 .* lower order or with fewer"),
    ],
)
def test_tables_that_are_too_large_are_refused_with_an_alternative(
    monkeypatch: pytest.MonkeyPatch, limit: str, view: str, message: str
) -> None:
    monkeypatch.setattr(f"crossgcn.explanation.{limit}", 10)
    with pytest.raises(BadInput, match=message):
        getattr(explain_node(draw_model(2), draw_graph(), 0), view)


def test_more_different_products_than_can_be_summed_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crossgcn.explanation.expansion.MAX_SUMS", 5)
    with pytest.raises(BadInput, match=r"more than 5 different products .* model of lower order"):
        NodeExplainer(draw_model(2), draw_graph()).top_crosses([0])


@pytest.mark.parametrize("order", [2, 3])
def test_a_score_without_an_active_unit_is_its_bias_alone(order: int) -> None:
    graph, model = draw_graph(), draw_model((order, 1), 2)
    with torch.no_grad():
        model.layers[0].get_parameter("bias").fill_(-1e6)
    found = explain_node(model, graph, 3, target=1)
    for view in (found.frame, found.by_cross, found.by_feature):
        assert view.empty
    assert not found.by_node["contribution"].any()
    assert not found.to_pyg().node_mask.any()
    assert found.bias == pytest.approx(score(model, graph, 3, 1))
    table = NodeExplainer(model, graph).top_crosses([3], targets=[1])
    assert table["kind"].tolist() == ["bias"]


@pytest.mark.parametrize("order", [2, 3])
def test_a_large_neighbourhood_costs_little_memory(order: int) -> None:
    num_nodes, num_features = 2001, 20
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, num_features, generator=generator)
    leaves = torch.arange(1, num_nodes)
    edge_index = torch.stack([leaves, torch.zeros_like(leaves)])
    graph = Data(x=x, edge_index=edge_index)
    model = live(build_model("cross-gcn", num_features, 3, num_layers=2, order=(order, 1)))
    tracemalloc.start()
    found = explain_node(model, graph, 0, target=1)
    total = found.bias + found.by_cross["contribution"].sum()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == pytest.approx(score(model, graph, 0, 1), rel=1e-4)
    assert peak < 20e6, peak
    assert "frame" not in vars(found)
    assert found.by_node["contribution"].sum() == pytest.approx(total - found.bias)


def test_sparse_features_in_coordinates_are_read_like_dense_ones() -> None:
    graph, model = draw_graph(), draw_model(2)
    dense = explain_node(model, graph, 3).by_cross
    half = (graph.x / 2).to_sparse_coo()
    twice = torch.sparse_coo_tensor(
        torch.cat([half.indices()] * 2, dim=1), torch.cat([half.values()] * 2), graph.x.shape
    )
    with_repeats = Data(x=twice, edge_index=graph.edge_index)
    assert explain_node(model, with_repeats, 3).by_cross.equals(dense)
    blocks = Data(x=graph.x.to_sparse_bsr((2, 2)), edge_index=graph.edge_index)
    with pytest.raises(BadInput, match=r"layout torch.sparse_bsr; give x as a tensor"):
        explain_node(model, blocks, 3)
