"""The convolution against dense matrices, against PyG's GCNConv, and inside PyG."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import AttentionalAggregation, LSTMAggregation, MultiAggregation

from crossgcn import BadInput, CrossGCNConv
from crossgcn.data.features import csr_tensor
from crossgcn.graph import SparseMatrix, edges_of_kind

NODES = 9  # node 8 is isolated, node 3 has a self-loop
EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 0, 3], [1, 0, 2, 1, 4, 5, 3, 3, 7, 6, 5, 3]])
WEIGHTS = torch.linspace(0.2, 2.0, EDGES.size(1))


def features(channels: int = 6, nodes: int = NODES) -> Tensor:
    return torch.randn(nodes, channels, generator=torch.Generator().manual_seed(0))


def dense_adjacency(weights: Tensor | None, *, add_self_loops: bool = True) -> Tensor:
    """D^-½ (A + I) D^-½, entry by entry; a node with a self-loop keeps its own."""
    adjacency = torch.zeros(NODES, NODES, dtype=torch.float64)
    for position, (source, target) in enumerate(EDGES.t().tolist()):
        adjacency[target, source] += 1.0 if weights is None else weights[position]
    if add_self_loops:
        for node in range(NODES):
            if adjacency[node, node] == 0:
                adjacency[node, node] = 1.0
    scale = adjacency.sum(dim=1).pow(-0.5)
    scale[torch.isinf(scale)] = 0.0
    return scale[:, None] * adjacency * scale[None, :]


def copy_weights(conv: CrossGCNConv, reference: GCNConv) -> None:
    with torch.no_grad():
        conv.weight[0].copy_(reference.lin.weight)
        if conv.bias is not None and reference.bias is not None:
            conv.bias.copy_(reference.bias)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("weights", [None, WEIGHTS.double()])
def test_both_orders_of_work_equal_their_dense_formula(order: int, weights: Tensor | None) -> None:
    adjacency, x = dense_adjacency(weights), features().double()
    for aggregate_first in (False, True):
        conv = CrossGCNConv(6, 4, order, aggregate_first=aggregate_first, order_weights="fixed")
        conv = conv.double()
        assert conv.bias is not None
        nn.init.normal_(conv.bias)

        def cross(x: Tensor, conv: CrossGCNConv = conv) -> Tensor:
            products = itertools.accumulate((x @ w.t() for w in conv.weight), torch.mul)
            return torch.stack(list(products)).sum(0)

        expected = cross(adjacency @ x) if aggregate_first else adjacency @ cross(x)
        out = conv(x, EDGES, weights)
        torch.testing.assert_close(out, expected + conv.bias, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 0.3, -2.0])
def test_the_release_presets_are_the_released_formula(alpha: float) -> None:
    conv = CrossGCNConv(6, 4, order_weights="learned", first_order="release", bias=False)
    assert conv.order_weights is not None
    with torch.no_grad():
        conv.order_weights[1] = alpha
    x, adjacency = features(), dense_adjacency(None).float()
    first, second = (x @ w.t() for w in conv.weight)
    expected = adjacency @ (first + second + alpha * first * second)
    torch.testing.assert_close(conv(x, EDGES), expected)


def test_every_kind_of_edges_gives_the_same_result() -> None:
    conv, x = CrossGCNConv(6, 4, order=3, order_weights="fixed"), features()
    expected = conv(x, EDGES, WEIGHTS)
    transposed = torch.sparse_coo_tensor(EDGES.flip(0), WEIGHTS, (NODES, NODES)).coalesce()
    csr = csr_tensor(*csr_parts(transposed.to_dense()), shape=(NODES, NODES))
    torch.testing.assert_close(conv(x, transposed), expected)
    torch.testing.assert_close(conv(x, csr), expected)
    ready = edges_of_kind("gcn", EDGES, NODES, WEIGHTS)
    torch.testing.assert_close(conv(x, ready), expected)

    normalised = CrossGCNConv(6, 4, order=3, order_weights="fixed", normalize=False)
    normalised.load_state_dict(conv.state_dict())
    parts = (ready.row_offsets, ready.columns, ready.values)
    torch.testing.assert_close(normalised(x, csr_tensor(*parts, shape=(NODES, NODES))), expected)


def csr_parts(dense: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    matrix = SparseMatrix.from_scipy(dense.numpy())
    return matrix.row_offsets, matrix.columns, matrix.values


def test_a_stand_in_with_the_interface_of_sparse_tensor_gives_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch-sparse has no wheels, so what PyG's SparseTensor offers is played here."""

    class StandIn:
        def coo(self) -> tuple[Tensor, Tensor, Tensor]:
            return EDGES[1], EDGES[0], WEIGHTS

        def size(self, dim: int) -> int:
            return NODES

    monkeypatch.setattr("torch_geometric.utils.sparse.SparseTensor", StandIn)
    conv, x = CrossGCNConv(6, 4, order=3, order_weights="fixed"), features()
    torch.testing.assert_close(conv(x, StandIn()), conv(x, EDGES, WEIGHTS))


