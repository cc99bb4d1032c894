from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from model_batches import train_together
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import BadInput, Experiment, PreparedGraph, RunConfig, build_model, train_full_batch
from crossgcn.data.splits import make_splits
from crossgcn.graph import edges_of_kind
from crossgcn.layers.aggregation.several_hops import RandomPropagation
from crossgcn.models.cross_grand import CrossGrand, consistency_penalty
from crossgcn.training.objective import Objective
from crossgcn.training.selection import TrainedModel


def dense_propagation(x: Tensor, edge_index: Tensor, hops: int) -> Tensor:
    """The mean of Âᵖx over p from 0, by powers of a dense matrix."""
    adjacency = torch.from_numpy(
        edges_of_kind("gcn", edge_index, x.size(0), dtype=torch.float64).to_scipy().toarray()
    )
    powers = [torch.linalg.matrix_power(adjacency, p) @ x for p in range(hops + 1)]
    return torch.stack(powers).mean(dim=0)


def agreement(draws: list[Tensor], temperature: float) -> Tensor:
    """The penalty in words: a loop over draws, nodes and classes."""
    predictions = [torch.softmax(scores, dim=-1) for scores in draws]
    total = torch.zeros((), dtype=torch.float64)
    for node in range(draws[0].size(0)):
        mean = torch.stack([p[node] for p in predictions]).mean(dim=0).detach()
        sharp = mean ** (1 / temperature)
        sharp = sharp / sharp.sum()
        for prediction in predictions:
            for c in range(sharp.numel()):
                total = total + (prediction[node, c] - sharp[c]) ** 2
    return total / (len(draws) * draws[0].size(0))


def train(data: Data, name: str = "cross-grand", **settings: Any) -> TrainedModel:
    torch.manual_seed(0)
    settings = {"hidden_channels": 8, "hops": 3} | settings
    model = build_model(name, data.x.size(1), data.num_classes, **settings)
    graph = PreparedGraph(data.x, data.edge_index)
    split = make_splits(data, "public")[0]
    return train_full_batch(model, graph, data.y, split, seed=3, epochs=30)


def test_scores_are_a_perceptron_over_the_mean_of_powers(small_graph: Data) -> None:
    """One layer of crosses and one linear one, written out."""
    x, edges = small_graph.x.to_dense().double(), small_graph.edge_index
    model = CrossGrand(24, 8, 3, hops=4).double().eval()
    layers: list[Any] = list(model.layers)
    first, second = layers
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_()
        mixed = dense_propagation(x, edges, 4)
        order_weights = first.transform.order_weights
        one, two = (mixed @ projection.T for projection in first.transform.weight)
        hidden = torch.relu(one + order_weights[1] * one * two + first.bias)
        expected = hidden @ second.weight[0].T + second.bias
        graph = PreparedGraph(x, edges, dtype=torch.float64)
        everyone = torch.arange(90)
        torch.testing.assert_close(model(x, edges), expected)
        torch.testing.assert_close(model(*graph.view(everyone, model.propagations)), expected)
        some = torch.tensor([5, 88, 0])
        torch.testing.assert_close(model(*graph.view(some, model.propagations)), expected[some])


def test_crosses_before_propagation_are_crosses_of_each_node(small_graph: Data) -> None:
    x, edges = small_graph.x.to_dense().double(), small_graph.edge_index
    model = CrossGrand(24, 8, 3, 1, hops=2, aggregate_first=False, bias=False).double().eval()
    with torch.no_grad():
        transform: Any = model.layers[0].transform
        transform.order_weights[1] = 0.7
        expected = dense_propagation(transform(x), edges, 2)
        torch.testing.assert_close(model(x, edges), expected)


def test_a_dropped_node_sends_nothing_and_the_others_more(small_graph: Data) -> None:
    """Whole rows go or stay; on average nothing changes."""
    hops = [edges_of_kind("gcn", small_graph.edge_index, 90)] * 2
    layer = RandomPropagation(4, hops=2, node_drop=0.5).train()
    ones = torch.ones(90, 4)
    torch.manual_seed(0)
    draws = torch.stack([layer(ones, hops) for _ in range(400)])
    assert torch.equal(draws[..., :1].expand_as(draws), draws)
    torch.testing.assert_close(draws.mean(dim=0), layer.eval()(ones, hops), rtol=0.3, atol=0.1)
    assert draws.std(dim=0).min() > 0.05


