from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.stored.import_graph import store_graph
from crossgcn.data.stored.open import StoredGraph
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.run_folder import open_run
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint
from crossgcn.training.config import RunConfig
from crossgcn.training.trainer import Run, Trainer

Command = Callable[..., CompletedProcess[str]]
BATCHES = ("--splits", "public", "--set", "batch_size=8", "--epochs", "5", "--device", "cpu")
RUN = Path("cross-gcn-2-layer", "split-00")


@pytest.fixture
def folder(small_graph: Data, tmp_path: Path) -> Path:
    """The small graph as a folder that can be opened."""
    return store_graph(small_graph, tmp_path / "graphs" / "small").folder


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / RUN / "run.json").read_bytes())
    return record


def test_a_graph_on_disk_is_trained_on_without_being_loaded(
    crossgcn: Command,
    folder: Path,
    graph_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert crossgcn("train", graph_file, *BATCHES, "--out", tmp_path / "file").returncode == 0
    with monkeypatch.context() as patched:
        patched.setattr(StoredGraph, "to_data", lambda graph: pytest.fail("it was loaded"))
        done = crossgcn("train", folder, *BATCHES, "--json", "--out", tmp_path / "opened")
        predict = ("predict", tmp_path / "opened", "--out", tmp_path / "opened.csv")
        assert crossgcn(*predict).returncode == 0
    assert done.returncode == 0, done.stderr
    assert crossgcn("predict", tmp_path / "file", "--out", tmp_path / "file.csv").returncode == 0
    ours, theirs = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("opened", "file"))
    pd.testing.assert_frame_equal(ours, theirs, rtol=0, atol=2e-6)
    opened, loaded = record_of(tmp_path / "opened"), record_of(tmp_path / "file")
    for name in ("test_accuracy", "validation_accuracy", "best_epoch"):
        assert opened[name] == loaded[name]
    assert not (tmp_path / "opened" / "graph.npz").exists()
    run = open_run(tmp_path / "opened")
    assert torch.equal(run.data.edge_index, open_run(tmp_path / "file").data.edge_index)
    assert crossgcn("explain", tmp_path / "opened", "--json").returncode == 0
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(BadInput, match="small"):
        open_run(tmp_path / "opened")


def test_nodes_are_scored_by_a_model_that_saw_a_graph_folder_as_a_whole(
    crossgcn: Command, folder: Path, tmp_path: Path
) -> None:
    whole = ("--model", "grand", "--splits", "public", "--epochs", "2", "--out", tmp_path / "run")
    assert crossgcn("train", folder, *whole).returncode == 0
    predicted = crossgcn("predict", tmp_path / "run", "--out", tmp_path / "nodes.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert len(pd.read_csv(tmp_path / "nodes.csv")) == 90


def test_another_process_gives_the_same_bytes(small_graph: Data, tmp_path: Path) -> None:
    config = RunConfig(splits="public", batch_size=8, fanout=(4, 3), epochs=3, hidden_channels=8)
    workload = Experiment([config], small_graph).trainer(save_models=True)
    runs = [Run(config, 0, folder=tmp_path / name) for name in ("here", "there")]
    workload.prepare(runs)
    elsewhere: Trainer = pickle.loads(pickle.dumps(workload))
    workload.train(runs[:1])
    elsewhere.train(runs[1:])
    for file in ("model.safetensors", "epochs.csv"):
        first, second = ((tmp_path / name / file).read_bytes() for name in ("here", "there"))
        assert first == second


def test_a_full_batch_record_says_nothing_of_batches(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    crossgcn("train", graph_file, "--splits", "public", "--epochs", 1, "--out", tmp_path / "full")
    names = record_of(tmp_path / "full")["config"].keys()
    assert names.isdisjoint({"batch_size", "fanout", "evaluate_every", "checkpoint_every"})


def test_another_runs_resume_point_is_refused_and_left(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        save = Checkpoint.save

        def save_and_stop(*arguments: Any) -> None:
            save(*arguments)
            raise KeyboardInterrupt

        patched.setattr(Checkpoint, "save", save_and_stop)
        stopped = crossgcn("train", graph_file, *BATCHES, "--workers", 1, "--out", tmp_path / "a")
    assert stopped.returncode == 130 and "--resume --out" in stopped.stderr
    point = tmp_path / "a" / RUN / CHECKPOINT
    before = point.read_bytes()
    other = [*BATCHES, "--dropout", "0.1", "--resume", "--out", tmp_path / "a"]
    refused = crossgcn("train", graph_file, *other)
    assert refused.returncode == 2
    assert "another dropout (0.5, not 0.1)" in refused.stderr
    assert point.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "fanout=5"), "fanout is for training in batches: give batch_size too"),
        (("--set", "checkpoint_every=5"), "checkpoint_every is for training in batches: give"),
        (("--set", "batch_size=8", "--set", "fanout=0"), "fanout is 0"),
        (("--set", "batch_size=8", "--set", "fanout=a"), "fanout cannot be 'a'"),
        (("--set", "batch_size=8", "--set", "fanout=1,2,3"), "for 3 hops, but the model has 2"),
        (("--set", "batch_size=0"), "batch_size should be greater than or equal to 1"),
        (("--set", "batch_size=8", "--model", "grand"), "cannot be trained in batches"),
        (("--set", "batch_size=8", "--model", "semi-emb"), "cannot be trained in batches"),
    ],
)
def test_what_cannot_be_trained_in_batches_is_refused(
    crossgcn: Command, graph_file: Path, options: tuple[str, ...], words: str
) -> None:
    refused = crossgcn("train", graph_file, "--splits", "public", *options)
    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.split())
    assert not Path("runs").exists()
