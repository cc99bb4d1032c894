from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import draw_graph, draw_model
from torch_geometric.explain import Explainer

from crossgcn import MLP
from crossgcn.errors import BadInput
from crossgcn.explanation import CrossExplainer, explain_node
from crossgcn.models.node_classifier import NodeClassifier

SETTINGS = {
    "explanation_type": "model",
    "node_mask_type": "attributes",
    "edge_mask_type": "object",
    "model_config": {
        "mode": "multiclass_classification",
        "task_level": "node",
        "return_type": "raw",
    },
}


@pytest.mark.parametrize("order", [(2,), (3, 1), (2, 2)])
@pytest.mark.parametrize("aggregate_first", [False, True])
def test_masks_sum_to_the_named_part(order: tuple[int, ...], aggregate_first: bool) -> None:
    found = explain_node(
        draw_model(order, len(order), aggregate_first=aggregate_first), draw_graph(), 3
    )
    explanation = found.to_pyg()
    assert explanation.validate()
    named = found.logits[found.target] - found.bias - found.left_out
    assert float(explanation.node_mask.sum()) == pytest.approx(named, rel=1e-5)
    assert int(explanation.prediction[3].argmax()) == int(explanation.target)


def test_a_cross_counts_equally_for_the_features_it_multiplies() -> None:
    found = explain_node(draw_model(3), draw_graph(), 3)
    mask = np.zeros((30, 10))
    for source, features, contribution in zip(
        found.frame["source"], found.frame["features"], found.frame["contribution"], strict=True
    ):
        for feature in set(features):
            mask[source, feature] += contribution / len(set(features))
    np.testing.assert_allclose(found.to_pyg().node_mask, mask, atol=1e-6)
    by_feature = dict(
        zip(found.by_feature["feature"], found.by_feature["contribution"], strict=True)
    )
    assert by_feature == pytest.approx(
        {feature: amount for feature, amount in enumerate(mask.sum(axis=0)) if amount}
    )


def test_an_edge_of_one_layer_brings_what_its_source_contributes() -> None:
    graph = draw_graph()
    found = explain_node(draw_model(2), graph, 3)
    explanation = found.to_pyg()
    brought = dict(zip(found.by_node["source"], found.by_node["contribution"], strict=True))
    own_loop = bool(((graph.edge_index[0] == 3) & (graph.edge_index[1] == 3)).any())
    assert not own_loop
    for source, target, amount in zip(*graph.edge_index, explanation.edge_mask, strict=True):
        expected = brought[int(source)] if int(target) == 3 else 0.0
        assert float(amount) == pytest.approx(expected, abs=1e-6)


def test_summed_features_go_back_to_the_nodes_that_brought_them() -> None:
    graph = draw_graph()
    found = explain_node(draw_model(2, aggregate_first=True), graph, 3)
    explanation = found.to_pyg()
    per_node = explanation.node_mask.sum(dim=1)
    for source, target, amount in zip(*graph.edge_index, explanation.edge_mask, strict=True):
        expected = float(per_node[source]) if int(target) == 3 else 0.0
        assert float(amount) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("index", "nodes"),
    [
        (5, [5]),
        (torch.tensor([2, 5]), [2, 5]),
        (-1, [29]),
        (torch.tensor([-28, 5]), [2, 5]),
        (torch.arange(30) % 10 == 4, [4, 14, 24]),
    ],
)
def test_pygs_explainer_takes_it_as_an_algorithm(
    index: int | torch.Tensor, nodes: list[int]
) -> None:
    graph, model = draw_graph(), draw_model((2, 1), 2)
    explain = Explainer(model, CrossExplainer(), **SETTINGS)
    explanation = explain(graph.x, graph.edge_index, index=index)
    parts = [explain_node(model, graph, node).to_pyg() for node in nodes]
    for name in ("node_mask", "edge_mask"):
        torch.testing.assert_close(explanation[name], sum(part[name] for part in parts))
    assert explanation.validate()


def test_a_model_that_sees_no_graph_has_no_flow_along_edges() -> None:
    graph, model = draw_graph(), MLP(10, 4, 2, 3).eval()
    assert isinstance(model, NodeClassifier)
    explanation = explain_node(model, graph, 3).to_pyg()
    assert not explanation.edge_mask.any()
    assert not explanation.node_mask[torch.arange(30) != 3].any()


def test_settings_and_inputs_it_cannot_serve_are_refused() -> None:
    graph, model = draw_graph(), draw_model(2)
    with pytest.raises(ValueError, match="does not support the given explanation settings"):
        Explainer(model, CrossExplainer(), **SETTINGS | {"node_mask_type": "object"})
    explain = Explainer(model, CrossExplainer(), **SETTINGS | {"edge_mask_type": None})
    assert "edge_mask" not in explain(graph.x, graph.edge_index, index=0)
    target = torch.zeros(30, dtype=torch.int64)
    settings = {"target": target, "index": torch.tensor([3, 30])}
    with pytest.raises(BadInput, match="index holds node 30, which does not exist"):
        explain.algorithm(model, graph.x, graph.edge_index, **settings)
    settings["index"] = torch.ones(29, dtype=torch.bool)
    with pytest.raises(BadInput, match=r"mask of shape .29., but the graph has 30 nodes"):
        explain.algorithm(model, graph.x, graph.edge_index, **settings)
    with pytest.raises(BadInput, match="was given batch, which is no input"):
        explain.algorithm(model, graph.x, graph.edge_index, target=torch.zeros(30), batch=None)
