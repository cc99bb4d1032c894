"""What every aggregation does with gated orders, and every order aggregation with APPNP.

Aggregations see vectors and edges, order aggregations see the orders of a row: neither sees the
other, so each is tested with one of the other kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional

from crossgcn import BadInput, CrossGCNConv
from crossgcn.graph import PreparedGraph, edges_of_kind, receptive_field, stack_inputs
from crossgcn.layers import AGGREGATIONS, ORDER_AGGREGATIONS, make_aggregation
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.model_batch import can_be_stacked, stack_models

ORDER_WEIGHTS = tuple(ORDER_AGGREGATIONS)
NODES, FEATURES, OUTPUTS = 9, 5, 4
EDGES = torch.tensor(  # node 8 is isolated, node 3 has a self-loop
    [[0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 0, 5, 3], [1, 0, 2, 1, 4, 5, 3, 3, 7, 6, 5, 0, 3]]
)
WEIGHTS = torch.linspace(0.3, 2.0, EDGES.size(1), dtype=torch.float64)

every_combination = pytest.mark.parametrize(
    ("name", "order_weights"),
    [
        *((name, "gated") for name in AGGREGATIONS),
        *(("appnp", weights) for weights in ORDER_WEIGHTS if weights != "gated"),
    ],
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they bring on a graph this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def features(nodes: int = NODES) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(nodes, FEATURES, generator=generator, dtype=torch.float64)


def make(
    name: str, order_weights: str, seed: int = 0, *, aggregate_first: bool = False
) -> CrossGCNConv:
    """A layer in float64 that scores, its parameters moved away from where they start.

    A closed gate or an identity would hide what lies behind it.
    """
    torch.manual_seed(seed)
    aggr = partial(make_aggregation, name)
    conv = CrossGCNConv(
        FEATURES, OUTPUTS, order_weights=order_weights, aggr=aggr, aggregate_first=aggregate_first
    )
    conv.double().eval()
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return conv


@every_combination
def test_nodes_may_be_numbered_in_any_way(name: str, order_weights: str) -> None:
    conv, x = make(name, order_weights), features()
    permutation = torch.tensor([4, 7, 0, 8, 2, 6, 1, 3, 5])
    moved = torch.empty_like(x)
    moved[permutation] = x
    shuffled = torch.arange(EDGES.size(1)).flip(0)
    out = conv(moved, permutation[EDGES][:, shuffled], WEIGHTS[shuffled])
    torch.testing.assert_close(out[permutation], conv(x, EDGES, WEIGHTS))


@every_combination
def test_a_piece_of_the_graph_gives_the_rows_of_the_whole(name: str, order_weights: str) -> None:
    conv, x = make(name, order_weights), features()
    kinds = {
        kind: edges_of_kind(kind, EDGES, NODES, WEIGHTS, dtype=torch.float64)
        for kind in conv.propagations
    }
    targets = torch.tensor([8, 0, 4])
    field = receptive_field([kinds[kind] for kind in conv.propagations], targets)
    out = conv(x[field.input_rows], field.blocks)
    torch.testing.assert_close(out, conv(x, EDGES, WEIGHTS)[targets])


@every_combination
def test_isolated_nodes_are_finite_and_so_are_their_gradients(
    name: str, order_weights: str
) -> None:
    conv, x = make(name, order_weights), features().requires_grad_()
    nowhere = torch.empty(2, 0, dtype=torch.long)
    for edges in (EDGES, nowhere):
        out = conv(x, edges)
        gradients = torch.autograd.grad(
            out.square().sum(), [x, *conv.parameters()], allow_unused=True
        )
        assert out.isfinite().all()
        assert all(g is None or g.isfinite().all() for g in gradients)
    # What an isolated node gets does not depend on the rest of the graph.
    torch.testing.assert_close(conv(x, EDGES)[8], conv(x, nowhere)[8])


@every_combination
def test_gradients_reach_every_parameter_and_are_those_of_finite_differences(
    name: str, order_weights: str
) -> None:
    conv, x = make(name, order_weights), features().requires_grad_()
    generator = torch.Generator().manual_seed(7)
    tensors = [x, *conv.parameters()]
    directions = [torch.randn(t.shape, generator=generator, dtype=torch.float64) for t in tensors]
    mix = torch.randn(NODES, OUTPUTS, generator=generator, dtype=torch.float64)

    def objective() -> Tensor:
        out: Tensor = conv(x, EDGES, WEIGHTS)
        return (out * mix).sum()

    gradients = torch.autograd.grad(objective(), tensors)
    names = ["x", *(name for name, _ in conv.named_parameters())]
    assert [n for n, g in zip(names, gradients, strict=True) if not g.any()] == []

    step = 1e-6
    with torch.no_grad():
        values = []
        for sign in (1.0, -1.0):
            for tensor, direction in zip(tensors, directions, strict=True):
                tensor.add_(sign * step * direction)
            values.append(objective())
            for tensor, direction in zip(tensors, directions, strict=True):
                tensor.sub_(sign * step * direction)
    slope = sum(
        ((g * d).sum() for g, d in zip(gradients, directions, strict=True)), torch.zeros(())
    )
    difference = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close(slope.double(), difference, rtol=1e-5, atol=1e-6)


@every_combination
def test_aggregating_first_crosses_what_was_aggregated(name: str, order_weights: str) -> None:
    """A linear aggregation comes after the projections, which shows in no number."""
    conv, x = make(name, order_weights, aggregate_first=True), features().requires_grad_()
    assert conv.aggregation is not None
    wide = make_aggregation(name, FEATURES).double().eval()
    if not conv.aggregation.linear:
        wide.load_state_dict(conv.aggregation.state_dict())
    kinds = {
        kind: edges_of_kind(kind, EDGES, NODES, WEIGHTS, dtype=x.dtype)
        for kind in conv.propagations
    }
    joined = wide(x, [kinds[kind] for kind in wide.propagations])
    expected = conv.transform(joined) + conv.bias
    out = conv(x, EDGES, WEIGHTS)
    torch.testing.assert_close(out, expected)
    gradients = torch.autograd.grad(out.square().sum(), [x, *conv.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)


@every_combination
def test_halves_pass_through_and_back(name: str, order_weights: str) -> None:
    conv, x = make(name, order_weights).bfloat16(), features().bfloat16().requires_grad_()
    out = conv(x, EDGES, WEIGHTS)
    assert out.dtype == torch.bfloat16 and out.shape == (NODES, OUTPUTS)
    assert out.isfinite().all()
    gradients = torch.autograd.grad(out.sum(), [x, *conv.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)


@every_combination
def test_what_is_saved_is_what_is_loaded(name: str, order_weights: str) -> None:
    conv, restored = make(name, order_weights), make(name, order_weights, seed=1)
    x = features()
    expected = conv(x, EDGES)
    assert not torch.equal(restored(x, EDGES), expected)
    restored.load_state_dict(load(save(conv.state_dict())))
    torch.testing.assert_close(restored(x, EDGES), expected, rtol=0, atol=0)


@every_combination
def test_training_lowers_the_loss(name: str, order_weights: str) -> None:
    """Twelve nodes in two rings, one per class, which the features tell apart."""
    y = torch.arange(12) % 2
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 2) % 12])
    edges = torch.cat([ring, ring.flip(0)], dim=1)
    x = features(12)
    x[:, 0] = 1.0 + y
    x[:, 1] = y - 0.5
    torch.manual_seed(0)
    aggr = partial(make_aggregation, name)
    conv = CrossGCNConv(FEATURES, OUTPUTS, order_weights=order_weights, aggr=aggr, cached=True)
    optimizer = torch.optim.Adam(conv.double().parameters(), lr=0.1)

    def loss() -> Tensor:
        return functional.cross_entropy(conv(x, edges), y)

    with torch.no_grad():
        before = float(loss())
    for _ in range(12):
        optimizer.zero_grad()
        torch.autograd.backward(loss())
        optimizer.step()
    with torch.no_grad():
        assert float(loss()) < 0.8 * before


@pytest.mark.parametrize("order_weights", ["gated", "mean"])
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_models_side_by_side_compute_what_each_does_alone(name: str, order_weights: str) -> None:
    layers = [make(name, order_weights, seed) for seed in (1, 2)]
    models = [NodeClassifier([layer], dropout=0.0).eval() for layer in layers]
    assert layers[0].aggregation is not None
    assert can_be_stacked(models[0]) == layers[0].aggregation.stackable
    if not can_be_stacked(models[0]):
        return
    graph = PreparedGraph(features(), EDGES, WEIGHTS, dtype=torch.float64)
    targets = [torch.tensor([8, 0, 4]), torch.tensor([3, 5])]
    views = [graph.view(nodes, models[0].propagations) for nodes in targets]
    together = stack_models(models)(*stack_inputs(views))
    for position, (model, view) in enumerate(zip(models, views, strict=True)):
        alone = model(*view)
        torch.testing.assert_close(together[position, : alone.size(0)], alone)


def test_unknown_combinations_are_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"unknown aggregation 'gatt'.*'gat'.*known are gcn, sum"):
        CrossGCNConv(5, 4, aggr="gatt")
    with pytest.raises(BadInput, match=r"unknown order_weights 'gate'.*'gated'.*known are fixed"):
        CrossGCNConv(5, 4, aggr="gat", order_weights="gate")
