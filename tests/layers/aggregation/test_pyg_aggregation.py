from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from aggregation_cases import NODES, WEIGHTS, dense, edges, join, shake, vectors
from torch import Tensor
from torch_geometric.nn import aggr

from crossgcn import BadInput
from crossgcn.layers import AGGREGATIONS, make_aggregation

JOINED_BY_HAND: dict[str, Callable[[Tensor], Tensor]] = {
    "raw-max": lambda group: group.amax(0),
    "raw-min": lambda group: group.amin(0),
    "median": lambda group: group.median(0).values,
    "raw-mul": lambda group: group.prod(0),
    "var": lambda group: group.var(0, correction=0),
    "std": lambda group: group.std(0, correction=0),
    "variance-preserving": lambda group: group.sum(0) / group.size(0) ** 0.5,
    "softmax": lambda group: (group.softmax(0) * group).sum(0),
    "powermean": lambda group: group.clamp(1e-4, 100.0).mean(0),
}


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", JOINED_BY_HAND)
def test_each_joins_the_weighed_messages_of_a_node(name: str, weights: Tensor | None) -> None:
    x, adjacency = vectors(), dense("self-loops", weights)
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


def test_exponents_are_learned_unless_held_and_may_be_one_per_channel() -> None:
    for name, exponent in (("softmax", "t"), ("powermean", "p")):
        learned = make_aggregation(name, 4, per_channel=True)
        assert [p.numel() for p in learned.parameters()] == [4]
        held = make_aggregation(name, 4, learn=False, **{exponent: 2.0})
        assert list(held.parameters()) == []


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
    x, hop = vectors(), edges("self-loops", None)
    for name in ("max", "min", "median", "mul", "std", "var"):
        theirs = aggr.MultiAggregation([name])(x[hop.columns], hop.rows, dim_size=NODES)
        ours = make_aggregation(name if name in ("median", "std", "var") else f"raw-{name}", 4)
        torch.testing.assert_close(join(ours, x, None), theirs)
