from __future__ import annotations

from typing import Any

import pytest
import scipy.sparse as sp
import torch
from architectures import (
    ARCHITECTURES,
    graph_of,
    make,
    one_thread,  # noqa: F401
    without_kernels,
)
from hypothesis import given
from hypothesis import strategies as st
from model_batches import train_together
from torch_geometric.data import Data

from crossgcn import train_full_batch
from crossgcn.data.features import csr_tensor
from crossgcn.data.splits import make_splits
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.graph.sampling.source import source_of
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training import unused_columns
from crossgcn.training.batches.train import train_mini_batch
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.selection import Diverged, TrainedModel
from crossgcn.training.unused_columns import find_unused_columns, follow_decay

SPARSE = list(ARCHITECTURES)
DECAY = 0.05


@pytest.fixture
def gappy_graph(small_graph: Data) -> Data:
    """The small graph in a vocabulary of which every other word and the last never occur."""
    x = sp.csr_array(small_graph.x.to_dense().numpy()).tocoo()
    wide = sp.csr_array((x.data, (x.coords[0], 2 * x.coords[1] + 1)), shape=(90, 53))
    small_graph.x = csr_tensor(wide.indptr, wide.indices, wide.data, wide.shape)
    return small_graph


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_columns, "_WORTHWHILE", 1)


def trained(model: NodeClassifier, data: Data, **settings: Any) -> FullBatchStep:
    nodes = make_splits(data, "random", num_splits=1, train=5)[0].train
    step = FullBatchStep(
        [model],
        PreparedGraph(data.x, data.edge_index),
        data.y,
        [nodes],
        RunConfig(**{"learning_rate": 0.02, "weight_decay": DECAY} | settings),
        seeds=[7],
    )
    for _ in range(6):
        step()
    return step


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("architecture", SPARSE)
def test_every_weight_ends_as_if_all_columns_had_been_trained(
    architecture: str, kernels: bool, gappy_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernels:
        without_kernels(monkeypatch)
    model = make(architecture, gappy_graph, seed=1)
    whole = trained(model, gappy_graph)
    monkeypatch.setattr(unused_columns, "_WORTHWHILE", 1)
    narrow = trained(model, gappy_graph)
    assert whole._unused is None and narrow._unused is not None
    assert narrow.graph.x.size(1) == 24
    torch.testing.assert_close(narrow.losses, whole.losses, rtol=0.0, atol=0.0)
    (expected,), (state,) = whole.states, narrow.states
    assert state.keys() == expected.keys()
    for name, value in state.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-7)


def test_in_the_compiled_step_no_bit_of_any_weight_differs(
    gappy_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    model = make("cross-gcn", gappy_graph, seed=1)
    (expected,) = trained(model, gappy_graph).states
    monkeypatch.setattr(unused_columns, "_WORTHWHILE", 1)
    (state,) = trained(model, gappy_graph).states
    assert all(torch.equal(state[name], expected[name]) for name in expected)


@pytest.mark.usefixtures("always")
def test_a_narrow_training_in_float64_is_a_whole_one(gappy_graph: Data) -> None:
    model = make("cross-gcn", gappy_graph, seed=1, dropout=0.0).double()
    graph = PreparedGraph(gappy_graph.x, gappy_graph.edge_index, dtype=torch.float64)
    nodes = torch.arange(0, 90, 2)
    step = FullBatchStep(
        [model],
        graph,
        gappy_graph.y,
        [nodes],
        RunConfig(learning_rate=0.02, weight_decay=DECAY),
        seeds=[0],
    )
    assert step._unused is not None
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
        {"params": [p for p in model.parameters() if p.dim() == 1]},
    ]
    adam = torch.optim.Adam(groups, lr=0.02)
    x = gappy_graph.x.to_dense().double()
    for _ in range(8):
        step()
        adam.zero_grad()
        scores = model(x, gappy_graph.edge_index)[nodes]
        torch.nn.functional.cross_entropy(scores, gappy_graph.y[nodes]).backward()  # type: ignore[no-untyped-call]
        adam.step()
    for name, value in step.states[0].items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("together", [False, True])
