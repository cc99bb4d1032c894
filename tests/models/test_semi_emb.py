from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import MLP, BadInput, PreparedGraph, build_model, load_dataset, train_full_batch
from crossgcn.data.splits import make_splits
from crossgcn.graph import edges_of_kind, mean_laplacian
from crossgcn.models.cross_gcn import SemiEmb, laplacian_penalty
from crossgcn.training.objective import Objective
from crossgcn.training.selection import TrainedModel


def mean_over_edges(scores: Tensor, edge_index: Tensor) -> Tensor:
    """The penalty in words: every edge once, no self-loop, squared distance of both ends."""
    edges = {tuple(sorted(pair)) for pair in edge_index.t().tolist() if pair[0] != pair[1]}
    predictions = [torch.exp(row) / torch.exp(row).sum() for row in scores]
    total = torch.zeros((), dtype=scores.dtype)
    for i, j in sorted(edges):
        for ours, theirs in zip(predictions[i], predictions[j], strict=True):
            total = total + (ours - theirs) ** 2
    return total / len(edges)


def train(data: Data, **settings: Any) -> TrainedModel:
    torch.manual_seed(0)
    model = build_model("semi-emb", data.x.size(1), data.num_classes, hidden_channels=8, **settings)
    graph = PreparedGraph(data.x, data.edge_index)
    return train_full_batch(model, graph, data.y, make_splits(data, "public")[0], epochs=40)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_penalty_and_its_gradient_are_those_of_a_loop_over_edges(
    weighted: bool, small_graph: Data
) -> None:
    edges = torch.cat([small_graph.edge_index, torch.tensor([[3, 88], [3, 88]])], dim=1)
    weight = torch.rand(edges.size(1)) + 0.1 if weighted else None
    laplacian = mean_laplacian(edges_of_kind("gcn", edges, 90, weight))
    scores = torch.randn(90, 3, dtype=torch.float64, requires_grad=True)
    ours, slow = laplacian_penalty(scores, laplacian), mean_over_edges(scores, edges)
    torch.testing.assert_close(ours, slow, rtol=1e-12, atol=1e-14)
    (gradient,), (expected,) = (torch.autograd.grad(value, scores) for value in (ours, slow))
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-13)


def test_an_edge_stored_in_one_direction_counts_as_one_stored_in_both() -> None:
    both = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    scores = torch.randn(4, 3, dtype=torch.float64)
    one_way, two_way = (
        laplacian_penalty(scores, mean_laplacian(edges_of_kind("gcn", edges, 4)))
        for edges in (both[:, ::2], both)
    )
    torch.testing.assert_close(one_way, two_way, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(two_way, mean_over_edges(scores, both), rtol=1e-12, atol=0.0)


def test_a_graph_without_edges_has_no_penalty() -> None:
    nothing = edges_of_kind("gcn", torch.empty(2, 0, dtype=torch.long), 4)
    assert laplacian_penalty(torch.randn(4, 3), mean_laplacian(nothing)) == 0.0


def test_the_objective_is_loss_and_weighted_penalty_of_one_pass(small_graph: Data) -> None:
    """With dropout the two would differ if they came from two passes."""
    data, nodes = small_graph, torch.tensor([4, 50, 7])
    model = SemiEmb(24, 8, 2, 3, laplacian_weight=2.5).double()
    graph = PreparedGraph(data.x.to_dense().double(), data.edge_index)
    torch.manual_seed(5)
    step = Objective(model, graph, data.y, [nodes], 5e-4)()
    torch.manual_seed(5)
    scores = model(data.x.to_dense().double())
    loss = -scores.log_softmax(1)[nodes, data.y[nodes]].mean()
    torch.testing.assert_close(step.scores[0], scores[nodes])
    torch.testing.assert_close(step.losses[0], loss)
    (penalty,) = step.penalties
    torch.testing.assert_close(penalty, 2.5 * mean_over_edges(scores, data.edge_index))


def test_a_larger_weight_brings_the_predictions_of_neighbours_together(small_graph: Data) -> None:
    apart = []
    for weight in (0.0, 0.5, 5.0):
        state = train(small_graph, laplacian_weight=weight).state
        model = SemiEmb(24, 8, 2, 3, bias=False).eval()
        model.load_state_dict(state)
        apart.append(mean_over_edges(model(small_graph.x).detach(), small_graph.edge_index))
    assert apart[0] > apart[1] > apart[2]


def test_without_weight_it_is_an_mlp_to_the_last_bit(small_graph: Data) -> None:
    ours = train(small_graph, laplacian_weight=0.0)
    torch.manual_seed(0)
    model = MLP(24, 8, 2, 3, dropout=0.5, bias=False)
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    split = make_splits(small_graph, "public")[0]
    theirs = train_full_batch(model, graph, small_graph.y, split, epochs=40)
    assert ours.history == theirs.history
    assert all(torch.equal(value, theirs.state[name]) for name, value in ours.state.items())


def test_the_graph_is_not_needed_to_predict() -> None:
    model, data = build_model("semi-emb", 3703, 6).eval(), load_dataset("citeseer")
    assert model.num_hops == 0
    assert torch.equal(model(data.x, data.edge_index), model(data.x, data.edge_index[:, :9]))


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_makes_no_sense_is_refused(weight: float) -> None:
    with pytest.raises(BadInput, match=rf"laplacian_weight must be .* got {weight}"):
        SemiEmb(6, 8, 2, 3, laplacian_weight=weight)


def test_other_models_have_no_such_option() -> None:
    for name in ("mlp", "gcn", "cross-gcn"):
        with pytest.raises(BadInput, match=f"{name!r} has no option 'laplacian_weight'"):
            build_model(name, 6, 3, laplacian_weight=0.1)
