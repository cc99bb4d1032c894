from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph
from crossgcn.errors import WorkFailed
from crossgcn.links.edge_splits import make_edge_splits
from crossgcn.links.settings import LinkSettings
from crossgcn.links.training import LinkTrainer
from crossgcn.training.config import RunConfig
from crossgcn.training.trainer import Run

SETTINGS = LinkSettings(embedding_channels=8, folds=3, hits_at=(5,))


@pytest.fixture
def trainer(small_graph: Data) -> LinkTrainer:
    data = canonical_graph(small_graph)
    return LinkTrainer(data, make_edge_splits(data, num_splits=2), SETTINGS)


def config(model: str = "gcn", **changes: Any) -> RunConfig:
    return RunConfig.create(model=model, epochs=4, **changes)


def test_a_record_says_what_was_done_and_repeats_itself(
    trainer: LinkTrainer, tmp_path: Path
) -> None:
    run = Run(config(), 1, folder=tmp_path / "run")
    (record,) = trainer.train([run])
    assert not isinstance(record, WorkFailed)
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    sealed = {"files", "sha256"}
    assert {key: written[key] for key in written.keys() - sealed} == record
    assert record["test"].keys() == {"auc", "ap", "hits@5", "mrr"}
    assert record["links"]["folds"] == 3
    assert record["split"]["index"] == 1 and record["split"]["test"]["pairs"] > 0
    assert record["seed"] == 1
    assert not {"splits", "train"} & record["config"].keys()
    epochs = pd.read_csv(tmp_path / "run" / "epochs.csv")
    assert list(epochs.columns) == ["epoch", "train_loss", "validation_auc"]
    assert epochs["validation_auc"].max() == record["validation_auc"]
    assert epochs["validation_auc"].argmax() + 1 == record["best_epoch"]
    (again,) = trainer.train([run])
    assert not isinstance(again, WorkFailed)
    for entry in ("test", "validation_auc", "best_epoch", "split"):
        assert again[entry] == record[entry]


def test_runs_differ_by_their_split_and_their_settings(
    trainer: LinkTrainer, small_graph: Data
) -> None:
    first, second = (trainer.identity(Run(config(), split)) for split in (0, 1))
    assert first["split"] != second["split"] and first["seed"] != second["seed"]
    other = LinkTrainer(canonical_graph(small_graph), trainer.splits, LinkSettings(folds=4))
    assert other.identity(Run(config(), 0))["links"] != first["links"]


def test_models_of_one_split_have_the_same_seed_and_edges(trainer: LinkTrainer) -> None:
    plain, ours = (trainer.identity(Run(config(model=model), 0)) for model in ("gcn", "cross-gcn"))
    assert plain["split"] == ours["split"] and plain["seed"] == ours["seed"]


def test_a_diverged_run_leaves_no_record_and_says_which_it_was(
    trainer: LinkTrainer, tmp_path: Path
) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    run = Run(config(learning_rate=1e30), 0, folder=tmp_path / "run")
    (failure,) = trainer.train([run])
    assert isinstance(failure, WorkFailed) and str(failure).startswith("gcn, split 0: training")
    assert not (tmp_path / "run" / "run.json").exists()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
