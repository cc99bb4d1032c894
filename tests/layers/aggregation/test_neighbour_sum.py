from __future__ import annotations

import pytest
import torch
from aggregation_cases import EDGES, NODES, WEIGHTS, dense, join, vectors
from torch import Tensor

from crossgcn.graph import edges_of_kind
from crossgcn.layers.aggregation import make_aggregation


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_gcn_and_sum_are_products_with_their_matrix(weights: Tensor | None) -> None:
    x = vectors()
    torch.testing.assert_close(
        join(make_aggregation("gcn", 4), x, weights), dense("gcn", weights) @ x
    )
    torch.testing.assert_close(
        join(make_aggregation("sum", 4), x, weights), dense("self-loops", weights) @ x
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_mean_is_as_heavy_as_its_edges(weights: Tensor | None) -> None:
    x, adjacency = vectors(), dense("self-loops", weights)
    expected = torch.stack(
        [
            sum((w * v for w, v in zip(row, x, strict=True)), torch.zeros(4)) / row.sum()
            for row in adjacency
        ]
    )
    torch.testing.assert_close(join(make_aggregation("mean", 4), x, weights), expected)


def test_an_isolated_node_keeps_its_vector() -> None:
    x = vectors()
    for name in ("gcn", "sum", "mean"):
        torch.testing.assert_close(join(make_aggregation(name, 4), x)[8], x[8])


def test_weights_of_both_signs_that_cancel_leave_the_mean_finite() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    hop = edges_of_kind("self-loops", edges, 2, torch.tensor([-1.0, 0.0]), dtype=torch.float64)
    x = vectors()[:2]
    out = make_aggregation("mean", 4)(x, [hop])
    torch.testing.assert_close(out, torch.stack([x[0], (x[1] - x[0]) / 2]))


def test_a_row_without_edges_is_zero_in_a_mean() -> None:
    empty = edges_of_kind("neighbours", EDGES, NODES, dtype=torch.float64)
    out = make_aggregation("mean", 4)(vectors(), [empty])
    assert out[8].tolist() == [0.0] * 4
