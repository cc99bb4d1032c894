"""What PyG's files test of ``GCNConv`` and ``MessagePassing``, for ``CrossGCNConv``.

Each test names the case of PyG's ``test/nn/conv/test_gcn_conv.py``, ``test_message_passing.py``,
``test_static_graph.py``, ``test/nn/test_sequential.py``, ``test_to_hetero_transformer.py``,
``test_compile_*.py`` or ``test_model_summary.py`` that it answers.
"""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from contract_cases import (
    EDGES,
    FEATURES,
    NODES,
    ORDERS,
    OUTPUTS,
    WEIGHTS,
    copy_weights,
    features,
    shake,
)
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, Sequential, to_hetero
from torch_geometric.nn.aggr import MeanAggregation, MultiAggregation, SumAggregation
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor

from crossgcn import CrossGCNConv

every_order = pytest.mark.parametrize("order", ORDERS)
assert_close = torch.testing.assert_close
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]
# PyG's containers agree where no node has a self-loop (NOTE[D9]).
LOOPLESS, LOOPLESS_WEIGHTS = EDGES[:, :-1], WEIGHTS[:-1]


def make(order: int, **settings: Any) -> CrossGCNConv:
    torch.manual_seed(0)
    conv: CrossGCNConv = shake(CrossGCNConv(FEATURES, OUTPUTS, order, **settings))
    return conv


@every_order
@pytest.mark.parametrize("weights", [None, LOOPLESS_WEIGHTS], ids=["plain", "weighted"])
def test_gcn_conv(order: int, weights: Tensor | None) -> None:
    """COO, CSC and CSR edges, with and without weights, cached or not."""
    conv, x = make(order), features()
    assert str(conv) == f"CrossGCNConv(5, 4, order={order})"
    out = conv(x, LOOPLESS, weights)
    for convert in (to_torch_csc_tensor, to_torch_coo_tensor):
        adjacency = convert(LOOPLESS, weights, size=(NODES, NODES))
        assert_close(conv(x, adjacency.t()), out)
    conv.cached = True
    assert_close(conv(x, LOOPLESS, weights), out)
    assert_close(conv(x, LOOPLESS[:, :3]), out)  # from the cache


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"improved": True},
        {"add_self_loops": False},
        {"normalize": False},
        {"aggr": "max"},
        {"aggr": "softmax"},
        {"bias": False},
        {"flow": "target_to_source"},
    ],
    ids=str,
)
def test_order_1_is_gcn_conv(settings: dict[str, Any]) -> None:
    theirs = shake(GCNConv(FEATURES, OUTPUTS, **settings))
    commutes = settings.get("aggr", "add") == "add"
    for aggregate_first in (False, True) if commutes else (False,):
        conv = make(1, aggregate_first=aggregate_first, **settings)
        copy_weights(theirs, conv)
        for weights in (WEIGHTS, None):
            assert_close(conv(features(), EDGES, weights), theirs(features(), EDGES, weights))


