"""``explain`` reads the function that the model computes, for every layer option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCN, explain
from crossgcn.explanation.reading import read_model
from crossgcn.graph import PreparedGraph

EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 3, 2], [1, 0, 2, 1, 4, 2, 3, 3, 4]])  # node 5 is alone
WEIGHTS = torch.linspace(0.4, 1.8, EDGES.size(1))
EDGE_OPTIONS: list[dict[str, Any]] = [{}, {"add_self_loops": False}, {"normalize": False}]


def make(**options: Any) -> tuple[CrossGCN, Data]:
    torch.manual_seed(0)
    model = CrossGCN(5, 4, 2, 3, dropout=0.0, order_weights="fixed", **options).eval()
    return model, Data(x=torch.randn(6, 5), edge_index=EDGES, edge_weight=WEIGHTS)


@pytest.mark.parametrize("edges", EDGE_OPTIONS, ids=str)
@pytest.mark.parametrize("aggregate_first", [False, True])
@pytest.mark.parametrize("order", [1, 2, [3, 1]])
@pytest.mark.parametrize("aggr", ["gcn", "sum"])
def test_scores_are_the_models(
    aggr: str, order: Any, aggregate_first: bool, edges: dict[str, Any]
) -> None:
    model, data = make(aggr=aggr, order=order, aggregate_first=aggregate_first, **edges)
    with torch.no_grad():
        expected = model(data.x, data.edge_index, data.edge_weight).numpy()
    for graph in (data, PreparedGraph(data.x, data.edge_index, data.edge_weight)):
        np.testing.assert_allclose(read_model(model, graph).logits, expected, atol=1e-5)
        for node in (3, 5):
            table = explain(model, graph, node, top=10_000)
            assert table["contribution"].sum() == pytest.approx(expected[node].max(), abs=1e-5)


def test_the_sum_over_raw_edges_is_read_too() -> None:
    model, data = make(aggr="raw-sum", order=2)
    with torch.no_grad():
        expected = model(data.x, data.edge_index, data.edge_weight).numpy()
    np.testing.assert_allclose(read_model(model, data).logits, expected, atol=1e-4)


@pytest.mark.parametrize("aggr", ["mean", "max", "gat", "raw-max"])
def test_other_aggregations_are_refused(aggr: str) -> None:
    model, data = make(aggr=aggr)
    with pytest.raises(BadInput, match=f"layer 1 joins neighbours by '{aggr}'"):
        explain(model, data)
