"""Training of cross-hops: metrics select, labels do not leak, bags, numbers, early stopping."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import Experiment, RunConfig, build_model, load_model
from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.compiled_hops import HopPasses
from crossgcn.training.rows import train_rows
from crossgcn.training.trainer import seeded

SETTINGS: dict[str, Any] = {
    "model": "cross-hops",
    "splits": "stratified",
    "num_splits": 1,
    "bags": 2,
}


def make_data(num_nodes: int = 400, *, seed: int = 0, alike: bool = False) -> Data:
    """A class that is the product of an own flag and the neighbours' mean of another.

    Args:
        alike: Neighbours are of the same group of 20, and most of a group have the same flag.
    """
    torch.manual_seed(seed)
    x = (torch.rand(num_nodes, 4) < 0.5).float()
    edges = torch.randint(num_nodes, (2, 3 * num_nodes))
    if alike:
        edges[1] = edges[0] // 20 * 20 + edges[1] % 20
        common = (torch.rand(num_nodes // 20) < 0.5).float().repeat_interleave(20)
        x[:, 1] = torch.where(torch.rand(num_nodes) < 0.8, common, 1 - common)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    sums = torch.zeros(num_nodes).index_add_(0, edges[1], x[edges[0], 1])
    counts = torch.zeros(num_nodes).index_add_(0, edges[1], torch.ones(edges.size(1)))
    means = sums / counts.clamp(min=1)
    y = ((2 * x[:, 0] - 1) * (means - means.median()) > 0).long()
    return Data(x=x, edge_index=edges, y=y, name="product")


def run(data: Data, *, out: Path | None = None, **settings: Any) -> dict[str, Any]:
    config = RunConfig.create(**{**SETTINGS, **settings})
    (runs,) = Experiment([config], data).run(out=out, save_models=out is not None)
    (record,) = runs.records
    return record


def test_crosses_of_own_and_neighbours_columns_are_found() -> None:
    data = make_data(alike=True)
    settings: dict[str, Any] = {"learning_rate": 0.02, "dropout": 0.0}
    linear, crossed = (
        run(data, order=order, metric="roc_auc", **settings)["test"] for order in (1, 2)
    )
    assert linear["roc_auc"] < 0.7
    assert crossed["roc_auc"] > 0.9


def test_random_labels_end_at_chance() -> None:
    data = make_data(600)
    scores = []
    for seed in range(4):
        data.y = torch.randint(2, (600,), generator=torch.Generator().manual_seed(seed))
        scores.append(run(data, metric="roc_auc", seed=seed, epochs=30)["test"]["roc_auc"])
    assert sum(scores) / 4 == pytest.approx(0.5, abs=0.08)


def test_the_metric_selects_and_patience_stops(tmp_path: Path) -> None:
    record = run(make_data(200), out=tmp_path, metric="log_loss", patience=4, epochs=60)
    assert record["metric"] == "log_loss" and record["task"] == "binary"
    assert record["validation_score"] < 0
    assert "validation_accuracy" not in record
    assert set(record["test"]) >= {"accuracy", "roc_auc", "log_loss"}
    epochs = (tmp_path / "cross-hops-1-layer" / "split-00" / "epochs.csv").read_text()
    assert len(epochs.splitlines()) - 1 == min(record["best_epoch"] + 4, 60)


@pytest.mark.parametrize("labels", [True, False])
def test_a_saved_model_scores_as_in_training(tmp_path: Path, labels: bool) -> None:
    data = make_data(200)
    config = RunConfig.create(**SETTINGS, label_features=labels, epochs=5, metric="roc_auc")
    experiment = Experiment([config], data)
    (runs,) = experiment.run(out=tmp_path, save_models=True)
    model = load_model(tmp_path / "cross-hops-1-layer" / "split-00")
    split = experiment.splits[0]
    shown = neighbour_labels(data.y, split.train, 2) if labels else None
    data = experiment.data
    scores = model(data.x, data.edge_index, labels=shown)[split.test]
    accuracy = float((scores.argmax(1) == data.y[split.test]).double().mean())
    assert accuracy == pytest.approx(runs.records[0]["test_accuracy"])


@pytest.mark.parametrize("model", ["cross-hops", "gcn", "cross-gcn", "mlp"])
def test_numbers_are_learned_and_scored_in_their_unit(model: str, tmp_path: Path) -> None:
    data = make_data(300)
    data.y = 1000.0 + 50 * data.x[:, 0] + 10 * data.x[:, 2]
    data.y[::10] = torch.nan
    settings: dict[str, Any] = {"dropout": 0.0, "weight_decay": 0.0, "learning_rate": 0.05}
    record = run(data, out=tmp_path, model=model, bags=None, epochs=60, **settings)
    assert (record["task"], record["metric"]) == ("regression", "r2")
    assert record["test_accuracy"] is None and "validation_accuracy" not in record
    assert record["test"]["mae"] < 60
    if model in ("cross-hops", "mlp"):  # the others see means over neighbourhoods only
        assert record["test"]["r2"] > 0.9
    folder = next(tmp_path.glob("*/split-00"))
    mean, deviation = load_model(folder).target_scale  # type: ignore[misc]
    assert float(mean) == pytest.approx(1030, abs=10)
    assert float(deviation) == pytest.approx(25, abs=5)


def test_balanced_classes_lift_the_rare_one() -> None:
    data = make_data(400)
    rare = torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.12
    data.y = (rare & (data.x[:, 2] > 0)).long()
    settings: dict[str, Any] = {"model": "gcn", "num_layers": 1, "bags": None, "epochs": 50}
    plain, balanced = (
        run(data, class_weight=weight, metric="balanced_accuracy", **settings)["test"]
        for weight in (None, "balanced")
    )
    assert balanced["balanced_accuracy"] > plain["balanced_accuracy"]


def test_validation_nodes_of_one_class_are_named_before_training() -> None:
    data = make_data(60)
    data.roles = torch.ones(1, 60, dtype=torch.long)
    data.roles[0, 40:] = torch.where(data.y[40:] == 0, 2, 3)
    for model in ("cross-hops", "gcn"):
        with pytest.raises(BadInput, match="'roc_auc' cannot be computed on the validation nodes"):
            run(data, model=model, metric="roc_auc", splits="public", num_splits=None, bags=None)


def test_balanced_weights_of_a_number_are_refused() -> None:
    data = make_data(60)
    data.y = torch.rand(60)
    for model in ("cross-hops", "mlp"):
        with pytest.raises(BadInput, match="class_weight is for classes"):
            run(data, model=model, bags=None, class_weight="balanced")


def test_bags_without_a_class_are_refused() -> None:
    data = make_data(60)
    data.y = torch.zeros(60, dtype=torch.long)
    data.y[:3] = 1
    with pytest.raises(BadInput, match="none of class 1: give --bags 1, or join rare classes"):
        run(data, bags=40)


def test_an_infinite_number_is_refused() -> None:
    data = make_data(60)
    data.y = torch.rand(60)
    data.y[7] = torch.inf
    with pytest.raises(BadInput, match=r"y\[7\] is inf .* give a finite number, or NaN"):
        run(data)


@pytest.mark.parametrize("order", [1, 2])
def test_a_batch_without_rows_has_gradients_of_zero(order: int) -> None:
    model = build_model("cross-hops", 3, 2, hidden_channels=4, order=order, bags=2, dropout=0.0)
    assert isinstance(model, CrossHops)
    passes = HopPasses(model)
    scores = passes.forward(torch.empty(0, model.plan.num_columns))
    passes.backward(torch.zeros_like(scores))
    for name, weights in model.named_parameters():
        assert not passes.gradients[weights].any(), name


@pytest.mark.parametrize("classes", [1, 2, 9])
@pytest.mark.parametrize(
    ("order", "bags", "rows"), [(1, 3, 50), (2, 8, 512), (3, 1, 77), (4, 2, 1)]
)
@pytest.mark.parametrize("is_large", [False, True])
def test_compiled_passes_give_the_gradients_of_autograd(
    order: int, bags: int, rows: int, classes: int, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crossgcn.kernels.ops._LARGE_PRODUCT", 0 if is_large else math.inf)
    with seeded(0):
        settings: dict[str, Any] = {"order": order, "bags": bags, "dropout": 0.0}
        model = build_model("cross-hops", 3, classes, hidden_channels=4, **settings)
        x = torch.randn(rows, 10)
        grad_scores = torch.randn(bags, rows, classes)
        for weights in model.parameters():
            torch.nn.init.normal_(weights)
    assert isinstance(model, CrossHops) and x.size(1) == model.plan.num_columns
    passes, grad_scores = HopPasses(model), grad_scores if bags > 1 else grad_scores[0]
    found = passes.forward(x)
    passes.backward(grad_scores)
    exact = model.double().train()
    scores = exact(x.double())
    scores.backward(grad_scores.double())
    torch.testing.assert_close(found.double(), scores, rtol=1e-4, atol=1e-4)
    for weights in model.parameters():
        assert weights.grad is not None
        ours = torch.from_numpy(passes.gradients[weights]).double()
        atol = 1e-4 * float(weights.grad.abs().max())
        torch.testing.assert_close(ours, weights.grad, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize(("order", "bags", "dropout"), [(1, 3, 0.2), (2, 3, 0.0), (3, 1, 0.2)])
def test_compiled_passes_train_as_autograd_does(
    order: int, bags: int, dropout: float, number: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, seen = make_data(), []
    if number:
        data.y = data.x[:, 0] * data.x[:, 1] + torch.linspace(0, 1, data.num_nodes)
    config = RunConfig.create(
        **SETTINGS
        | {"order": order, "bags": bags, "dropout": dropout, "epochs": 3, "batch_size": 100}
    )
    for compiled in (True, False):
        monkeypatch.setattr("crossgcn.training.rows.runs_plain_code", lambda *_, c=compiled: c)
        experiment = Experiment([config], data)
        trainer, (run,) = experiment.trainer(), experiment.runs(None)
        model = trainer.build(run)
        assert isinstance(model, CrossHops)
        source = trainer.hop_rows(model, experiment.splits[0])
        seen.append(train_rows(model, source, experiment.splits[0], config, seed=run.split))
    ours, theirs = seen
    for own, other in zip(ours.history, theirs.history, strict=True):
        ends = [
            (one.train_loss, one.train_score, one.validation_loss, one.validation_score)
            for one in (own, other)
        ]
        assert ends[0] == pytest.approx(ends[1], rel=1e-4)
    for name, value in theirs.state.items():
        torch.testing.assert_close(ours.state[name], value, rtol=1e-4, atol=1e-4)
