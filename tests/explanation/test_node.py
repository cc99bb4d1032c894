"""One node: what its neighbours contribute, and what would change the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_models import draw_graph, draw_model
from test_layered import SPACE as LAYERED_SPACE
from test_layered import explainer_of
from test_terms import SPACE, make_graph
from torch import Tensor

from crossgcn import CrossHops
from crossgcn.explanation.api import make_explainer
from crossgcn.explanation.columns import Names
from crossgcn.graph.neighbourhood import neighbour_labels


def hop_explainer(num_classes: int = 3, **settings: Any) -> Any:
    """An explainer of a model that sees labels, on a graph with weights."""
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
    labels = neighbour_labels(graph.y, torch.arange(60), num_classes)
    classes = tuple(f"c{label}" for label in range(num_classes))
    return make_explainer(model, graph, Names(SPACE, classes, num_rows=120), labels)


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
            edges, weight = data.edge_index[:, apart], data.edge_weight[apart]
            less = model(data.x, edges, weight, explainer.labels)
            change = (full - less).detach().numpy()[[node]]
            others = (change.sum() - change) / 2
            np.testing.assert_allclose(effect, (change - others)[0], atol=1e-6)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_change_of_own_columns_gives_the_answer_that_is_said(num_classes: int) -> None:
    explainer = hop_explainer(num_classes)
    whole, found = explainer.explain(), 0
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


@pytest.mark.parametrize("order", [(2,), (2, 1), (2, 2)])
def test_a_change_in_a_model_of_layers_gives_the_answer_that_is_said(
    order: tuple[int, ...],
) -> None:
    graph, model = draw_graph(num_nodes=60), draw_model(order, len(order))
    whole, changed = explainer_of(model, graph, ("no", "maybe", "yes")).explain(), 0
    for node in range(20):
        answer = whole.node(node)
        for change in answer.changes:
            after_graph = graph.clone()
            row = after_graph.x[node]
            name, after = change["column"], change["after"]
            places = [i for i, column in enumerate(LAYERED_SPACE.fields) if column == name]
            for place in places:
                value: Any = float(f"{name}={after}" == LAYERED_SPACE.names[place])
                if len(places) == 1:
                    value = {"yes": 1.0, "no": 0.0}.get(after)
                    value = float(after) if value is None else value
                row[place] = value
            with torch.no_grad():
                scores = model(after_graph.x, graph.edge_index)[node]
            predicted = whole.explainer.names.classes[int(scores.argmax())]
            assert predicted == change["outcome"] != answer.predicted
            changed += 1
    assert changed > 1
