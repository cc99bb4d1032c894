from __future__ import annotations

import pytest
import torch
from aggregation_cases import EDGES, dense, join, shake, vectors
from torch_geometric.nn import ChebConv

from crossgcn import BadInput
from crossgcn.layers.aggregation.chebyshev import Chebyshev


@pytest.mark.parametrize("hops", [1, 2, 4])
def test_the_filter_is_pygs(hops: int) -> None:
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


def test_it_starts_as_half_a_node_and_half_its_neighbours() -> None:
    x, adjacency = vectors(), dense("symmetric")
    torch.testing.assert_close(join(Chebyshev(4, hops=3).double(), x), (x + adjacency @ x) / 2)


def test_at_least_one_hop() -> None:
    with pytest.raises(BadInput, match="hops must be at least 1; got 0"):
        Chebyshev(4, hops=0)
