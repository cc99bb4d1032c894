from __future__ import annotations

import pytest
import torch
from aggregation_cases import EDGES, WEIGHTS, dense, join, vectors
from torch_geometric.nn import APPNP

from crossgcn import BadInput
from crossgcn.layers.aggregation import make_aggregation


def test_steps_are_pygs() -> None:
    theirs = APPNP(K=10, alpha=0.1)
    torch.testing.assert_close(
        join(make_aggregation("appnp", 4), vectors()), theirs(vectors(), EDGES, WEIGHTS)
    )


def test_many_steps_reach_the_closed_form() -> None:
    x, adjacency = vectors(), dense("gcn")
    identity = torch.eye(9, dtype=torch.float64)
    expected = 0.3 * torch.linalg.solve(identity - 0.7 * adjacency, x)
    many = make_aggregation("appnp", 4, hops=200, teleport=0.3)
    torch.testing.assert_close(join(many, x), expected)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match=r"teleport is a part, from 0 to 1; got 1\.5"):
        make_aggregation("appnp", 4, teleport=1.5)
    with pytest.raises(BadInput, match="hops must be at least 1"):
        make_aggregation("appnp", 4, hops=0)
