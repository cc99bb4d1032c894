from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import draw_graph, draw_model, enumerate_terms

from crossgcn.errors import BadInput
from crossgcn.explanation import accuracy_without, strongest_crosses
from crossgcn.explanation.reading import read_model


@pytest.mark.parametrize("order", [(2,), (3, 1), (2, 3)])
@pytest.mark.parametrize("aggregate_first", [False, True])
def test_without_a_cross_the_model_is_the_polynomial_less_that_term(
    order: tuple[int, ...], aggregate_first: bool
) -> None:
    graph = draw_graph(num_nodes=120)
    model = draw_model(order, len(order), aggregate_first=aggregate_first, bias=False)
    with torch.no_grad():
        model.layers[0].get_parameter("transform.weight").mul_(4.0)
    reading = read_model(model, graph)
    x, adjacency = reading.inputs.toarray(), reading.adjacencies[0].toarray()
    terms = enumerate_terms(reading.layers[0], reading.binary)
    y = torch.from_numpy(np.random.default_rng(0).integers(3, size=120))
    nodes = torch.arange(0, 120, 2)
    crosses = [name for name in terms if len(set(name)) > 1][::5]
    drops = accuracy_without(model, graph, y, nodes, crosses)
    for cross, drop in zip(crosses, drops, strict=True):
        first = sum(
            x[:, list(name)].prod(axis=1)[:, None] * weight
            for name, weight in terms.items()
            if name != cross
        )
        if not aggregate_first:
            first = adjacency @ first
        hidden = torch.from_numpy(first)
        if len(order) == 2:
            last = model.double().layers[1]
            with torch.no_grad():
                hidden = last(hidden.relu(), graph.edge_index)
            model.float()
        accuracy = float((hidden.argmax(dim=1) == y)[nodes].double().mean())
        whole = float((reading.logits.argmax(axis=1) == y.numpy())[nodes].mean())
        assert drop == pytest.approx(whole - accuracy, abs=1e-9)
    assert np.any(drops != 0)


def test_a_cross_is_found_under_any_order_of_its_features_and_folds() -> None:
    graph, model = draw_graph(num_nodes=120), draw_model(3)
    y = torch.from_numpy(read_model(model, graph).logits.argmax(axis=1))
    drops = accuracy_without(model, graph, y, torch.arange(120), [(6, 7), (7, 6), (6, 7, 6)])
    assert len(set(drops.tolist())) == 1
    found = strongest_crosses(model, graph, top=3)
    assert (
        len(accuracy_without(model, graph, y, torch.arange(120), found["features"].tolist())) == 9
    )


def test_bad_arguments_are_refused_with_a_remedy() -> None:
    graph, model = draw_graph(), draw_model(2)
    y, nodes = torch.zeros(30, dtype=torch.int64), torch.arange(3)
    with pytest.raises(BadInput, match=r"the cross \(3, 10\) names a feature that does not exist"):
        accuracy_without(model, graph, y, nodes, [(3, 10)])
    with pytest.raises(BadInput, match="y has 29 entries, but the graph has 30 nodes"):
        accuracy_without(model, graph, y[1:], nodes, [(0, 3)])
    with pytest.raises(BadInput, match="at least one node, each from 0 to 29"):
        accuracy_without(model, graph, y, nodes + 28, [(0, 3)])


def test_nodes_may_come_as_a_mask() -> None:
    graph, model = draw_graph(num_nodes=120), draw_model(2)
    y = torch.from_numpy(np.random.default_rng(0).integers(3, size=120))
    mask = torch.arange(120) % 3 == 2
    crosses = [(6, 7), (8, 9), (0, 6)]
    by_mask = accuracy_without(model, graph, y, mask, crosses)
    by_number = accuracy_without(model, graph, y, mask.nonzero().flatten(), crosses)
    np.testing.assert_array_equal(by_mask, by_number)
    with pytest.raises(BadInput, match=r"mask of shape \[119\], but the graph has 120 nodes"):
        accuracy_without(model, graph, y, mask[1:], crosses)
