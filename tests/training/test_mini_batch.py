from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import one_thread  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn import train_mini_batch
from crossgcn.data.splits import Split
from crossgcn.data.stored.import_graph import store_graph
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.graph.matrix import make_rows
from crossgcn.graph.sampling.source import MemoryGraph, source_of
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training import scoring as node_scoring
from crossgcn.training.batches.step import score_part
from crossgcn.training.batches.train import hop_fanouts, train_in_batches
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint
from crossgcn.training.config import RunConfig
from crossgcn.training.distributed import Processes
from crossgcn.training.objective import Loss
from crossgcn.training.scoring import ExactScorer
from crossgcn.training.selection import Diverged, TrainedModel

SPLIT = Split(torch.arange(30), torch.arange(30, 60), torch.arange(60, 90))
WHOLE: dict[str, Any] = {"batch_size": 30, "fanout": -1}
FEW: dict[str, Any] = {"batch_size": 8, "fanout": (4, 3), "epochs": 6}


@pytest.fixture
def source(small_graph: Data) -> MemoryGraph:
    return MemoryGraph(small_graph.x, small_graph.edge_index, None, small_graph.y)


def make(name: str = "cross-gcn", *, dropout: float = 0.0, **settings: Any) -> NodeClassifier:
    torch.manual_seed(0)
    return build_model(name, 24, 3, hidden_channels=8, dropout=dropout, **settings)


def train(
    source: MemoryGraph, model: NodeClassifier | None = None, **settings: Any
) -> TrainedModel:
    return train_mini_batch(model or make(), source, SPLIT, **{"epochs": 4} | settings)


@pytest.mark.parametrize(("model", "times"), [("cross-gcn-paper", 1), ("cross-gcn", 12)])
def test_sums_of_features_are_made_once_where_that_is_all_a_model_needs(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch, model: str, times: int
) -> None:
    small_graph.x = small_graph.x.to_dense()
    source = MemoryGraph(small_graph.x, small_graph.edge_index, None, small_graph.y)
    read = 0

    def count(self: MemoryGraph, nodes: Tensor) -> Tensor:
        nonlocal read
        read += 1 if nodes.numel() > 1 else 0
        rows: Tensor = small_graph.x[nodes]
        return rows

    monkeypatch.setattr(MemoryGraph, "features", count)
    train(source, make(model, num_layers=1), batch_size=8, epochs=3, read_test=False)
    assert read == times + 1  # and once for the validation nodes


@given(
    rows=st.integers(1, 12), parts=st.integers(1, 5), wide=st.integers(2, 4), seed=st.integers(0, 9)
)
def test_parts_of_a_batch_add_up_to_it(rows: int, parts: int, wide: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, wide, generator=generator, dtype=torch.float64)
    labels = torch.randint(wide, (rows,), generator=generator)
    scores.requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(scores, labels), scores)
    pieces = [
        score_part(Loss(wide), own, of_own, rows)
        for own, of_own in zip(
            scores.detach().tensor_split(parts), labels.tensor_split(parts), strict=True
        )
    ]
    loss = sum((piece[0] for piece in pieces), torch.zeros(())) / rows
    right = sum((piece[1] for piece in pieces), torch.zeros(()))
    torch.testing.assert_close(torch.cat([piece[2] for piece in pieces]), slope)
    torch.testing.assert_close(loss.double(), cross_entropy(scores, labels).detach())
    assert int(right) == int((scores.argmax(dim=1) == labels).sum())


@pytest.mark.parametrize("by_fields", [True, False])
@pytest.mark.parametrize("name", ["cross-gcn", "gin", "mlp"])
def test_validation_sees_whole_neighbourhoods(
    small_graph: Data, source: MemoryGraph, by_fields: bool, name: str
) -> None:
    model = make(name, dropout=0.5).train()
    scorer = ExactScorer(
        model, source, SPLIT.validation, RunConfig(), torch.device("cpu"), Processes()
    )
    scorer.by_fields = by_fields
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    with torch.no_grad():
        scores = model.eval()(*graph.view(SPLIT.validation, model.propagations))
    labels = small_graph.y[SPLIT.validation]
    for _ in range(2):
        loss, accuracy = scorer()
        assert loss == pytest.approx(float(cross_entropy(scores, labels)), rel=1e-5)
        assert accuracy == float((scores.argmax(dim=1) == labels).double().mean())


