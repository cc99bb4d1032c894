from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from crossgcn import CrossGCNConv, load_dataset
from crossgcn.graph import edges_of_kind, normalise_bipartite


@pytest.mark.parametrize("weights", [None, torch.tensor([0.5, 0.5, 2.0, 2.0])])
def test_is_the_symmetric_normalisation_of_the_paper(weights: torch.Tensor | None) -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # node 3 is isolated
    dense = np.eye(4)
    for position, (source, target) in enumerate(edges.t().tolist()):
        dense[target, source] = 1.0 if weights is None else weights[position]
    degree = dense.sum(axis=1)
    expected = dense / np.sqrt(degree[:, None] * degree[None, :])
    adjacency = edges_of_kind("gcn", edges, 4, weights)
    np.testing.assert_allclose(adjacency.to_scipy().toarray(), expected, rtol=1e-6)


def test_is_what_gcn_conv_computes_on_citeseer_self_loops_and_all() -> None:
    data = load_dataset("citeseer")
    x = torch.randn(data.num_nodes, 4)
    conv = GCNConv(4, 4, bias=False)
    conv.lin.weight.data = torch.eye(4)
    adjacency = edges_of_kind("gcn", data.edge_index, data.num_nodes)
    torch.testing.assert_close(adjacency @ x, conv(x, data.edge_index), rtol=1e-5, atol=1e-5)


def test_a_node_without_edges_or_self_loop_receives_nothing() -> None:
    adjacency = edges_of_kind("normalised", torch.tensor([[0, 1], [1, 0]]), 3)
    assert (adjacency @ torch.ones(3, 1)).flatten().tolist() == [1.0, 1.0, 0.0]


def test_bipartite_weights_follow_both_degrees() -> None:
    edges = torch.tensor([[0, 0, 1], [0, 1, 1]])
    weights = normalise_bipartite(edges, None, 2, 3, torch.float64)
    np.testing.assert_allclose(weights, [1 / np.sqrt(2 * 1), 1 / np.sqrt(2 * 2), 1 / np.sqrt(2)])


@pytest.mark.parametrize("weights", [None, torch.tensor([0.5, 0.25, 2.0, 2.0])])
def test_parallel_self_loops_add_up(weights: torch.Tensor | None) -> None:
    edges = torch.tensor([[0, 0, 0, 1], [0, 0, 1, 0]])
    loop, between = (2.0, 1.0) if weights is None else (0.75, 2.0)
    dense = np.array([[loop, between], [between, 1.0]])
    degree = dense.sum(axis=1)
    expected = dense / np.sqrt(degree[:, None] * degree[None, :])
    adjacency = edges_of_kind("gcn", edges, 2, weights)
    np.testing.assert_allclose(adjacency.to_scipy().toarray(), expected, rtol=1e-6)
    layer = CrossGCNConv(2, 2, order=1)
    x = torch.eye(2)
    torch.testing.assert_close(layer(x, edges, weights), layer(x, adjacency))
