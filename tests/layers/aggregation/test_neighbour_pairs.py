from __future__ import annotations

from itertools import combinations

import pytest
import torch
from aggregation_cases import EDGES, NODES, WEIGHTS, dense, edges, join, vectors
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from crossgcn.graph import ModelBatchMatrix, edges_of_kind
from crossgcn.layers.aggregation.one_hop import GCNAndPairs, NeighbourPairs


def mean_of_all_pairs(adjacency: Tensor, x: Tensor, own: bool) -> Tensor:
    """Every pair of different neighbours, one by one, over the size of what is sent."""
    out = torch.zeros_like(x)
    for node, row in enumerate(adjacency):
        members = [j for j in range(len(x)) if row[j] != 0 and (own or j != node)]
        total, weight = torch.zeros_like(x[0]), 0.0
        for j, k in combinations(members, 2):
            total += row[j] * row[k] * x[j] * x[k]
            weight += abs(float(row[j] * row[k]))
        if weight > 0:
            squares = sum(float(row[j] * (x[j] ** 2).mean()) for j in members)
            size = (squares / float(row[members].sum())) ** 0.5
            out[node] = total / weight / size
    return out


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("own", [True, False])
def test_two_products_hold_all_pairs(own: bool, weights: Tensor | None) -> None:
    x = vectors()
    expected = mean_of_all_pairs(dense("gcn", weights), x, own)
    torch.testing.assert_close(join(NeighbourPairs(4, own=own), x, weights), expected)


@given(seed=st.integers(0, 2**16), own=st.booleans(), nodes=st.integers(1, 10))
def test_all_pairs_of_any_graph(seed: int, own: bool, nodes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(nodes, (2, 2 * nodes), generator=generator)
    hop = edges_of_kind("gcn", edges, nodes, dtype=torch.float64)
    x = torch.randn(nodes, 3, generator=generator, dtype=torch.float64)
    expected = mean_of_all_pairs(torch.from_numpy(hop.to_scipy().toarray()), x, own)
    torch.testing.assert_close(NeighbourPairs(3, own=own)(x, [hop]), expected)


def test_where_there_is_no_pair_it_is_zero_and_so_is_its_gradient() -> None:
    x = vectors().float().requires_grad_()
    hop = edges_of_kind("gcn", EDGES, NODES, WEIGHTS.float())
    out = NeighbourPairs(4, own=False)(x, [hop])
    assert out[[6, 7, 8]].tolist() == [[0.0] * 4] * 3
    (gradient,) = torch.autograd.grad(out[[6, 7, 8]].sum(), x)
    assert not gradient.any()


@pytest.mark.parametrize("degree", [2, 10, 5000])
def test_a_heavy_node_is_no_larger_than_a_light_one(degree: int) -> None:
    spokes = torch.arange(1, degree + 1)
    edges = torch.stack([spokes, torch.zeros_like(spokes)])
    x = torch.full((degree + 1, 2), 3.0)
    hop = edges_of_kind("gcn", edges, degree + 1)
    out = NeighbourPairs(2)(x, [hop])
    torch.testing.assert_close(out[0], torch.full((2,), 3.0), rtol=1e-4, atol=0)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6])
def test_vectors_of_any_size_give_results_of_that_size(scale: float) -> None:
    x, hop = vectors().float(), edges_of_kind("gcn", EDGES, NODES)
    aggregation = NeighbourPairs(4)
    torch.testing.assert_close(aggregation(scale * x, [hop]) / scale, aggregation(x, [hop]))


def test_empty_channels_beside_its_own_change_nothing() -> None:
    x, hop = vectors(), edges_of_kind("gcn", EDGES, NODES, dtype=torch.float64)
    aggregation = NeighbourPairs(4)
    wider = torch.nn.functional.pad(x, (0, 4))
    torch.testing.assert_close(aggregation(wider, [hop])[:, :4], aggregation(x, [hop]))


def test_vectors_of_zero_have_zero_for_gradient() -> None:
    x = torch.zeros(NODES, 4, requires_grad=True)
    out = NeighbourPairs(4)(x, [edges_of_kind("gcn", EDGES, NODES)])
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert not out.any()
    assert not gradient.any()


@pytest.mark.parametrize("own", [True, False])
def test_the_combination_starts_as_gcn_and_adds_pairs_through_its_gate(own: bool) -> None:
    x, adjacency = vectors(), dense("gcn")
    both = GCNAndPairs(4, own=own).double()
    torch.testing.assert_close(join(both, x), adjacency @ x)
    with torch.no_grad():
        both.gate.fill_(-0.7)
    expected = adjacency @ x - 0.7 * mean_of_all_pairs(adjacency, x, own)
    torch.testing.assert_close(join(both, x), expected)
    both.reset_parameters()
    assert both.gate.item() == 0.0


def test_the_closed_gate_receives_a_gradient_and_no_decay() -> None:
    both = GCNAndPairs(4).double()
    (gradient,) = torch.autograd.grad(join(both, vectors()).square().sum(), both.gate)
    assert gradient != 0
    assert both.gate.dim() < 2  # matrices are decayed, numbers are not


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_lose_no_pair_of_a_leaf_of_a_heavy_node(dtype: torch.dtype) -> None:
    """The hub's weight at a leaf is a fiftieth of the leaf's own; its pair is a pair still."""
    spokes, hub = torch.arange(1, 1001), torch.zeros(1000, dtype=torch.long)
    edges = torch.stack([torch.cat([spokes, hub]), torch.cat([hub, spokes])])
    generator = torch.Generator().manual_seed(0)
    x = (1.0 + torch.rand(1001, 4, generator=generator)).to(dtype)
    out = NeighbourPairs(4)(x, [edges_of_kind("gcn", edges, 1001, dtype=dtype)])
    exact = edges_of_kind("gcn", edges, 1001, dtype=torch.float64)
    expected = NeighbourPairs(4)(x.double(), [exact])
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=0.02, atol=0.0)


def test_models_side_by_side_leave_out_their_own_nodes() -> None:
    hops = [edges("gcn", None), edges("gcn", WEIGHTS), edges("gcn", WEIGHTS.flip(0))]
    x = torch.stack([vectors(seed=seed) for seed in range(3)])
    pairs = NeighbourPairs(4, own=False)
    together = pairs(x, [ModelBatchMatrix(hops)])
    for model, hop in enumerate(hops):
        torch.testing.assert_close(together[model], pairs(x[model], [hop]))
