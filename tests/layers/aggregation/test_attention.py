from __future__ import annotations

import pytest
import torch
from aggregation_cases import EDGES, NODES, dense, join, vectors
from torch_geometric.nn import GATConv, GATv2Conv

from crossgcn import BadInput, CrossGCNConv
from crossgcn.layers.aggregation.one_hop import GraphAttention, GraphAttentionV2


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_order_1_with_attention_is_pygs_gat(heads: int) -> None:
    theirs = GATConv(6, 8 // heads, heads, negative_slope=0.3).double()
    conv = CrossGCNConv(
        6, 8, order=1, aggr=lambda c: GraphAttention(c, heads=heads, negative_slope=0.3)
    ).double()
    assert isinstance(conv.aggregation, GraphAttention)
    with torch.no_grad():
        conv.weight[0].copy_(theirs.lin.weight)
        conv.aggregation.for_source.copy_(theirs.att_src[0])
        conv.aggregation.for_target.copy_(theirs.att_dst[0])
    without_own = EDGES[:, EDGES[0] != EDGES[1]]
    x = vectors(6)
    torch.testing.assert_close(conv(x, without_own), theirs(x, without_own))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_order_1_with_attention_is_pygs_gatv2(heads: int, dtype: torch.dtype) -> None:
    """In float32 a compiled kernel computes it, where Numba is installed."""
    theirs = GATv2Conv(6, 8 // heads, heads, share_weights=True, bias=False).to(dtype)
    conv = CrossGCNConv(
        6, 8, order=1, bias=False, aggr=lambda c: GraphAttentionV2(c, heads=heads)
    ).to(dtype)
    assert isinstance(conv.aggregation, GraphAttentionV2)
    with torch.no_grad():
        conv.weight[0].copy_(theirs.lin_l.weight)
        conv.aggregation.attention.copy_(theirs.att[0])
    without_own = EDGES[:, EDGES[0] != EDGES[1]]
    x = vectors(6).to(dtype).requires_grad_()
    ours, pygs = conv(x, without_own), theirs(x, without_own)
    torch.testing.assert_close(ours, pygs, rtol=1e-5, atol=1e-5)
    gradient = vectors(8, seed=2).to(dtype)
    for mine, other in ((x, x), (conv.weight, theirs.lin_l.weight)):
        (found,) = torch.autograd.grad(ours, mine, gradient, retain_graph=True)
        (wanted,) = torch.autograd.grad(pygs, other, gradient, retain_graph=True)
        torch.testing.assert_close(found.view_as(wanted), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [GraphAttention, GraphAttentionV2])
def test_an_edge_of_weight_two_counts_as_two_edges(kind: type[GraphAttention]) -> None:
    torch.manual_seed(0)
    aggregation, x = kind(4, heads=2).double(), vectors()
    weighed, adjacency = join(aggregation, x), dense("self-loops")
    for node in range(NODES):
        for head in range(2):
            part = slice(2 * head, 2 * head + 2)
            total, whole = torch.zeros(2, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
            for other in range(NODES):
                if adjacency[node, other] == 0:
                    continue
                own, sent = x[node, part], x[other, part]
                if kind is GraphAttention:
                    linear = aggregation.for_source[head] @ sent
                    linear = linear + aggregation.for_target[head] @ own
                    score = torch.nn.functional.leaky_relu(linear, 0.2)
                else:
                    assert isinstance(aggregation, GraphAttentionV2)
                    together = torch.nn.functional.leaky_relu(own + sent, 0.2)
                    score = aggregation.attention[head] @ together
                total = total + adjacency[node, other] * score.exp() * sent
                whole = whole + adjacency[node, other] * score.exp()
            torch.testing.assert_close(weighed[node, part], total / whole)


def test_scores_of_any_size_stay_finite() -> None:
    torch.manual_seed(0)
    out = join(GraphAttention(4).double(), 1e6 * vectors())
    assert out.isfinite().all()
    torch.testing.assert_close(out[8], 1e6 * vectors()[8])


@pytest.mark.parametrize(
    ("channels", "heads"), [(32, 8), (16, 4), (8, 2), (7, 1), (6, 1), (3, 1), (24, 4), (128, 8)]
)
def test_heads_are_chosen_so_that_each_has_room(channels: int, heads: int) -> None:
    assert GraphAttention(channels).heads == heads


def test_heads_that_do_not_divide_the_channels_are_refused() -> None:
    with pytest.raises(BadInput, match="heads=3 does not divide 8 channels"):
        GraphAttention(8, heads=3)
    with pytest.raises(BadInput, match="heads=0"):
        GraphAttention(8, heads=0)
