"""Aggregations over several hops against PyG's layers and closed forms."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from aggregation_cases import EDGES, WEIGHTS, dense, join, shake, vectors
from torch_geometric.nn import APPNP, ChebConv

from crossgcn import BadInput
from crossgcn.layers import make_aggregation
from crossgcn.layers.aggregation.several_hops import Chebyshev, MixHop


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_the_chebyshev_filter_is_pygs(hops: int) -> None:
    theirs = ChebConv(4, 4, hops + 1, bias=False).double()
    aggregation = Chebyshev(4, hops=hops).double()
    shake(aggregation)
    with torch.no_grad():
        for linear, weight in zip(theirs.lins, aggregation.maps, strict=True):
            linear.weight.copy_(weight)
    expected = theirs(vectors(), EDGES, lambda_max=torch.tensor(2.0).double())
    torch.testing.assert_close(join(aggregation, vectors(), None), expected)


def test_polynomials_are_cosines_of_the_spectrum() -> None:
    """T_t(cos θ) = cos(t θ), eigenvalue by eigenvalue."""
    aggregation = Chebyshev(4, hops=5).double()
    with torch.no_grad():
        aggregation.maps.zero_()
        aggregation.maps[5] = torch.eye(4)
    adjacency = dense("symmetric", None)
    values, basis = torch.linalg.eigh(-adjacency)
    polynomial = basis @ torch.diag((5 * values.clamp(-1, 1).acos()).cos()) @ basis.T
    torch.testing.assert_close(join(aggregation, vectors(), None), polynomial @ vectors())


def test_chebyshev_starts_as_half_a_node_and_half_its_neighbours() -> None:
    x, adjacency = vectors(), dense("symmetric")
    torch.testing.assert_close(join(Chebyshev(4, hops=3).double(), x), (x + adjacency @ x) / 2)


def test_chebyshev_needs_at_least_one_hop() -> None:
    with pytest.raises(BadInput, match="hops must be a whole number of at least 1; got 0"):
        Chebyshev(4, hops=0)


@pytest.mark.parametrize("powers", [(0, 1, 2), (1,), (3, 1), (0, 2)])
def test_mix_hop_maps_each_power_separately(powers: Sequence[int]) -> None:
    aggregation = MixHop(4, powers=powers).double()
    shake(aggregation)
    x, adjacency = vectors(), dense("gcn")
    expected = sum(
        torch.linalg.matrix_power(adjacency, power) @ x @ weight.T
        for power, weight in zip(sorted(powers), aggregation.maps, strict=True)
    )
    torch.testing.assert_close(join(aggregation, x), expected)


def test_mix_hop_starts_as_the_mean_of_all_powers() -> None:
    x, adjacency = vectors(), dense("gcn")
    expected = (x + adjacency @ x + adjacency @ adjacency @ x) / 3
    torch.testing.assert_close(join(MixHop(4).double(), x), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("powers", [(), (0,), (-1, 2)])
def test_powers_that_reach_no_neighbour_are_refused(powers: Sequence[int]) -> None:
    with pytest.raises(BadInput, match="powers must be whole numbers from 0"):
        MixHop(4, powers=powers)


def test_pagerank_steps_are_pygs() -> None:
    theirs = APPNP(K=10, alpha=0.1)
    torch.testing.assert_close(
        join(make_aggregation("appnp", 4), vectors()), theirs(vectors(), EDGES, WEIGHTS)
    )


def test_many_pagerank_steps_reach_the_closed_form() -> None:
    x, adjacency = vectors(), dense("gcn")
    identity = torch.eye(9, dtype=torch.float64)
    expected = 0.3 * torch.linalg.solve(identity - 0.7 * adjacency, x)
    many = make_aggregation("appnp", 4, hops=200, teleport=0.3)
    torch.testing.assert_close(join(many, x), expected)


def test_pagerank_settings_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match=r"teleport must be from 0 to 1; got 1\.5"):
        make_aggregation("appnp", 4, teleport=1.5)
    with pytest.raises(BadInput, match="hops must be a whole number of at least 1"):
        make_aggregation("appnp", 4, hops=0)