@every_order
def test_gcn_conv_with_decomposed_layers(order: int) -> None:
    conv, widths = make(order), []
    conv.register_message_forward_pre_hook(lambda _, given: widths.append(given[0]["x_j"].size(1)))
    whole = conv(features(), EDGES)
    conv.decomposed_layers = 2
    assert_close(conv(features(), EDGES), whole)
    assert widths == [OUTPUTS, OUTPUTS // 2, OUTPUTS // 2]


@every_order
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_gcn_conv_with_sparse_input_feature(order: int, layout: torch.layout) -> None:
    x = features() * (features(seed=2) > 0)
    conv = make(order)
    assert_close(conv(x.to_sparse(layout=layout), EDGES), conv(x, EDGES))


@every_order
@pytest.mark.parametrize("aggr", ["add", "mean", "max"])
def test_static_graph(order: int, aggr: str) -> None:
    """Several signals on one graph, ``[batch, nodes, features]``, are a batch of graphs."""
    conv, x = make(order, aggr=aggr), features(2, NODES, FEATURES)
    graphs = Batch.from_data_list([Data(x=each, edge_index=EDGES) for each in x])
    assert_close(conv(x, EDGES).flatten(0, 1), conv(graphs.x, graphs.edge_index))


@every_order
def test_gcn_conv_flow(order: int) -> None:
    conv, back = make(order), make(order, flow="target_to_source")
    assert_close(back(features(), EDGES.flip(0), WEIGHTS), conv(features(), EDGES, WEIGHTS))


@every_order
def test_my_conv_save_and_copy_and_pickle(order: int) -> None:
    conv, file = make(order), io.BytesIO()
    torch.save(conv, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in (loaded, copy.copy(conv), copy.deepcopy(conv)):
        assert_close(other(features(), EDGES), conv(features(), EDGES))


@every_order
def test_my_conv_edge_index_and_int32(order: int) -> None:
    conv = make(order)
    wanted = conv(features(), EDGES)
    typed = EdgeIndex(EDGES, sparse_size=(NODES, NODES)).sort_by("col").values
    assert_close(conv(features(), typed), wanted)
    assert_close(conv(features(), EDGES.int()), wanted)


@every_order
def test_my_conv_out_of_bounds(order: int) -> None:
    conv = make(order, normalize=False)
    with pytest.raises(IndexError, match=r"out of range|Found indices"):
        conv(features(), EDGES + NODES)


@every_order
def test_message_passing_hooks(order: int) -> None:
    conv, seen = make(order), []
    for name in ("propagate", "message", "aggregate"):
        register = getattr(conv, f"register_{name}_forward_hook")
        register(lambda *_, name=name: seen.append(name))
    conv(features(), EDGES)
    assert seen == ["message", "aggregate", "propagate"]


@every_order
def test_bipartite(order: int) -> None:
    conv = make(order, add_self_loops=False)
    x, edges = (features(), features(3, FEATURES)), torch.tensor([[0, 1, 6], [0, 2, 2]])
    out = conv(x, edges)
    adjacency = to_torch_csc_tensor(edges, size=(NODES, 3))
    assert_close(conv(x, adjacency.t()), out)
    assert out.shape == (3, OUTPUTS)


@every_order
def test_message_passing_with_aggr_module(order: int) -> None:
    by_name = make(order, aggr="mean")
    by_module = make(order, aggr=MeanAggregation())
    several = make(order, aggr=MultiAggregation([SumAggregation()]))
    assert_close(by_module(features(), EDGES), by_name(features(), EDGES))
    assert_close(several(features(), EDGES), make(order)(features(), EDGES))


@every_order
def test_explain_message(order: int) -> None:
    conv = make(order, add_self_loops=False)
    wanted = conv(features(), EDGES)
    conv.explain = True
    conv._edge_mask = torch.full((EDGES.size(1),), 0.5)
    conv._loop_mask = torch.ones(EDGES.size(1), dtype=torch.bool)
    conv._apply_sigmoid = False
    assert_close(conv(features(), EDGES) - conv.bias, 0.5 * (wanted - conv.bias))


@every_order
def test_sequential(order: int) -> None:
    first, last = make(order), shake(CrossGCNConv(OUTPUTS, 2, order))
    steps = [(first, "x, edge_index -> x"), nn.ReLU(), (last, "x, edge_index -> x")]
    model = Sequential("x, edge_index", steps)
    assert_close(model(features(), EDGES), last(first(features(), EDGES).relu(), EDGES))


METADATA = (["a", "b"], [("a", "to", "b"), ("b", "to", "a"), ("a", "near", "a")])


@every_order
def test_to_hetero_with_gcn(order: int) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = CrossGCNConv(-1, OUTPUTS, order, add_self_loops=False)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = self.conv(x, edge_index).relu()
            return out

    x = {"a": features(4, 3), "b": features(6, 5)}
    edges = {
        ("a", "to", "b"): torch.tensor([[0, 1, 3], [0, 5, 2]]),
        ("b", "to", "a"): torch.tensor([[0, 5, 2], [0, 1, 3]]),
        ("a", "near", "a"): torch.tensor([[0, 1], [1, 0]]),
    }
    model = to_hetero(Net(), METADATA, aggr="sum")
    out = model(x, edges)
    convs: Any = model.conv
    to_b = convs["a__to__b"]((x["a"], x["b"]), edges["a", "to", "b"])
    assert_close(out["b"], to_b.relu())
    assert out["a"].shape == (4, OUTPUTS)


@pytest.mark.parametrize(("order", "kind"), [(1, "edge index object"), (2, "dynamic"), (3, "coo")])
def test_compile(order: int, kind: str) -> None:
    """Without a graph break, for one graph and for graphs of any size."""
    torch._dynamo.reset()
    conv = make(order, add_self_loops=False)
    compiled = torch.compile(conv, backend="eager", fullgraph=True, dynamic=kind == "dynamic")
    edges: Any = EDGES
    if kind == "edge index object":
        edges = EdgeIndex(EDGES, sparse_size=(NODES, NODES)).as_tensor()
    assert_close(compiled(features(), edges), conv(features(), edges))
    if kind == "dynamic":
        larger = features(12, FEATURES)
        assert_close(compiled(larger, EDGES[:, 2:]), conv(larger, EDGES[:, 2:]))


def test_compiled_gradients() -> None:
    torch._dynamo.reset()
    conv = make(2, add_self_loops=False)
    compiled = torch.compile(conv, backend="aot_eager")
    x = features().requires_grad_()
    wanted = torch.autograd.grad(conv(x, EDGES).square().sum(), [x, *conv.parameters()])
    found = torch.autograd.grad(compiled(x, EDGES).square().sum(), [x, *conv.parameters()])
    assert_close(found, wanted)
