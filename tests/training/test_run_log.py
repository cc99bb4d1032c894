"""Runs in TensorBoard, MLflow and Weights & Biases, each by what it reads back itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch_geometric.data import Data

from crossgcn import BadInput, Experiment, RunConfig, log_to

EPOCHS = 3


def train(data: Data, out: Path) -> dict[str, Any]:
    config = RunConfig(epochs=EPOCHS, splits="public", hidden_channels=4)
    (runs,) = Experiment([config], data).run(out=out)
    return runs.records[0]


def test_tensorboard_shows_every_epoch_in_the_folder_of_the_run(
    small_graph: Data, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with log_to("tensorboard"):
        record = train(small_graph, tmp_path)
    events = EventAccumulator(str(tmp_path / "cross-gcn-2-layer" / "split-00")).Reload()
    scores = events.Scalars("validation_score")
    assert [each.step for each in scores] == list(range(1, EPOCHS + 1))
    assert max(each.value for each in scores) == pytest.approx(record["validation_accuracy"])
    assert events.Scalars("result/test_accuracy")[-1].value == pytest.approx(
        record["test_accuracy"]
    )


def test_mlflow_has_settings_epochs_and_results_in_a_file_store(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    with log_to("mlflow"):
        record = train(small_graph, tmp_path / "out")
    client = mlflow.MlflowClient()
    experiment = mlflow.get_experiment_by_name("crossgcn")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["hidden_channels"] == "4"
    assert run.data.metrics["test_accuracy"] == pytest.approx(record["test_accuracy"])
    losses = client.get_metric_history(run.info.run_id, "train_loss")
    assert [each.step for each in losses] == list(range(1, EPOCHS + 1))


@pytest.mark.enable_socket  # of its own process on this machine
def test_wandb_writes_a_run_offline(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    with log_to("wandb"):
        train(small_graph, tmp_path)
    wandb.teardown()  # ends its process, which writes the file
    (written,) = tmp_path.glob("cross-gcn-2-layer/split-00/wandb/offline-run-*/*.wandb")
    content = written.read_bytes()
    assert content.count(b"validation_loss") >= EPOCHS
    assert b"test_accuracy" in content


def test_a_stopped_run_is_closed_as_failed(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crossgcn.training.trainer.train_model_batch", stop)
    with pytest.raises(KeyboardInterrupt), log_to("mlflow"):
        train(small_graph, tmp_path / "out")
    experiment = mlflow.get_experiment_by_name("crossgcn")
    (run,) = mlflow.MlflowClient().search_runs([experiment.experiment_id])
    assert run.info.status == "FAILED"


def test_a_logger_that_is_unknown_or_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BadInput, match="did you mean 'mlflow'"), log_to("mlfow"):
        pass
    monkeypatch.setattr("crossgcn.training.run_log.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'crossgcn\[wandb\]'"), log_to("wandb"):
        pass


def test_without_a_logger_nothing_but_our_own_files_is_written(
    small_graph: Data, tmp_path: Path
) -> None:
    with log_to(None):
        train(small_graph, tmp_path)
    names = {path.name for path in (tmp_path / "cross-gcn-2-layer" / "split-00").iterdir()}
    assert names == {"run.json", "epochs.csv"}
