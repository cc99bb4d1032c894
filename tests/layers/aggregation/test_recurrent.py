from __future__ import annotations

from typing import cast

import pytest
import torch
from aggregation_cases import WEIGHTS, dense, edges, join, shake, vectors
from torch import Tensor

from crossgcn.layers import make_aggregation
from crossgcn.layers.aggregation.one_hop import RecurrentAggregation


def read_one_by_one(aggregation: RecurrentAggregation, group: Tensor) -> Tensor:
    """One node's messages, in the order of their score, as a sequence of its own."""
    direction = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).sin()
    sequence = group[(group @ direction).argsort()]
    states, _ = aggregation.network(sequence.unsqueeze(1))
    return cast(Tensor, aggregation.read_out(states[-1, 0]))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_packed_sequences_are_read_as_each_would_be_alone(
    name: str, weights: Tensor | None
) -> None:
    aggregation = make_aggregation(name, 4).double()
    assert isinstance(aggregation, RecurrentAggregation)
    shake(aggregation)
    x, adjacency = vectors(), dense("self-loops", weights)
    expected = torch.stack(
        [read_one_by_one(aggregation, (row[:, None] * x)[row != 0]) for row in adjacency]
    )
    torch.testing.assert_close(join(aggregation, x, weights), expected)


def test_nodes_without_neighbours_are_zero_where_they_do_not_count_themselves() -> None:
    aggregation = make_aggregation("lstm", 4).double()
    out = aggregation(vectors(), [edges("neighbours")])
    assert out[8].tolist() == [0.0] * 4
    assert out[:8].ne(0).any(dim=1).all()
    nothing = edges("neighbours").select_rows(torch.tensor([8, 8]))
    assert aggregation(vectors(), [nothing]).tolist() == [[0.0] * 4] * 2
