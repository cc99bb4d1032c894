from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from aggregation_cases import EDGES, WEIGHTS, dense, edges, join, shake, vectors
from torch import Tensor
from torch_geometric.nn import GCNConv

from crossgcn import BadInput, CrossGCNConv
from crossgcn.layers import AGGREGATIONS, make_aggregation

JOINED_BY_HAND: dict[str, Callable[[Tensor], Tensor]] = {
    "raw-max": lambda group: group.amax(0),
    "raw-min": lambda group: group.amin(0),
    "median": lambda group: group.median(0).values,
    "raw-median": lambda group: group.median(0).values,
    "raw-softmax": lambda group: (group.softmax(0) * group).sum(0),
    "raw-mul": lambda group: group.prod(0),
    "var": lambda group: group.var(0, correction=0),
    "std": lambda group: group.std(0, correction=0) * (group.var(0, correction=0) > 1e-5),
    "variance-preserving": lambda group: group.sum(0) / group.size(0) ** 0.5,
    "softmax": lambda group: (group.softmax(0) * group).sum(0),
    "powermean": lambda group: group.mean(0),
}


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", JOINED_BY_HAND)
def test_each_joins_the_weighed_messages_of_a_node(name: str, weights: Tensor | None) -> None:
    x, adjacency = vectors(), dense("self-loops" if name.startswith("raw-") else "gcn", weights)
    groups = [(row[:, None] * x)[row != 0] for row in adjacency]
    expected = torch.stack([JOINED_BY_HAND[name](group) for group in groups])
    out = join(make_aggregation(name, 4).double(), x, weights)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)


def test_the_attentional_one_weighs_by_a_score_of_each_neighbour() -> None:
    aggregation = make_aggregation("attentional", 4).double()
    shake(aggregation)
    (score,) = aggregation.parameters()
    x, adjacency = vectors(), dense("self-loops", None)
    groups = [x[row != 0] for row in adjacency]
    expected = torch.stack([((g @ score.T).softmax(0) * g).sum(0) for g in groups])
    torch.testing.assert_close(join(aggregation, x, None), expected)


def test_several_parts_are_projected_to_one_width() -> None:
    aggregation = make_aggregation("multi", 4, parts=["sum", "min"]).double()
    (projection,) = aggregation.parameters()
    x, adjacency = vectors(), dense("self-loops", None)
    groups = [x[row != 0] for row in adjacency]
    both = torch.stack([torch.cat([g.sum(0), g.amin(0)]) for g in groups])
    torch.testing.assert_close(join(aggregation, x, None), both @ projection.T)
    with pytest.raises(BadInput, match=r"unknown part of 'multi' 'lstm'.*known are max, min"):
        make_aggregation("multi", 4, parts=["lstm"])


def test_a_temperature_is_learned_unless_held_and_may_be_one_per_channel() -> None:
    learned = make_aggregation("raw-softmax", 4, per_channel=True)
    assert [p.numel() for p in learned.parameters()] == [4]
    assert list(make_aggregation("raw-softmax", 4, learn=False, t=2.0).parameters()) == []


@pytest.mark.parametrize(
    "name", [name for name, part in AGGREGATIONS.items() if "pyg_aggregation:make" in part.target]
)
def test_no_node_has_part_in_another_ones_result(name: str) -> None:
    """Padding to the longest list of neighbours would let a heavy node change all others."""
    aggregation = make_aggregation(name, 4).double()
    shake(aggregation)
    x, hop = vectors(), edges("self-loops")
    alone = torch.stack([aggregation(x, [hop.select_rows(torch.tensor([i]))])[0] for i in range(9)])
    torch.testing.assert_close(join(aggregation, x), alone)


def test_those_named_as_pygs_are_pygs() -> None:
    """In the layer over COO edges, and over prepared edges as a model is trained."""
    x = vectors()
    for name in (n for n, part in AGGREGATIONS.items() if part.target.endswith("LayerMessages")):
        conv, theirs = CrossGCNConv(4, 3, 1, aggr=name), GCNConv(4, 3, aggr=name)
        theirs.lin.weight = torch.nn.Parameter(conv.weight[0].detach())
        expected = theirs.double()(x, EDGES, WEIGHTS)
        torch.testing.assert_close(conv.double()(x, EDGES, WEIGHTS), expected)
        torch.testing.assert_close(conv(x, edges("gcn")), expected)
