from __future__ import annotations

import torch
from torch_geometric.data import Data

from crossgcn.experiments.predict import class_scores
from crossgcn.models.catalogue import build_model


def test_scores_are_the_models_to_the_precision_it_has(small_graph: Data) -> None:
    torch.manual_seed(0)
    model = build_model("cross-gcn", 24, 3, order=(3, 1), order_weights="fixed", bias=True).eval()
    with torch.no_grad():
        expected = model(small_graph.x, small_graph.edge_index)
    scores, spread = class_scores(model, small_graph)
    assert not spread.any()
    assert scores.dtype == torch.float64
    assert torch.allclose(scores.float(), expected, atol=1e-5)
    assert next(model.parameters()).dtype == torch.float32


def test_some_nodes_are_scored_as_among_all(small_graph: Data) -> None:
    torch.manual_seed(0)
    model = build_model("gin", 24, 3)
    nodes = torch.tensor([70, 3, 4])
    (some, _), (everyone, _) = (
        class_scores(model, small_graph, nodes),
        class_scores(model, small_graph),
    )
    assert torch.allclose(some, everyone[nodes], atol=1e-12)


def test_edge_weights_count(small_graph: Data) -> None:
    torch.manual_seed(0)
    model = build_model("gcn", 24, 3)
    weighted = small_graph.clone()
    weighted.edge_weight = torch.rand(small_graph.edge_index.size(1)) + 0.1
    with torch.no_grad():
        expected = model.eval()(weighted.x, weighted.edge_index, weighted.edge_weight)
    assert torch.allclose(class_scores(model, weighted)[0].float(), expected, atol=1e-5)
