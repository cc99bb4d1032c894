"""The argument ``aggr`` of the convolutions."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from aggregation_cases import EDGES, NODES, WEIGHTS, dense, vectors
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import SoftmaxAggregation

from crossgcn import BadInput, CrossGCNConv
from crossgcn.data.features import csr_tensor
from crossgcn.graph import EDGE_RULES, SparseMatrix, edges_of_kind
from crossgcn.layers import AGGREGATIONS, make_aggregation


@pytest.mark.parametrize("aggregate_first", [False, True])
def test_a_name_a_function_and_the_plain_sum_agree(aggregate_first: bool) -> None:
    torch.manual_seed(0)
    plain = CrossGCNConv(6, 4, aggregate_first=aggregate_first, order_weights="fixed").double()
    for aggr in ("gcn", partial(make_aggregation, "gcn")):
        conv = CrossGCNConv(
            6, 4, aggregate_first=aggregate_first, order_weights="fixed", aggr=aggr
        ).double()
        conv.load_state_dict(plain.state_dict())
        torch.testing.assert_close(
            conv(vectors(6), EDGES, WEIGHTS), plain(vectors(6), EDGES, WEIGHTS)
        )


def test_sparse_features_are_projected_before_a_linear_aggregation() -> None:
    torch.manual_seed(0)
    conv = CrossGCNConv(6, 4, aggregate_first=True, aggr="appnp", order_weights="fixed").double()
    rows = vectors(6) * (vectors(6) > 0)
    torch.testing.assert_close(
        conv(SparseMatrix.from_scipy(rows.numpy()), EDGES), conv(rows, EDGES)
    )
    attentive = CrossGCNConv(6, 4, aggregate_first=True, aggr="gat").double()
    with pytest.raises(
        BadInput,
        match=r"aggr='gat' needs dense features.*--transform-first \(aggregate_first=False\).*"
        r"gcn, sum, mean, raw-sum, .*appnp.*x.to_dense\(\)",
    ):
        attentive(SparseMatrix.from_scipy(rows.numpy()), EDGES)


def test_a_width_not_known_yet_is_enough_for_a_linear_aggregation() -> None:
    lazy = CrossGCNConv(-1, 4, aggregate_first=True, aggr="appnp").double()
    assert lazy(vectors(6), EDGES).shape == (NODES, 4)
    with pytest.raises(BadInput, match="give in_channels instead of -1"):
        CrossGCNConv(-1, 4, aggregate_first=True, aggr="gat")
    assert CrossGCNConv(-1, 4, aggr="gat").double()(vectors(6), EDGES).shape == (NODES, 4)


def test_edges_as_a_sparse_adjacency_are_the_same_edges() -> None:
    torch.manual_seed(0)
    conv = CrossGCNConv(6, 4, aggr="gat").double()
    matrix = SparseMatrix.from_scipy(_adjacency().numpy())
    csr = csr_tensor(matrix.row_offsets, matrix.columns, matrix.values, (NODES, NODES))
    torch.testing.assert_close(conv(vectors(6), csr), conv(vectors(6), EDGES, WEIGHTS))
    with pytest.raises(BadInput, match="edge_weight goes with COO edges"):
        conv(vectors(6), csr, WEIGHTS)


def test_cached_keeps_the_first_graph_and_refuses_another() -> None:
    conv = CrossGCNConv(6, 4, aggr="mixhop", cached=True).double()
    first = conv(vectors(6), EDGES)
    torch.testing.assert_close(conv(vectors(6), EDGES[:, :3]), first)
    with pytest.raises(BadInput, match="keeps a graph of 9 nodes, but was given 5"):
        conv(vectors(6)[:5], EDGES[:, :2])


def test_modules_of_pyg_join_weighed_messages_as_in_pyg() -> None:
    torch.manual_seed(0)
    theirs = GCNConv(6, 4, aggr=SoftmaxAggregation()).double()
    conv = CrossGCNConv(6, 4, order=1, aggr=SoftmaxAggregation()).double()
    with torch.no_grad():
        conv.weight[0].copy_(theirs.lin.weight)
    torch.testing.assert_close(conv(vectors(6), EDGES, WEIGHTS), theirs(vectors(6), EDGES, WEIGHTS))


def test_what_only_pygs_ways_can_do_is_refused_with_the_remedy() -> None:
    conv, x = CrossGCNConv(6, 4, aggr="gat").double(), vectors(6)
    with pytest.raises(BadInput, match="for a bipartite graph"):
        conv((x, x[:4]), EDGES)
    with pytest.raises(BadInput, match=r"takes x of \[nodes, channels\]; got \(2, 9, 6\)"):
        conv(torch.stack([x, x]), EDGES)
    with pytest.raises(BadInput, match="'gat' weights edges in its own way"):
        CrossGCNConv(6, 4, aggr="gat", normalize=False)
    wrong: Any = ["mean", "max"]
    with pytest.raises(BadInput, match=r"aggr is a name.*got \['mean', 'max'\]"):
        CrossGCNConv(6, 4, aggr=wrong)


def _adjacency() -> torch.Tensor:
    adjacency = dense("neighbours")
    adjacency[3, 3] = WEIGHTS[12]
    return adjacency


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_halves_come_close_to_what_doubles_give(name: str) -> None:
    """In the layer's own precision, and where autocast chooses it product by product."""
    torch.manual_seed(0)
    conv = CrossGCNConv(6, 4, order_weights="fixed", aggr=partial(make_aggregation, name)).eval()
    x = vectors(6).bfloat16()
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.copy_(parameter.bfloat16())
        expected = copy.deepcopy(conv).double()(x.double(), EDGES, WEIGHTS)
    half = copy.deepcopy(conv).bfloat16()(x, EDGES, WEIGHTS)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = conv(x.float(), EDGES, WEIGHTS)
    assert half.dtype == torch.bfloat16
    size = float(expected.abs().max())
    for out in (half, mixed):
        torch.testing.assert_close(out.double(), expected, rtol=0.1, atol=0.1 * size)
        conv.zero_grad()
    torch.autograd.backward(mixed.sum())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in conv.parameters())


def test_the_edges_of_halves_are_weighed_in_32_bits() -> None:
    for kind in EDGE_RULES:
        half, single, double = (
            edges_of_kind(kind, EDGES, NODES, WEIGHTS, dtype=dtype)
            for dtype in (torch.bfloat16, torch.float32, torch.float64)
        )
        assert torch.equal(half.values, single.values)
        assert double.values.dtype == torch.float64
