"""Layers that add to what enters them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCNConv, PreparedGraph, train_full_batch
from crossgcn.data.splits import Split
from crossgcn.graph import ModelBatchMatrix
from crossgcn.models.node_classifier import NodeClassifier, Residual, layer_widths
from crossgcn.training.model_batch import can_be_compiled, stack_models

KINDS: tuple[Residual, ...] = ("none", "add", "norm")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they bring on a graph this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(
    residual: Residual, num_layers: int = 4, *, seed: int = 0, order: int = 2
) -> NodeClassifier:
    torch.manual_seed(seed)
    layers = [
        CrossGCNConv(width_in, width_out, order, order_weights="learned")
        for width_in, width_out in layer_widths(24, 8, 3, num_layers)
    ]
    return NodeClassifier(layers, 0.0, residual=residual)


def by_hand(model: NodeClassifier, x: Tensor, edge_index: Tensor) -> Tensor:
    """The layers one after the other, as their definition says."""
    hidden: Tensor = model.layers[0](x, edge_index)
    for layer in model.layers[1:]:
        seen = hidden.clamp(min=0)
        if model.residual == "norm":
            lengths = seen.square().sum(dim=1, keepdim=True).sqrt()
            seen = torch.where(lengths > 0, seen / lengths, 0.0)
        out = layer(seen, edge_index)
        if model.residual != "none" and out.shape == hidden.shape:
            out = out + hidden
        hidden = out
    return hidden


@pytest.mark.parametrize("residual", KINDS)
def test_a_stack_is_its_layers_one_after_the_other(residual: Residual, small_graph: Data) -> None:
    model = make(residual).double()
    x = small_graph.x.to_dense().double()
    torch.testing.assert_close(
        model(x, small_graph.edge_index), by_hand(model, x, small_graph.edge_index)
    )


def test_the_three_kinds_are_three_models(small_graph: Data) -> None:
    outs = [make(residual)(small_graph.x, small_graph.edge_index) for residual in KINDS]
    assert not torch.allclose(outs[0], outs[1])
    assert not torch.allclose(outs[1], outs[2])


@pytest.mark.parametrize("residual", KINDS)
def test_a_piece_of_the_graph_gives_its_targets_what_the_whole_gives(
    residual: Residual, small_graph: Data
) -> None:
    model = make(residual)
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    targets = torch.tensor([3, 60, 61, 7])
    whole = model(graph.x, graph.adjacency)
    torch.testing.assert_close(model(*graph.view(targets, model.propagations)), whole[targets])


@pytest.mark.parametrize("residual", KINDS[1:])
def test_models_side_by_side_add_each_its_own(residual: Residual, small_graph: Data) -> None:
    models = [make(residual, seed=seed) for seed in (1, 2)]
    stacked = stack_models(models)
    assert not can_be_compiled(stack_models(models[:1]))
    graph = PreparedGraph(small_graph.x.to_dense(), small_graph.edge_index)
    assert isinstance(graph.x, Tensor)
    together = stacked(graph.x.expand(2, -1, -1), ModelBatchMatrix([graph.adjacency] * 2))
    for position, model in enumerate(models):
        torch.testing.assert_close(together[position], model(graph.x, graph.adjacency))


@pytest.mark.parametrize("residual", KINDS[1:])
def test_sixteen_layers_learn_what_they_do_not_without(
    residual: Residual, small_graph: Data
) -> None:
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    nodes = torch.arange(90)
    split = Split(nodes[:60], nodes[60:75], nodes[75:])
    losses = {}
    for kind in ("none", residual):
        model = make(kind, 16, order=1)
        result = train_full_batch(model, graph, small_graph.y, split, seed=0, epochs=40)
        losses[kind] = result.history[-1].train_loss
    assert losses["none"] > 0.9
    assert losses[residual] < 0.6


def test_a_row_without_any_active_unit_has_no_length_and_no_bad_gradient() -> None:
    model = make("norm", 2)
    x = torch.zeros(3, 24, requires_grad=True)
    edges = torch.empty(2, 0, dtype=torch.long)
    out = model(x, edges)
    assert out.isfinite().all()
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient.isfinite().all()


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"residual.*'adds'.*add.*norm"):
        NodeClassifier([], 0.5, residual="adds")  # type: ignore[arg-type]
