from __future__ import annotations

import pytest
import torch

from crossgcn import PreparedGraph, build_model, load_dataset, make_splits
from crossgcn.graph import SparseMatrix, edges_of_kind, receptive_field


def test_on_a_path_each_hop_reaches_one_node_further() -> None:
    path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
    adjacency = edges_of_kind("gcn", path, 5)
    for hops, reached in [(0, [0]), (1, [0, 1]), (2, [0, 1, 2]), (4, [0, 1, 2, 3, 4])]:
        field = receptive_field([adjacency] * hops, torch.tensor([0]))
        assert field.input_rows.tolist() == reached
        assert len(field.blocks) == hops


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