def test_the_selected_weights_are_those_of_the_selected_epoch(
    together: bool, gappy_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = make_splits(gappy_graph, "random", num_splits=2, train=5)
    graph = graph_of("cross-gcn", gappy_graph)

    def train() -> list[TrainedModel]:
        models = [make("cross-gcn", gappy_graph, seed=seed) for seed in (1, 2)]
        rates: dict[str, Any] = {"epochs": 12, "learning_rate": 0.02, "weight_decay": DECAY}
        if together:
            results = train_together(models, graph, gappy_graph.y, splits, [3, 4], **rates)
            assert all(isinstance(result, TrainedModel) for result in results)
            return results  # type: ignore[return-value]
        results = []
        for model, split in zip(models, splits, strict=True):
            result = train_full_batch(model, graph, gappy_graph.y, split, seed=3, **rates)
            assert all(torch.equal(own, result.state[n]) for n, own in model.state_dict().items())
            results.append(result)
        return results  # type: ignore[return-value]

    expected = train()
    monkeypatch.setattr(unused_columns, "_WORTHWHILE", 1)
    for own, other in zip(train(), expected, strict=True):
        assert own.best_epoch == other.best_epoch and own.history == other.history
        for name, value in own.state.items():
            torch.testing.assert_close(value, other.state[name], rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("always")
def test_a_restart_forgets_the_decay_of_unused_columns_too(gappy_graph: Data) -> None:
    model = make("cross-gcn", gappy_graph, seed=1)
    step = trained(model, gappy_graph)
    step.restart()
    (state,) = step.states
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state.items())


@pytest.mark.usefixtures("always")
def test_without_decay_unused_weights_stay_to_the_bit(gappy_graph: Data) -> None:
    model = make("cross-gcn", gappy_graph, seed=1)
    (state,) = trained(model, gappy_graph, weight_decay=0.0).states
    for name, value in model.state_dict().items():
        if name == "layers.0.transform.weight":
            assert torch.equal(state[name][..., ::2], value[..., ::2])
            assert not torch.equal(state[name][..., 1::2], value[..., 1::2])


@pytest.mark.usefixtures("always")
def test_nothing_is_left_out_where_it_would_change_anything(gappy_graph: Data) -> None:
    graph = graph_of("cross-gcn", gappy_graph)
    assert find_unused_columns(make("cross-gcn", gappy_graph, seed=1), graph) is not None
    frozen = make("cross-gcn", gappy_graph, seed=1)
    frozen.layers[0].transform.weight.requires_grad_(False)  # type: ignore[union-attr]
    square = build_model("cross-gcn", 53, 3, hidden_channels=53)
    assert find_unused_columns(frozen, graph) is None
    assert find_unused_columns(square, graph) is None
    assert isinstance(graph.x, SparseMatrix)
    dense = PreparedGraph(gappy_graph.x.to_dense(), gappy_graph.edge_index)
    assert find_unused_columns(make("cross-gcn", gappy_graph, seed=1), dense) is None


@given(
    decay=st.sampled_from([0.0, 5e-4, 0.3]),
    rate=st.sampled_from([1e-3, 0.02]),
    steps=st.integers(0, 40),
    count=st.sampled_from([0, 1, 7, 1025]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_decay_is_followed_as_torchs_adam_would(
    decay: float, rate: float, steps: int, count: int, dtype: torch.dtype
) -> None:
    start = torch.linspace(-0.7, 1.3, count, dtype=dtype)
    kept = start.clone()
    twin = torch.nn.Parameter(start.double().clone())
    adam = torch.optim.Adam([twin], lr=rate, weight_decay=decay)
    for _ in range(steps):
        twin.grad = torch.zeros_like(twin)
        adam.step()
    end = follow_decay(start, steps, rate, decay)
    assert torch.equal(start, kept) and end.dtype == dtype
    exact = dtype == torch.float64
    torch.testing.assert_close(
        end.double(), twin.detach(), rtol=1e-9 if exact else 1e-4, atol=1e-10 if exact else 1e-5
    )


@pytest.mark.parametrize("diverges", [False, True])
def test_batches_leave_them_out_too(
    diverges: bool, gappy_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    (split,) = make_splits(gappy_graph, "random", num_splits=1, train=5)
    model = build_model("cross-gcn", 53, gappy_graph.num_classes, hidden_channels=6)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    seen: list[int] = []

    def train() -> dict[str, torch.Tensor]:
        model.load_state_dict(start)
        source = source_of(gappy_graph)
        try:
            result = train_mini_batch(
                model,
                source,
                split,
                batch_size=4,
                fanout=3,
                epochs=3,
                learning_rate=1e30 if diverges else 0.02,
                weight_decay=DECAY,
            )
        except Diverged as error:
            assert diverges
            return error.state
        assert not diverges
        assert all(torch.equal(model.state_dict()[k], v) for k, v in result.state.items())
        return result.state

    whole = train()
    monkeypatch.setattr(unused_columns, "_WORTHWHILE", 1)
    narrow_source = unused_columns.UnusedColumns.narrow_source

    def note(self: unused_columns.UnusedColumns, source: Any) -> Any:
        narrow = narrow_source(self, source)
        seen.append(narrow.num_features)
        return narrow

    monkeypatch.setattr(unused_columns.UnusedColumns, "narrow_source", note)
    narrow = train()
    assert seen == [24]
    for name, value in whole.items():
        torch.testing.assert_close(narrow[name], value, rtol=1e-5, atol=1e-6)
