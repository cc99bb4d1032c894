"""Models of high order and depth start alive on any features, and stay so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCN, CrossGCNConv, PreparedGraph, load_dataset, train_full_batch
from crossgcn.data.splits import Split, make_splits
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.cross_gcn import GIN
from crossgcn.models.node_classifier import NodeClassifier, calibrate, layer_widths
from crossgcn.training.model_batch import can_be_compiled, can_be_stacked, stack_models
from crossgcn.training.objective import make_optimizer

Task = tuple[Data, PreparedGraph, Split]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they bring on graphs this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=["citeseer", "citeseer-cross"])
def data(request: pytest.FixtureRequest) -> Data:
    return load_dataset(request.param)


def task(data: Data, factor: float = 1.0) -> Task:
    x = data.x
    if x.layout == torch.sparse_csr:
        x = torch.sparse_csr_tensor(
            x.crow_indices(), x.col_indices(), factor * x.values(), x.shape, check_invariants=False
        )
    else:
        x = factor * x
    split = make_splits(data, num_splits=1, train=5)[0]
    return data, PreparedGraph(x, data.edge_index), split


def make(
    task: Task, order: int, num_layers: int, *, dropout: float = 0.5, **settings: Any
) -> NodeClassifier:
    """A calibrated model of equally wide layers that add to what enters them."""
    data, graph, split = task
    torch.manual_seed(0)
    settings = {"scaling": "unit"} | settings
    model = NodeClassifier(
        (
            CrossGCNConv(width_in, width_out, order, **settings)
            for width_in, width_out in layer_widths(data.x.size(1), 8, 6, num_layers)
        ),
        dropout,
        residual="norm",
    )
    if not model.is_calibrated:
        calibrate(model, *graph.view(split.train, model.propagations))
    return model


def transforms(model: nn.Module) -> list[CrossFeatureTransform]:
    return [m for m in model.modules() if isinstance(m, CrossFeatureTransform)]


def slopes(model: NodeClassifier, task: Task) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and its gradient for every weight."""
    data, graph, split = task
    inputs = graph.view(split.train, model.propagations)
    loss = cross_entropy(model.eval()(*inputs), data.y[split.train])
    weights = dict(model.named_parameters())
    return loss.detach(), dict(
        zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True)
    )


@pytest.mark.parametrize("factor", [1.0, 1e6])
@pytest.mark.parametrize(("order", "num_layers"), [(8, 1), (8, 2), (2, 16), (4, 8)])
def test_every_order_of_every_layer_starts_alive_and_stays_alive(
    data: Data, order: int, num_layers: int, factor: float
) -> None:
    given = task(data, factor)
    model = make(given, order, num_layers)
    loss, gradients = slopes(model, given)
    assert 1.0 < float(loss) < 3.0
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        if name.endswith("order_weights"):
            assert gradient[1:].all(), "every gate can open"
        elif name.endswith("weight"):
            assert gradient[0].any(), "the linear part learns at once"

    optimizer = make_optimizer(model, 0.01, 5e-4)
    inputs = given[1].view(given[2].train, model.propagations)
    labels, losses = given[0].y[given[2].train], []
    for _ in range(20):
        step = cross_entropy(model.train()(*inputs), labels)
        optimizer.step(torch.autograd.grad(step, optimizer.weights))
        losses.append(float(step.detach()))
    assert max(losses) < 3.0
    after, gradients = slopes(model, given)
    assert float(after) < float(loss)
    for name, gradient in gradients.items():
        assert gradient.isfinite().all(), name
        if name.endswith("weight"):
            assert gradient.flatten(1).any(dim=1).all(), f"an order of {name} is dead"


def test_training_on_features_times_a_million_is_the_same_training(data: Data) -> None:
    results = []
    for factor in (1.0, 1e6):
        given = task(data, factor)
        model = make(given, 3, 2, order_weights="learned")
        _, graph, split = given
        result = train_full_batch(model, graph, data.y, split, seed=0, epochs=15)
        with torch.no_grad():
            logits = model.eval()(*graph.view(split.test, model.propagations))
        results.append((result, logits))
    (one, ours), (other, theirs) = results
    torch.testing.assert_close(theirs, ours, rtol=2e-2, atol=2e-2 * float(ours.std()))
    assert other.test_accuracy == pytest.approx(one.test_accuracy, abs=0.01)


def test_deeper_layers_are_measured_behind_calibrated_ones(data: Data) -> None:
    given = task(data)
    model = make(given, 4, 3)
    inputs = given[1].view(given[2].train, model.propagations)
    seen: list[Tensor] = []
    for transform in transforms(model):
        transform.register_forward_hook(lambda *passed: seen.append(passed[2]))
    with torch.no_grad():
        model.eval()(*inputs)
    for transform, out in zip(transforms(model), seen, strict=True):
        glorot = (2 / (transform.in_channels + transform.out_channels)) ** 0.5
        present = out[out.any(dim=1)]
        assert float(present.square().mean().sqrt()) == pytest.approx(glorot, rel=1e-3)


def test_calibrating_is_deterministic_and_leaves_all_else_alone(data: Data) -> None:
    given = task(data)
    model = make(given, 3, 2).train()
    before = copy.deepcopy(model.state_dict())
    random_state = torch.get_rng_state()
    calibrate(model, *given[1].view(given[2].train, model.propagations))
    assert model.training
    assert torch.equal(torch.get_rng_state(), random_state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_models_without_scaling_are_left_as_they_are(data: Data) -> None:
    given = task(data)
    plain = make(given, 2, 2, scaling="none")
    gin = GIN(data.x.size(1), 8, 2, 6)
    for model in (plain, gin):
        assert model.is_calibrated
        before = copy.deepcopy(model.state_dict())
        calibrate(model, *given[1].view(given[2].train, model.propagations))
        assert model.state_dict().keys() == before.keys()
        assert all(torch.equal(v, before[name]) for name, v in model.state_dict().items())
    assert make(given, 2, 2).is_calibrated
    assert not CrossGCN(data.x.size(1), 8, 2, 6, scaling="unit").is_calibrated


def test_scaled_models_are_stacked_with_their_scales_but_not_compiled(data: Data) -> None:
    given = task(data)
    model = make(given, 2, 2)
    assert can_be_stacked(model)
    stacked = stack_models([model])
    assert not can_be_compiled(stacked)
    assert stacked.state_dict()["layers.0.transform.projection_scale"].shape == (1, 2)
    with pytest.raises(BadInput, match="calibrate each of them"):
        calibrate(stacked, *given[1].view(given[2].train, model.propagations))


@pytest.mark.parametrize("training", [True, False])
def test_a_pass_that_fails_leaves_the_mode_as_it_was(training: bool) -> None:
    model = CrossGCN(6, 4, 2, 3, scaling="unit").train(training)
    with pytest.raises(RuntimeError):
        calibrate(model, torch.randn(5, 7), torch.tensor([[0, 1], [1, 0]]))
    assert model.training is training
    assert all(module.training is training for module in model.modules())