def test_the_first_epoch_of_best_validation_is_kept_and_test_nodes_decide_nothing(
    small_graph: Data, source: MemoryGraph
) -> None:
    model = make(dropout=0.5)
    ours = train(source, model, **FEW)
    accuracies = [metrics.validation_score for metrics in ours.history]
    assert ours.best_epoch == accuracies.index(max(accuracies)) + 1
    assert ours.validation_score == max(accuracies)
    assert all(torch.equal(value, ours.state[name]) for name, value in model.state_dict().items())
    wrong = small_graph.y.clone()
    wrong[SPLIT.test] = (wrong[SPLIT.test] + 1) % 3
    other = MemoryGraph(small_graph.x, small_graph.edge_index, None, wrong)
    again = train(other, make(dropout=0.5), **FEW)
    assert again.history == ours.history
    assert _same(again.state, ours.state)
    assert again.test_accuracy != ours.test_accuracy
    unread = train(source, make(dropout=0.5), read_test=False, **FEW)
    assert unread.test_accuracy is None and unread.history == ours.history


def test_validation_can_be_looked_at_less_often(source: MemoryGraph) -> None:
    often = train(source, **FEW)
    seldom = train(source, evaluate_every=4, **FEW)
    assert [metrics.epoch for metrics in seldom.history] == [4, 6]
    assert list(seldom.history) == [m for m in often.history if m.epoch in (4, 6)]


@pytest.mark.parametrize("on_disk", [True, False])
def test_hidden_values_of_a_graph_on_disk_are_kept_in_the_runs_folder(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    stored = store_graph(small_graph, tmp_path / "graph")
    made: list[Path | None] = []

    def make_and_tell(rows: int, width: int, dtype: torch.dtype, folder: Path | None) -> Tensor:
        made.append(folder)
        return make_rows(rows, width, dtype, folder)

    monkeypatch.setattr("crossgcn.training.batches.layerwise.make_rows", make_and_tell)
    monkeypatch.setattr("crossgcn.training.scoring._fields_are_small", lambda *_: False)
    out = tmp_path / "run"
    source = source_of(stored if on_disk else small_graph)
    train_in_batches(
        make(),
        source,
        SPLIT,
        RunConfig(batch_size=8, fanout=(4, 3), epochs=2),
        seed=0,
        checkpoint=Checkpoint(out / CHECKPOINT, {}, 0),
    )
    scores = 3  # two looks at the validation nodes and one at the test nodes
    assert made.count(None) == (scores if on_disk else len(made))
    assert made.count(out) == (len(made) - scores if on_disk else 0)
    assert len(made) > scores
    assert not out.exists() or list(out.iterdir()) == []


class _Stop(Exception):
    pass


def test_a_resume_point_of_another_configuration_is_refused(
    source: MemoryGraph, tmp_path: Path
) -> None:
    path = tmp_path / CHECKPOINT
    train(source, checkpoints=Checkpoint(path, {"seed": 0}), **FEW)
    with pytest.raises(BadInput, match="another seed"):
        train(source, checkpoints=Checkpoint(path, {"seed": 1}), **FEW)


@pytest.mark.parametrize(
    ("fanout", "hops", "expected"),
    [
        (None, 2, (50, 50)),
        (None, 1, None),
        (None, 0, None),
        (5, 1, None),
        (5, 2, (5, 5)),
        (-1, 2, None),
        ((5, -1), 2, (5, -1)),
        ((-1, -1), 2, None),
    ],
)
def test_neighbours_are_drawn_where_there_are_several_hops(
    fanout: int | tuple[int, ...] | None, hops: int, expected: tuple[int, ...] | None
) -> None:
    assert hop_fanouts(fanout, ["gcn"] * hops) == expected


def test_a_diverged_training_keeps_its_last_good_weights(source: MemoryGraph) -> None:
    model = make("cross-gcn-release-fix")
    with pytest.raises(Diverged, match="training diverged") as caught:
        train(source, model, learning_rate=1e30, **FEW)
    assert all(value.isfinite().all() for value in caught.value.state.values())


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")]
)
def test_a_batch_too_large_for_memory_says_what_to_lower(
    source: MemoryGraph, error: Exception
) -> None:
    model = make()

    def fail(*_: Any) -> None:
        raise error

    model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(WorkFailed, match=r"batch of 8 nodes with 4,3 .* lower --batch-size"):
        train(source, model, **FEW)


def _same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize(("width", "kept"), [(8, True), (800, False)])
def test_wide_features_count_for_what_is_kept(
    width: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_scoring, "_KEPT_BYTES", 30_000)
    edges = torch.stack([torch.arange(60), torch.arange(60).roll(1)])
    x = torch.randn(60, width, generator=torch.Generator().manual_seed(0))
    source = MemoryGraph(x, edges, y=torch.arange(60) % 3)
    model = build_model("gcn", width, 3, num_layers=2, hidden_channels=4, dropout=0.0)
    nodes = torch.arange(20)
    scorer = ExactScorer(model, source, nodes, RunConfig(), torch.device("cpu"), Processes())
    scorer.by_fields = True
    first = scorer()
    assert (scorer._kept is not None) == kept
    assert scorer() == first
