from __future__ import annotations

import pytest
import torch
from aggregation_cases import WEIGHTS, dense, join, shake, vectors
from torch import Tensor
from torch_geometric.nn import SAGEConv

from crossgcn import BadInput
from crossgcn.layers.aggregation import make_aggregation
from crossgcn.layers.aggregation.self_and_neighbours import SelfAndNeighbours


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", ["sage", "sage-max"])
def test_both_parts_have_a_map_of_their_own(name: str, weights: Tensor | None) -> None:
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


def test_with_a_mean_it_is_pygs_graphsage() -> None:
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


def test_it_starts_as_a_plain_sum_of_both_parts() -> None:
    x, adjacency = vectors(), dense("neighbours", None)
    mean = adjacency @ x / adjacency.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(join(make_aggregation("sage", 4).double(), x, None), x + mean)


def test_neighbours_may_be_joined_in_any_way_that_leaves_the_node_out() -> None:
    softmax = make_aggregation("sage", 4, join="softmax", t=0.5)
    assert isinstance(softmax, SelfAndNeighbours)
    assert softmax.stackable is False
    assert make_aggregation("sage", 4).stackable is True
    with pytest.raises(BadInput, match="GCNSum weighs edges with the node among its neighbours"):
        make_aggregation("sage", 4, join="gcn")
    with pytest.raises(BadInput, match="aggregation 'mean' has no setting 'heads'"):
        make_aggregation("sage", 4, heads=2)