def test_an_adjacency_that_does_not_fit_is_refused() -> None:
    conv = CrossGCNConv(6, 4)
    adjacency = torch.sparse_coo_tensor(EDGES.flip(0), WEIGHTS, (NODES, NODES))
    with pytest.raises(BadInput, match=r"9 × 9, but there are 12 targets and 12 sources"):
        conv(features(nodes=12), adjacency)
    with pytest.raises(BadInput, match=r"edge_weight goes with COO edges"):
        conv(features(), adjacency, WEIGHTS)
    with pytest.raises(BadInput, match="flow='source_to_target'"):
        CrossGCNConv(6, 4, flow="target_to_source")(features(), adjacency)


@pytest.mark.parametrize("aggregate_first", [False, True])
def test_sparse_features_equal_dense_features(aggregate_first: bool) -> None:
    conv = CrossGCNConv(30, 4, 2, aggregate_first=aggregate_first, order_weights="learned")
    dense = features(30) * (features(30) > 0.8)
    matrix = SparseMatrix.from_scipy(dense.numpy())
    csr = csr_tensor(matrix.row_offsets, matrix.columns, matrix.values, (NODES, 30))
    gradients = []
    for x in (dense, csr, matrix):
        conv.zero_grad()
        out = conv(x, EDGES)
        torch.testing.assert_close(out, conv(dense, EDGES))
        out.square().sum().backward()
        assert conv.weight.grad is not None
        gradients.append(conv.weight.grad.clone())
    torch.testing.assert_close(gradients[1], gradients[0])
    torch.testing.assert_close(gradients[2], gradients[0])


@pytest.mark.parametrize("aggr", ["mean", "max"])
def test_other_aggregations_join_neighbours_as_named(aggr: str) -> None:
    x = features()
    for aggregate_first in (False, True):
        conv = CrossGCNConv(
            6,
            4,
            aggregate_first=aggregate_first,
            order_weights="fixed",
            normalize=False,
            bias=False,
            aggr=aggr,
        )
        rows = x if aggregate_first else conv.transform(x)
        joined = torch.zeros(NODES, rows.size(1))
        for node in range(NODES):
            neighbours = EDGES[0][EDGES[1] == node]
            if neighbours.numel() > 0:
                group = rows[neighbours]
                joined[node] = group.mean(0) if aggr == "mean" else group.amax(0)
        expected = conv.transform(joined) if aggregate_first else joined
        torch.testing.assert_close(conv(x, EDGES), expected)


