from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import Experiment
from crossgcn.training.config import RunConfig


def config_of(**settings: Any) -> RunConfig:
    tiny = {"epochs": 4, "hidden_channels": 4, "num_splits": 2, "train": 5}
    return RunConfig.create(**{**tiny, **settings})


def test_models_compared_share_splits_and_seeds(small_graph: Data) -> None:
    configs = [config_of(model=name) for name in ("gcn", "cross-gcn")]
    baseline, ours = Experiment(configs, small_graph).run()
    assert len(ours.records) == len(baseline.records) == 2
    for first, second in zip(baseline.records, ours.records, strict=True):
        assert first["split"] == second["split"]
        assert first["seed"] == second["seed"]
        assert first["dataset"] == second["dataset"]
    assert len({record["seed"] for record in ours.records}) == 2
    assert ours.config.model == ours.records[0]["config"]["model"] == "cross-gcn"


def test_more_splits_reuse_the_runs_there_are(small_graph: Data, tmp_path: Path) -> None:
    Experiment([config_of(model="gcn")], small_graph).run(out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    (runs,) = Experiment([config_of(model="gcn", num_splits=3)], small_graph).run(out=tmp_path)
    assert len(before) == 2 and len(runs.records) == 3
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(tmp_path.rglob("run.json"))) == 3


def test_depths_and_models_do_not_share_a_folder(small_graph: Data, tmp_path: Path) -> None:
    configs = [
        config_of(model=model, num_layers=depth, num_splits=1)
        for depth in (1, 2)
        for model in ("gcn", "mlp")
    ]
    Experiment(configs, small_graph).run(out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gcn-1-layer",
        "gcn-2-layer",
        "mlp-1-layer",
        "mlp-2-layer",
    ]


def test_the_same_config_twice_is_refused(small_graph: Data) -> None:
    with pytest.raises(BadInput, match="cross-gcn is given twice with the same settings"):
        Experiment([config_of(), config_of()], small_graph)


def test_progress_counts_every_epoch_once(small_graph: Data) -> None:
    seen: list[tuple[int, int]] = []
    Experiment([config_of(model="gcn"), config_of(model="mlp", epochs=3)], small_graph).run(
        on_epochs=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (14, 14)


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "cora"},
        {"splits": "public"},
        {"num_splits": 3},
        {"train": "all"},
        {"seed": 1},
    ],
)
def test_what_cannot_be_paired_is_refused(change: dict[str, Any], small_graph: Data) -> None:
    (name,) = change
    with pytest.raises(BadInput, match=f"models must share {name} to be compared"):
        Experiment([config_of(model="gcn"), config_of(model="mlp", **change)], small_graph)


def test_a_mistake_in_the_last_model_is_found_before_the_first_is_trained(
    small_graph: Data,
) -> None:
    with pytest.raises(BadInput, match="names 3 layers, but num_layers is 2"):
        Experiment([config_of(model="gcn"), config_of(order=(2, 1, 1))], small_graph)


def test_on_a_single_split_every_seed_counts(small_graph: Data) -> None:
    config = RunConfig(splits="public", num_splits=3, epochs=3)
    (repeated,) = Experiment([config], small_graph).run()
    assert repeated.num_splits == 1
    assert len(repeated.test_accuracy) == 3
    assert repeated.summary.sd is not None

    config = RunConfig(splits="random", num_splits=3, train="all", epochs=3)
    (all_nodes,) = Experiment([config], small_graph).run()
    assert (all_nodes.num_splits, len(all_nodes.test_accuracy)) == (1, 3)
