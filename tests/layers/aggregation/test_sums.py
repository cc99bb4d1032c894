"""Sums, means and GraphSAGE's split against loops over nodes."""

from __future__ import annotations

import pytest
import torch
from aggregation_cases import EDGES, NODES, WEIGHTS, dense, join, shake, vectors
from torch import Tensor
from torch_geometric.nn import SAGEConv

from crossgcn import BadInput, CrossGCNConv
from crossgcn.graph import edges_of_kind
from crossgcn.layers import make_aggregation
from crossgcn.layers.aggregation.one_hop import SelfAndNeighbours


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_gcn_and_raw_sum_are_products_with_their_matrix(weights: Tensor | None) -> None:
    x = vectors()
    torch.testing.assert_close(
        join(make_aggregation("gcn", 4), x, weights), dense("gcn", weights) @ x
    )
    torch.testing.assert_close(
        join(make_aggregation("raw-sum", 4), x, weights), dense("self-loops", weights) @ x
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_raw_mean_is_weighted_by_its_edges(weights: Tensor | None) -> None:
    x, adjacency = vectors(), dense("self-loops", weights)
    expected = torch.stack(
        [
            sum((w * v for w, v in zip(row, x, strict=True)), torch.zeros(4)) / row.sum()
            for row in adjacency
        ]
    )
    torch.testing.assert_close(join(make_aggregation("raw-mean", 4), x, weights), expected)


def test_an_isolated_node_keeps_its_vector() -> None:
    x = vectors()
    for name in ("gcn", "raw-sum", "raw-mean"):
        torch.testing.assert_close(join(make_aggregation(name, 4), x)[8], x[8])


def test_weights_of_both_signs_that_cancel_leave_the_mean_finite() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    hop = edges_of_kind("self-loops", edges, 2, torch.tensor([-1.0, 0.0]), dtype=torch.float64)
    x = vectors()[:2]
    out = make_aggregation("raw-mean", 4)(x, [hop])
    torch.testing.assert_close(out, torch.stack([x[0], (x[1] - x[0]) / 2]))


def test_a_row_without_edges_is_zero_in_a_mean() -> None:
    empty = edges_of_kind("neighbours", EDGES, NODES, dtype=torch.float64)
    out = make_aggregation("raw-mean", 4)(vectors(), [empty])
    assert out[8].tolist() == [0.0] * 4


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", ["sage", "sage-max"])
def test_sage_maps_both_parts_separately(name: str, weights: Tensor | None) -> None:
    aggregation = make_aggregation(name, 4).double()
    assert isinstance(aggregation, SelfAndNeighbours)
    shake(aggregation)
    x, adjacency = vectors(), dense("neighbours", weights)
    for node, row in enumerate(adjacency):
        joined = torch.zeros(4, dtype=torch.float64)
        if row.any():
            messages = (row[:, None] * x)[row != 0]
            joined = messages.amax(0) if name == "sage-max" else messages.sum(0) / row.sum()
        expected = aggregation.own_map @ x[node] + aggregation.neighbour_map @ joined
        torch.testing.assert_close(join(aggregation, x, weights)[node], expected)


def test_sage_with_a_mean_is_pygs() -> None:
    theirs = SAGEConv(4, 4).double()
    with torch.no_grad():
        theirs.lin_l.bias.zero_()
    aggregation = make_aggregation("sage", 4).double()
    assert isinstance(aggregation, SelfAndNeighbours)
    with torch.no_grad():
        aggregation.own_map.copy_(theirs.lin_r.weight)
        aggregation.neighbour_map.copy_(theirs.lin_l.weight)
    edges = dense("neighbours", None).nonzero().T.flip(0)
    torch.testing.assert_close(join(aggregation, vectors(), None), theirs(vectors(), edges))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sage_layer_of_twice_the_units_holds_pygs(dtype: torch.dtype) -> None:
    """GraphSAGE projects a node and its neighbours differently: each projection takes a half."""
    theirs = SAGEConv(6, 4, bias=False).to(dtype)
    conv = CrossGCNConv(6, 8, order=1, bias=False, aggr="sage").to(dtype)
    assert isinstance(conv.aggregation, SelfAndNeighbours)
    with torch.no_grad():
        conv.weight[0].copy_(torch.cat([theirs.lin_r.weight, theirs.lin_l.weight]))
        conv.aggregation.own_map.zero_()
        conv.aggregation.neighbour_map.zero_()
        conv.aggregation.own_map[:4, :4] = torch.eye(4)
        conv.aggregation.neighbour_map[:4, 4:] = torch.eye(4)
    x, without_own = vectors(6).to(dtype), EDGES[:, EDGES[0] != EDGES[1]][:, 2:]  # directed
    wanted = theirs(x, without_own)
    torch.testing.assert_close(conv(x, without_own)[:, :4], wanted, rtol=1e-5, atol=1e-5)


def test_sage_starts_as_a_plain_sum_of_both_parts() -> None:
    x, adjacency = vectors(), dense("neighbours", None)
    mean = adjacency @ x / adjacency.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(join(make_aggregation("sage", 4).double(), x, None), x + mean)


def test_sage_takes_any_aggregation_of_raw_edges() -> None:
    softmax = make_aggregation("sage", 4, join="softmax", t=0.5)
    assert isinstance(softmax, SelfAndNeighbours)
    assert softmax.stackable is False
    assert make_aggregation("sage", 4).stackable is True
    with pytest.raises(BadInput, match="GCNSum needs normalised edges"):
        make_aggregation("sage", 4, join="gcn")
    with pytest.raises(BadInput, match="aggregation 'raw-mean' has no setting 'heads'"):
        make_aggregation("sage", 4, heads=2)