AGGREGATIONS: dict[str, Any] = {
    "mean": lambda: "mean",
    "max": lambda: "max",
    "softmax": lambda: "softmax",
    "several": lambda: MultiAggregation(["mean", "max"], mode="sum"),
    "attention": lambda: AttentionalAggregation(nn.Linear(4, 1)),
    "LSTM": lambda: LSTMAggregation(4, 4),
}


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_every_aggregation_of_pyg_joins_crosses(name: str) -> None:
    """In GCNConv for order 1, over prepared edges and COO edges, and where nodes are renumbered."""
    torch.manual_seed(0)
    aggr, x = AGGREGATIONS[name](), features()
    conv = CrossGCNConv(6, 4, 1, aggr=aggr)
    if name != "LSTM":  # PyG's GCNConv cannot sort the self-loops that it adds
        reference = GCNConv(6, 4, aggr=aggr)
        copy_weights(conv, reference)
        torch.testing.assert_close(conv(x, EDGES, WEIGHTS), reference(x, EDGES, WEIGHTS))
    crossed = CrossGCNConv(6, 4, 2, aggr=aggr, order_weights="fixed")
    out = crossed(x, EDGES, WEIGHTS)
    ready = edges_of_kind("gcn", EDGES, NODES, WEIGHTS)
    if name != "LSTM":  # its result depends on the order of neighbours
        torch.testing.assert_close(crossed(x, ready), out)
        shuffled = torch.randperm(EDGES.size(1))
        torch.testing.assert_close(crossed(x, EDGES[:, shuffled], WEIGHTS[shuffled]), out)
    gradients = torch.autograd.grad(crossed(x, ready).square().sum(), list(crossed.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_pair_of_widths_is_that_of_a_bipartite_graph() -> None:
    edges, sources = torch.tensor([[0, 0, 1], [0, 1, 1]]), features(nodes=2)
    for widths in ((-1, -1), (6, 3)):
        torch.manual_seed(0)
        conv = CrossGCNConv(widths, 4)
        out = conv((sources, features(3, nodes=2)), edges)
        torch.manual_seed(0)
        single = CrossGCNConv(widths[0], 4)
        torch.testing.assert_close(out, single((sources, features(3, nodes=2)), edges))
        assert conv.in_channels == 6


def test_aggregating_sparse_features_by_maximum_is_refused_with_the_remedy() -> None:
    conv = CrossGCNConv(6, 4, aggregate_first=True, aggr="max", normalize=False)
    matrix = SparseMatrix.from_scipy(features().numpy())
    with pytest.raises(BadInput, match=r"x.to_dense\(\)"):
        conv(matrix, EDGES)


@given(seed=st.integers(0, 2**16), aggregate_first=st.booleans(), order=st.integers(1, 4))
def test_permutation_equivariance(seed: int, aggregate_first: bool, order: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    nodes = int(torch.randint(1, 12, (1,), generator=generator))
    edges = torch.randint(nodes, (2, 3 * nodes), generator=generator)
    x = torch.randn(nodes, 5, generator=generator, dtype=torch.float64)
    permutation = torch.randperm(nodes, generator=generator)
    conv = CrossGCNConv(
        5, 3, order, aggregate_first=aggregate_first, order_weights="fixed"
    ).double()
    moved = torch.empty_like(x)
    moved[permutation] = x
    torch.testing.assert_close(conv(moved, permutation[edges])[permutation], conv(x, edges))


@pytest.mark.parametrize("aggregate_first", [False, True])
def test_bipartite_graphs_follow_both_degrees(aggregate_first: bool) -> None:
    edges = torch.tensor([[0, 0, 1, 2, 2], [0, 1, 1, 0, 2]])
    sources, targets = features(6, nodes=3), features(5, nodes=4)  # target 3 has no edge
    weights = torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0])
    conv = CrossGCNConv(6, 4, aggregate_first=aggregate_first, order_weights="fixed")
    matrix = torch.zeros(4, 3)
    matrix[edges[1], edges[0]] = weights
    out_degree, in_degree = matrix.sum(0), matrix.sum(1)
    scale = (in_degree[:, None] * out_degree[None, :]).pow(-0.5)
    matrix = matrix * torch.where(torch.isinf(scale), 0.0, scale)
    if aggregate_first:
        expected = conv.transform(matrix @ sources)
    else:
        expected = matrix @ conv.transform(sources)
    torch.testing.assert_close(conv((sources, targets), edges, weights), expected)
    adjacency = torch.sparse_coo_tensor(edges.flip(0), weights, (4, 3))
    torch.testing.assert_close(conv((sources, targets), adjacency), expected)
    with pytest.raises(BadInput, match="flow='source_to_target'"):
        CrossGCNConv(6, 4, flow="target_to_source")((sources, targets), edges)
    with pytest.raises(BadInput, match="x_dst"):
        conv((sources, None), edges)


def test_cached_keeps_the_first_graph_and_refuses_another() -> None:
    conv, x = CrossGCNConv(6, 4, cached=True), features()
    first = conv(x, EDGES)
    torch.testing.assert_close(conv(x, EDGES[:, :3]), first)
    with pytest.raises(BadInput, match=r"keeps a graph of 9 nodes, but was given 5"):
        conv(x[:5], EDGES[:, :2])
    conv.reset_parameters()
    assert conv(x[:5], EDGES[:, :2]).shape == (5, 4)
