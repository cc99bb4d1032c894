from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import CrossGCN, train_full_batch
from crossgcn.data.splits import Split, make_splits
from crossgcn.graph import PreparedGraph
from crossgcn.graph.standardise import HopRows, Scale
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training import device, full_batch, loop
from crossgcn.training import rows as rows_module
from crossgcn.training.config import RunConfig
from crossgcn.training.device import WARM_UPS
from crossgcn.training.loop import TrainedModel
from crossgcn.training.rows import RowStep, train_rows


def recorded_on_the_cpu(
    function: Callable[[], None], written: Sequence[Tensor], device: torch.device
) -> Callable[[], None]:
    """What a recording on a GPU does, step by step: warm up, start again, and only then count."""
    before = [tensor.clone() for tensor in written]
    for _ in range(WARM_UPS):
        function()
    for tensor, value in zip(written, before, strict=True):
        tensor.copy_(value)
    return function


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loop, rows_module):
        monkeypatch.setattr(module, "capture", recorded_on_the_cpu)
    monkeypatch.setattr(full_batch, "can_be_recorded", lambda model, device: True)


def train(data: Data, epochs: int, device: str = "cpu") -> TrainedModel:
    torch.manual_seed(0)
    model = build_model("cross-gcn", data.x.size(1), 3, hidden_channels=8)
    graph = PreparedGraph(data.x, data.edge_index)
    split = make_splits(data, "random", num_splits=1, train=5)[0]
    config = RunConfig(epochs=epochs)
    return train_full_batch(model, graph, data.y, split, config, seed=0, device=device)


@pytest.mark.parametrize("epochs", [1, 2, 30])
def test_warming_up_leaves_no_trace(
    epochs: int, small_graph: Data, request: pytest.FixtureRequest
) -> None:
    plain = train(small_graph, epochs)
    request.getfixturevalue("recording")
    ours = train(small_graph, epochs)
    assert ours.history == plain.history and ours.best_epoch == plain.best_epoch
    assert all(torch.equal(value, plain.state[name]) for name, value in ours.state.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_gpu_trains_as_the_cpu_does(sparse: bool, small_graph: Data) -> None:
    if not sparse:
        small_graph.x = small_graph.x.to_dense()
    ours, theirs = (train(small_graph, 3, device) for device in ("cuda", "cpu"))
    for a, b in zip(ours.history, theirs.history, strict=True):
        assert a.train_loss == pytest.approx(b.train_loss, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "recorded"),
    [({}, True), ({"order_weights": "per-unit"}, True), ({"aggr": "max"}, False)],
)
def test_only_steps_that_wait_for_nothing_are_recorded(
    settings: dict[str, Any], recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "has_triton", lambda: True)
    model = CrossGCN(24, 8, 2, 3, **settings)
    assert device.can_be_recorded(model, torch.device("cuda")) == recorded
    assert not device.can_be_recorded(model, torch.device("cpu"))


def train_on_rows(
    where: str, target: str, weights: torch.Tensor | None = None, epochs: int = 3
) -> TrainedModel:
    """Train bags of crosses on rows that lie on a device, in batches of which the last is short."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 7, generator=generator)
    y = x[:, 0] * x[:, 1] + x[:, 2]
    zeros = torch.zeros(7)
    same = Scale(zeros, zeros + 1, zeros - torch.inf, zeros + torch.inf)
    labels = y if target == "number" else (y > 0).long()
    split = Split(torch.arange(450), torch.arange(450, 520), torch.arange(520, 600))
    torch.manual_seed(0)
    outputs = 1 if target == "number" else 2
    settings: dict[str, Any] = {"hidden_channels": 4, "dropout": 0.2}
    bags = 1 if target == "classes, no bags" else 3
    model = build_model("cross-hops", 2, outputs, hops=2, bags=bags, **settings)
    assert isinstance(model, CrossHops)
    if target == "number":
        model.predict_number(0.0, 1.5)
    config = RunConfig.create(
        model="cross-hops", batch_size=64, epochs=epochs, bags=bags, hops=2, learning_rate=0.02
    )
    source = HopRows([x.to(where)], same, labels)
    return train_rows(model, source, split, config, seed=3, device=where, node_weights=weights)


TARGETS = ["classes", "classes, no bags", "number"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_recorded_steps_on_batches_leave_no_trace(
    target: str, weighted: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    weights = torch.linspace(0.5, 1.5, 450) if weighted else None
    plain = train_on_rows("cpu", target, weights)
    request.getfixturevalue("recording")
    made: list[RowStep] = []
    replayed: list[None] = []
    create = RowStep.__init__

    def record(step: RowStep, *args: Any, **kwargs: Any) -> None:
        create(step, *args, **kwargs)
        step._uses_graph = True
        made.append(step)

    def count(*args: Any) -> Callable[[], None]:
        step = recorded_on_the_cpu(*args)
        return lambda: replayed.append(step())

    monkeypatch.setattr(RowStep, "__init__", record)
    monkeypatch.setattr(rows_module, "capture", count)
    recorded = train_on_rows("cpu", target, weights)
    assert len(replayed) == 3 * 7 and made[0]._replay is None
    assert recorded.history == plain.history
    assert all(torch.equal(value, plain.state[name]) for name, value in recorded.state.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("target", TARGETS)
def test_rows_on_a_gpu_train_as_on_the_cpu(target: str) -> None:
    weights = torch.linspace(0.5, 1.5, 450)
    for given in (None, weights):
        theirs, ours = (train_on_rows(where, target, given) for where in ("cpu", "cuda"))
        for a, b in zip(ours.history, theirs.history, strict=True):
            assert a.train_loss == pytest.approx(b.train_loss, abs=1e-5)
        for name, value in ours.state.items():
            torch.testing.assert_close(value.cpu(), theirs.state[name], rtol=1e-3, atol=1e-4)
