from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from crossgcn import CrossGCNConv, PreparedGraph, build_model, load_dataset, make_splits
from crossgcn.graph import SparseMatrix, edges_of_kind, receptive_field


def test_on_a_path_each_hop_reaches_one_node_further() -> None:
    path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    adjacency = edges_of_kind("gcn", path, 5)
    for hops, reached in [(0, [0]), (1, [0, 1]), (2, [0, 1, 2]), (4, [0, 1, 2, 3, 4])]:
        input_rows, blocks = receptive_field([adjacency] * hops, torch.tensor([0]))
        assert input_rows.tolist() == reached
        assert len(blocks) == hops


@pytest.mark.parametrize("preset", ["gcn", "gin", "mlp", "cross-gcn", "cross-gcn-paper-fix"])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_outputs_and_gradients_equal_those_of_the_whole_graph(preset: str, num_layers: int) -> None:
    data = load_dataset("citeseer")
    split = make_splits(data, num_splits=1)[0]
    graph = PreparedGraph(data.x, data.edge_index)
    model = build_model(
        preset, data.x.size(1), 6, num_layers=num_layers, hidden_channels=8, dropout=0.0
    )
    for name, parameter in model.named_parameters():
        if name.endswith("order_weights"):
            torch.nn.init.constant_(parameter, 0.5)

    def loss_and_gradients(scores: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
        loss = torch.nn.functional.cross_entropy(scores, data.y[split.train])
        return loss.item(), list(torch.autograd.grad(loss, list(model.parameters())))

    whole, whole_gradients = loss_and_gradients(model(data.x, data.edge_index)[split.train])
    cut, cut_gradients = loss_and_gradients(model(*graph.view(split.train, model.propagations)))
    assert cut == pytest.approx(whole, rel=1e-5)
    for ours, theirs in zip(cut_gradients, whole_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_training_step_touches_a_fraction_of_citeseer() -> None:
    data = load_dataset("citeseer")
    split = make_splits(data, num_splits=1)[0]
    x, blocks = PreparedGraph(data.x, data.edge_index).view(split.train, ["gcn"] * 2)
    assert isinstance(x, SparseMatrix)
    assert x.size(0) < data.num_nodes / 2
    assert blocks[0].size(0) < data.num_nodes / 5
    assert blocks[1].size(0) == split.train.numel()


def test_all_nodes_of_a_whole_graph_need_no_copy_of_it() -> None:
    graph = PreparedGraph(torch.rand(60, 3), torch.randint(60, (2, 300)))
    _, blocks = graph.view(torch.arange(60), ["gcn"] * 2)
    assert all(block is graph.adjacency for block in blocks)


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
