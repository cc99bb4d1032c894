"""One node: what its neighbours contribute, and what would change the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_terms import SPACE, make_graph
from torch import Tensor

from crossgcn import CrossHops, explain


def explained(num_classes: int = 3, **settings: Any) -> Any:
    """The explanation of a model that sees labels, on a graph with weights."""
    graph = make_graph(120)
    assert isinstance(graph.x, Tensor) and isinstance(graph.edge_index, Tensor)
    if settings.get("directed"):
        graph.edge_index = graph.edge_index[:, : graph.edge_index.size(1) // 2]
    graph.y = torch.arange(120) % num_classes
    generator = torch.Generator().manual_seed(1)
    graph.edge_weight = torch.rand(graph.edge_index.size(1), generator=generator)
    torch.manual_seed(0)
    model = CrossHops(7, 4, 1, num_classes, label_features=True, **settings).double().eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5).requires_grad_(False)
    model.prior.copy_(graph.x.mean(dim=0))
    model.strength.fill_(0.7)
    graph.train_mask = torch.arange(120) < 60
    classes = [f"c{label}" for label in range(num_classes)]
    return explain(model, graph, feature_names=SPACE, classes=classes)


@pytest.mark.parametrize("directed", [False, True])
def test_a_neighbour_counts_as_much_as_its_edges(directed: bool) -> None:
    explainer = explained(directed=directed).explainer
    data, model = explainer.data, explainer.model
    for node in (3, 90):
        found = explainer.neighbours(node)
        assert len(found) > 2
        sources, targets = data.edge_index
        for neighbour, effect, _ in found[:4]:
            apart = (sources != node) | (targets != neighbour)
            apart &= (sources != neighbour) | (targets != node)
            full = model(data.x, data.edge_index, data.edge_weight, explainer.labels)
            edges, weight = data.edge_index[:, apart], data.edge_weight[apart]
            less = model(data.x, edges, weight, explainer.labels)
            change = (full - less).detach().numpy()[[node]]
            others = (change.sum() - change) / 2
            np.testing.assert_allclose(effect, (change - others)[0], atol=1e-6)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_change_of_own_columns_gives_the_answer_that_is_said(num_classes: int) -> None:
    whole, found = explained(num_classes), 0
    explainer = whole.explainer
    for node in range(40):
        answer, row = whole.node(node), explainer.inputs(np.array([node]))
        scores = explainer.model(torch.from_numpy(row))[0]
        assert answer.predicted == explainer.names.classes[int(scores.argmax())]
        for change in answer.changes:
            assert change["outcome"] != answer.predicted
            after = row.copy()
            column = next(each for each in whole.columns if each.name == change["column"])
            rows = whole.inputs[:, column.places]
            texts = [column.value_text(each) for each in rows]
            after[0, column.places] = rows[texts.index(change["after"])]
            scores = explainer.model(torch.from_numpy(after))[0]
            assert explainer.names.classes[int(scores.argmax())] == change["outcome"]
            found += 1
    assert found