def test_the_penalty_and_its_gradient_are_those_of_a_loop() -> None:
    draws = [torch.randn(7, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ours, slow = consistency_penalty(draws, 0.4), agreement(draws, 0.4)
    torch.testing.assert_close(ours, slow, rtol=1e-12, atol=1e-14)
    pairs = zip(torch.autograd.grad(ours, draws), torch.autograd.grad(slow, draws), strict=True)
    for gradient, expected in pairs:
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-13)


def test_certain_predictions_at_a_low_temperature_stay_finite() -> None:
    draws = [torch.tensor([[200.0, 0.0, -200.0]], requires_grad=True) for _ in range(2)]
    penalty = consistency_penalty(draws, 0.01)
    (gradient, _) = torch.autograd.grad(penalty, draws)
    assert penalty == 0.0
    assert gradient.isfinite().all()


def test_the_objective_is_the_mean_loss_of_all_draws_and_their_agreement(
    small_graph: Data,
) -> None:
    data, nodes = small_graph, torch.tensor([4, 50, 7])
    model = CrossGrand(24, 8, 3, draws=3, consistency=1.7, temperature=0.5, dropout=0.0).double()
    graph = PreparedGraph(data.x.to_dense().double(), data.edge_index, dtype=torch.float64)
    torch.manual_seed(5)
    step = Objective(model, graph, data.y, [nodes], 5e-4)()
    torch.manual_seed(5)
    draws = [model(data.x.to_dense().double(), data.edge_index) for _ in range(3)]
    assert not torch.allclose(draws[0], draws[1])
    losses = [-s.log_softmax(1)[nodes, data.y[nodes]].mean() for s in draws]
    torch.testing.assert_close(step.losses[0], torch.stack(losses).mean())
    (penalty,) = step.penalties
    torch.testing.assert_close(penalty, 1.7 * agreement(draws, 0.5))


def test_agreement_counts_in_full_only_after_the_warm_up(small_graph: Data) -> None:
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    model = CrossGrand(24, 8, 3, warm_up=10, node_drop=0.0, dropout=0.0)
    counts = torch.tensor(0)
    objective = Objective(model, graph, small_graph.y, [torch.tensor([4, 50])], 0.0, "cpu", counts)
    penalties = []
    for count in (1, 5, 10, 50):
        counts.fill_(count)
        penalties.append(objective().penalties[0].detach().item())
    full = penalties[2]
    assert penalties == pytest.approx([0.1 * full, 0.5 * full, full, full])


def test_draws_of_one_step_differ_and_the_same_seed_gives_the_same_bytes(
    small_graph: Data,
) -> None:
    one, other = train(small_graph), train(small_graph)
    assert one.history == other.history
    assert all(torch.equal(value, other.state[name]) for name, value in one.state.items())
    assert train(small_graph, draws=1).history != one.history


def test_trained_together_each_is_as_if_trained_alone(small_graph: Data) -> None:
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    whole = make_splits(small_graph, "public")[0]
    # Of unequal sizes, so that the models' rows are padded.
    splits = [
        whole,
        replace(whole, train=whole.train[::2], validation=whole.validation[:-3]),
        replace(whole, train=whole.train[1:4]),
    ]
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(build_model("cross-grand", 24, 3, hidden_channels=8, hops=3))
    together = train_together(
        models, graph, small_graph.y, splits, [7, 8, 9], epochs=12, learning_rate=0.05
    )
    for model, split, seed, result in zip(models, splits, (7, 8, 9), together, strict=True):
        (alone,) = train_together(
            [model], graph, small_graph.y, [split], [seed], epochs=12, learning_rate=0.05
        )
        assert isinstance(result, TrainedModel)
        assert isinstance(alone, TrainedModel)
        assert result.best_epoch == alone.best_epoch
        losses = [[epoch.train_loss for epoch in r.history] for r in (result, alone)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_without_crosses_it_is_grand(small_graph: Data) -> None:
    """Same seed, same draws: the twin differs in the crosses and in nothing else."""
    assert train(small_graph, order=1, order_weights="fixed").history == (
        train(small_graph, "grand").history
    )


def test_it_is_trained_by_name_and_never_reads_the_test_nodes_of_a_search(
    small_graph: Data,
) -> None:
    config = RunConfig.create(
        model="cross-grand", hops=2, epochs=5, splits="public", hidden_channels=4
    )
    (searched,) = Experiment([config], small_graph).run(read_test=False)
    assert [record["test_accuracy"] for record in searched.records] == [None]
    (read,) = Experiment([config], small_graph).run()
    assert read.validation_score == searched.validation_score
    assert 0.0 <= read.test_accuracy[0] <= 1.0


@pytest.mark.parametrize(
    ("setting", "value"),
    [("hops", 0), ("draws", 0), ("temperature", 0.0), ("consistency", -1.0), ("warm_up", -1)],
)
def test_what_makes_no_sense_is_refused(setting: str, value: float) -> None:
    with pytest.raises(BadInput, match=f"{setting} must be .* got {value}"):
        CrossGrand(6, 8, 3, **{setting: value})  # type: ignore[arg-type]


def test_the_objective_can_be_asked_without_dropout(small_graph: Data) -> None:
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    model = CrossGrand(24, 8, 3, draws=3).eval()
    step = Objective(model, graph, small_graph.y, [torch.tensor([4, 50])], 0.0)()
    scores = model(small_graph.x, small_graph.edge_index)[[4, 50]]
    torch.testing.assert_close(step.scores[0], torch.cat([scores] * 3))


def test_crosses_in_later_layers_are_refused() -> None:
    assert CrossGrand(6, 8, 3, order=[3, 1]).layers[0].order == 3
    with pytest.raises(BadInput, match=r"order=\[2, 2\]: .* only the first has crosses"):
        CrossGrand(6, 8, 3, order=[2, 2])
