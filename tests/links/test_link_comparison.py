from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.links.compare import LinkComparison, LinkExperiment
from crossgcn.links.settings import LinkSettings, encoder_names
from crossgcn.training.config import RunConfig

SETTINGS = LinkSettings(embedding_channels=8, folds=3, hits_at=(2, 5))


def config(model: str, **changes: Any) -> RunConfig:
    return RunConfig.create(model=model, **({"epochs": 6, "hidden_channels": 8} | changes))


def experiment(data: Data, settings: LinkSettings = SETTINGS, **changes: Any) -> LinkExperiment:
    configs = {name: config(name) for name in ("gcn", "cross-gcn")}
    return LinkExperiment(configs, settings, data, **({"num_splits": 3} | changes))


@pytest.fixture
def comparison(small_graph: Data) -> LinkComparison:
    return experiment(small_graph).run()


def test_every_encoder_has_the_same_pairs_in_every_split(comparison: LinkComparison) -> None:
    plain, ours = comparison.results
    for first, second in zip(plain.records, ours.records, strict=True):
        assert first["split"] == second["split"] and first["seed"] == second["seed"]
    assert [record["split"]["index"] for record in plain.records] == [0, 1, 2]
    assert comparison.metrics == ("auc", "ap", "hits@2", "hits@5", "mrr")


def test_differences_are_paired_and_corrected_for_overlap(comparison: LinkComparison) -> None:
    plain, ours = comparison.results
    changes = [a - b for a, b in zip(ours.values("mrr"), plain.values("mrr"), strict=True)]
    found = comparison.difference(ours, "mrr")
    split = plain.records[0]["split"]
    overlap = split["test"]["pairs"] / split["train"]["pairs"]
    assert found.mean == pytest.approx(fmean(changes))
    assert found.standard_error == pytest.approx(stdev(changes) * (1 / 3 + overlap) ** 0.5)


def test_variants_of_one_model_are_told_apart_by_name(small_graph: Data, tmp_path: Path) -> None:
    configs = {
        "gcn": config("gcn"),
        "cross-gcn": config("cross-gcn"),
        "cross-gcn-first-layer": config("cross-gcn", order=(2, 1)),
    }
    found = LinkExperiment(configs, SETTINGS, small_graph, num_splits=1).run(out=tmp_path)
    assert [result.name for result in found.results] == list(configs)
    sizes = [result.records[0]["parameters"] for result in found.results]
    assert sizes[0] < sizes[2] < sizes[1]
    assert {path.parts[-3] for path in tmp_path.rglob("run.json")} == set(configs)


def test_finished_runs_are_taken_up_again_and_others_refused(
    small_graph: Data, tmp_path: Path
) -> None:
    first = experiment(small_graph, num_splits=2).run(out=tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    calls: list[tuple[int, int]] = []
    more = experiment(small_graph).run(
        out=tmp_path, on_epochs=lambda done, total: calls.append((done, total))
    )
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())
    assert more.results[0].values("auc")[:2] == first.results[0].values("auc")
    assert calls[-1] == (2 * 3 * 6, 2 * 3 * 6)
    other = LinkSettings(embedding_channels=9, folds=3, hits_at=(2, 5))
    with pytest.raises(BadInput, match=r"finished run with another embedding_channels \(8, not 9"):
        experiment(small_graph, other).run(out=tmp_path)


def test_several_processes_give_the_same_numbers_and_no_warnings(
    small_graph: Data, comparison: LinkComparison, capfd: pytest.CaptureFixture[str]
) -> None:
    shared = experiment(small_graph).run(workers=2)
    assert capfd.readouterr().err == ""
    for ours, theirs in zip(comparison.results, shared.results, strict=True):
        assert [r["test"] for r in ours.records] == [r["test"] for r in theirs.records]


def test_a_graph_without_labels_has_links_too(small_graph: Data) -> None:
    bare = Data(
        x=small_graph.x, edge_index=small_graph.edge_index, y=torch.full((90,), -1), num_classes=0
    )
    found = experiment(bare, num_splits=1).run()
    assert 0 <= found.results[0].values("auc")[0] <= 1


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"hits_at": (5, 100)}, {}, r"Hits@100 ranks.*the test set has \d+; ask for a smaller K"),
        ({"folds": 500}, {}, r"\d+ training edges cannot be divided into 500 folds; ask for fewer"),
        ({}, {"num_splits": 0}, "num_splits is 0"),
        ({}, {"negatives": 10**6}, "negative pairs are asked for, and the graph has"),
    ],
)
def test_numbers_that_do_not_go_with_the_graph_are_refused(
    settings: dict[str, Any], changes: dict[str, Any], message: str, small_graph: Data
) -> None:
    with pytest.raises(BadInput, match=message):
        experiment(small_graph, LinkSettings(**({"hits_at": (5,)} | settings)), **changes)


def test_ranks_that_nobody_asked_for_are_those_that_fit(small_graph: Data) -> None:
    drawn = experiment(small_graph).splits[0].test_negatives.size(1)
    assert 10 <= drawn < 50
    few = experiment(small_graph, LinkSettings(embedding_channels=8, folds=3), num_splits=1)
    found = few.run()
    assert found.metrics == ("auc", "ap", "hits@10", "mrr")
    assert found.results[0].records[0]["links"]["hits_at"] == [10]
    more = experiment(small_graph, LinkSettings(folds=3), negatives=3)
    assert more.settings.hits_at == tuple(k for k in (10, 50, 100) if k <= 3 * drawn)


def test_a_graph_of_nearly_all_edges_has_too_few_pairs_to_train_on() -> None:
    edges = torch.combinations(torch.arange(12)).t()[:, 12:]
    y = torch.zeros(12, dtype=torch.int64)
    data = Data(x=torch.ones(12, 3), edge_index=edges, y=y, name="dense")
    with pytest.raises(BadInput, match=r"dense: \d negative pairs are left to train on"):
        LinkExperiment({"gcn": config("gcn")}, LinkSettings(folds=2, hits_at=(1,)), data)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "give at least one encoder"),
        ({"deep-walk": config("deep-walk")}, "'deep-walk' cannot predict links.*use one of gcn,"),
        ({"semi-emb": config("semi-emb")}, "'semi-emb' cannot predict links"),
        (
            {"gcn": config("gcn"), "mlp": config("mlp", epochs=7)},
            "encoders compared must share epochs: 6 and 7 were given",
        ),
        (
            {"cross-gcn": config("cross-gcn", order=(2, 1, 1))},
            "names 3 layers, but num_layers is 2",
        ),
        ({"gcn": config("gcn", hidden_channels=2**62)}, "'gcn' cannot be made.*lower hidden"),
    ],
)
def test_encoders_that_cannot_be_compared_are_refused(
    configs: dict[str, RunConfig], message: str, small_graph: Data
) -> None:
    with pytest.raises(BadInput, match=message):
        LinkExperiment(configs, SETTINGS, small_graph)


def test_precision_needs_its_device(small_graph: Data) -> None:
    exact = LinkExperiment({"gcn": config("gcn", precision="bf16")}, SETTINGS, small_graph)
    with pytest.raises(BadInput, match="'bf16' needs a CUDA GPU"):
        exact.run()


@pytest.mark.parametrize("name", encoder_names())
def test_every_encoder_that_is_offered_can_be_trained(name: str, small_graph: Data) -> None:
    one = LinkExperiment({name: config(name, epochs=2)}, SETTINGS, small_graph, num_splits=1)
    (result,) = one.run().results
    assert 0 <= result.values("auc")[0] <= 1 and result.seconds > 0
