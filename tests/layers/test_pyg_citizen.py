"""The layer where PyG users would put it: in their models, transforms and explainers."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import Sequential, to_hetero
from torch_geometric.utils import k_hop_subgraph, to_undirected

from crossgcn import CrossGCN, CrossGCNConv

SLOW = pytest.mark.slow  # the C++ compiler needs 18 s


@pytest.fixture
def graph() -> Data:
    generator = torch.Generator().manual_seed(0)
    edge_index = to_undirected(torch.randint(60, (2, 90), generator=generator))
    return Data(
        x=torch.randn(60, 8, generator=generator),
        edge_index=edge_index,
        y=torch.randint(3, (60,), generator=generator),
    )


def live(model: nn.Module) -> nn.Module:
    """Open the gates, so that crosses take part."""
    for name, parameter in model.named_parameters():
        if name.endswith("order_weights"):
            nn.init.constant_(parameter, 1.0)
    return model.eval()


def test_inside_sequential(graph: Data) -> None:
    first, second = CrossGCNConv(8, 16), CrossGCNConv(16, 3, order=3)
    model = Sequential(
        "x, edge_index",
        [
            (first, "x, edge_index -> x"),
            nn.ReLU(inplace=True),
            (second, "x, edge_index -> x"),
        ],
    )
    expected = second(torch.relu(first(graph.x, graph.edge_index)), graph.edge_index)
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


def test_to_hetero_sums_the_relations() -> None:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(5, 8), torch.randn(7, 8)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 4], [0, 1, 1, 6]])
    data["item", "bought_by", "user"].edge_index = torch.tensor([[0, 1, 1, 6], [0, 1, 2, 4]])
    data["user", "knows", "user"].edge_index = torch.tensor([[0, 1, 3], [1, 0, 2]])
    model = live(
        to_hetero(CrossGCN(-1, 16, 1, 3, add_self_loops=False), data.metadata(), aggr="sum")
    )
    out = model(data.x_dict, data.edge_index_dict)

    layer: Any = model.layers[0]  # type: ignore[index]
    users, items = data["user"].x, data["item"].x
    bought = layer["item__bought_by__user"]((items, users), data["bought_by"].edge_index)
    knows = layer["user__knows__user"](users, data["knows"].edge_index)
    torch.testing.assert_close(out["user"], bought + knows)
    buys = layer["user__buys__item"]((users, items), data["buys"].edge_index)
    torch.testing.assert_close(out["item"], buys)


def test_a_deep_lazy_model_becomes_heterogeneous() -> None:
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(6, 5), torch.randn(4, 9)
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2, 3], [0, 2, 4, 5]])
    data["paper", "written_by", "author"].edge_index = torch.tensor([[0, 2, 4, 5], [0, 1, 2, 3]])
    model = to_hetero(CrossGCN(-1, 16, 2, 3, order=[2, 3], add_self_loops=False), data.metadata())
    out = model(data.x_dict, data.edge_index_dict)
    loss = out["paper"].square().sum() + out["author"].square().sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=SLOW)])
def test_compiles_without_a_graph_break(graph: Data, backend: str) -> None:
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("the inductor needs a C++ compiler")
    conv = live(CrossGCNConv(8, 4, order=3, add_self_loops=False))
    compiled = torch.compile(conv, fullgraph=True, backend=backend)
    x = graph.x.requires_grad_()
    expected = conv(x, graph.edge_index)
    out = compiled(x, graph.edge_index)
    torch.testing.assert_close(out, expected)
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    (wanted,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(gradient, wanted)


def test_gnn_explainer_finds_the_edge_and_the_features_that_matter() -> None:
    """Node 0 hears x₀·x₁ of node 1 and nothing that matters from nodes 2 to 5."""
    x = torch.ones(6, 4)
    x[2:] = 0.0
    edge_index = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    model = CrossGCN(4, 8, 1, 2, order_weights=[0.0, 1.0], normalize=False)
    conv: Any = model.layers[0]
    with torch.no_grad():
        conv.weight.zero_()
        conv.bias.copy_(torch.tensor([0.0, 2.0]))
        conv.weight[0, 0, 0] = conv.weight[1, 0, 1] = 3.0
    torch.manual_seed(0)
    explainer = Explainer(
        model.eval(),
        algorithm=GNNExplainer(epochs=60),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    explanation = explainer(x, edge_index, index=0)
    assert explanation.edge_mask.argmax() == 0
    assert set(explanation.node_mask[1].topk(2).indices.tolist()) == {0, 1}


def test_a_sampled_neighbourhood_gives_the_same_prediction(graph: Data) -> None:
    """Two layers see two hops, and normalisation the degrees one hop further."""
    model = live(CrossGCN(8, 16, 2, 3, order=[2, 3]))
    everywhere = model(graph.x, graph.edge_index)
    for node in (0, 17, 42):
        nodes, edges, position, _ = k_hop_subgraph(
            node, 3, graph.edge_index, relabel_nodes=True, num_nodes=60
        )
        local = model(graph.x[nodes], edges)
        torch.testing.assert_close(local[position], everywhere[node][None])


def test_training_on_random_subgraphs_learns(graph: Data) -> None:
    torch.manual_seed(0)
    model = CrossGCN(8, 16, 2, 3, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def loss(data: Data) -> Tensor:
        return nn.functional.cross_entropy(model(data.x, data.edge_index), data.y)

    before = loss(graph).item()
    for _ in range(20):
        for batch in RandomNodeLoader(graph, num_parts=3, shuffle=True):
            optimizer.zero_grad()
            loss(batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    assert loss(graph).item() < 0.8 * before


def test_takes_an_edge_index_object(graph: Data) -> None:
    conv = live(CrossGCNConv(8, 4))
    edges = EdgeIndex(graph.edge_index, sparse_size=(60, 60)).sort_by("col").values
    torch.testing.assert_close(conv(graph.x, edges), conv(graph.x, graph.edge_index))
