"""Runs of cross-hops, whose scores depend on the labels of the training nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.features import Preprocess
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import Experiment, RepeatedRuns
from crossgcn.experiments.predict import predict_nodes, score_nodes
from crossgcn.experiments.run_folder import RunFolder, choose_model, open_run
from crossgcn.reports.summaries import summarise_training
from crossgcn.training.config import RunConfig
from crossgcn.training.metrics import evaluate

TINY: dict[str, Any] = {
    "splits": "stratified",
    "num_splits": 2,
    "epochs": 3,
    "hidden_channels": 4,
    "bags": 2,
}


def number_graph(graph: Data) -> Data:
    data = graph.clone()
    data.y = graph.x.to_dense().sum(dim=1) + 0.25
    data.y[:5] = torch.nan
    data.num_classes = 1
    return data


def trained(data: Data, folder: Path, **settings: Any) -> tuple[RunFolder, RepeatedRuns]:
    config = RunConfig.create(model="cross-hops", **(TINY | settings))
    names = ("share",) if data.num_classes == 1 else ("a", "b", "c")
    experiment = Experiment([config], data, Preprocess(names))
    (runs,) = experiment.run(out=folder, save_models=True)
    choose_model(folder, experiment)
    return open_run(folder), runs


@pytest.mark.parametrize("task", ["classes", "number"])
def test_the_scores_of_a_run_folder_are_those_of_its_records(
    task: str, small_graph: Data, tmp_path: Path
) -> None:
    data = small_graph if task == "classes" else number_graph(small_graph)
    run, _ = trained(data, tmp_path, metric="log_loss" if task == "classes" else "mae")
    for one in run.runs:
        test = run.split_of(one).test
        measured = evaluate(run.data.y[test].numpy(), score_nodes(run, one)[0][test].numpy())
        assert measured == pytest.approx(one.record["test"], rel=1e-4)
    scores = [one.record["validation_score"] for one in run.runs]
    assert max(scores) < 0, "a metric that should shrink is negated"
    assert run.chosen.record["validation_score"] == max(scores)


def test_labels_of_other_nodes_than_the_training_ones_change_nothing(
    small_graph: Data, tmp_path: Path
) -> None:
    run, _ = trained(small_graph, tmp_path)
    before = score_nodes(run)[0]
    run.data.y[run.split.test] = (run.data.y[run.split.test] + 1) % 3
    run.data.y[run.split.validation] = 0
    assert torch.equal(score_nodes(run)[0], before)
    run.data.y[run.split.train] = (run.data.y[run.split.train] + 1) % 3
    assert not torch.allclose(score_nodes(run)[0], before)


def test_the_splits_are_kept_and_not_drawn_again(small_graph: Data, tmp_path: Path) -> None:
    run, runs = trained(small_graph, tmp_path)
    drawn = Experiment([runs.config], small_graph).splits
    for kept, expected in zip(run.splits, drawn, strict=True):
        for part in ("train", "validation", "test"):
            assert torch.equal(getattr(kept, part), getattr(expected, part))
    roles = np.load(tmp_path / "splits.npz")["roles"]
    assert roles.shape == (2, 90)


def test_predictions_say_the_truth_and_what_a_node_was_used_for(
    small_graph: Data, tmp_path: Path
) -> None:
    run, _ = trained(small_graph, tmp_path)
    frame = predict_nodes(run).frame
    assert list(frame)[:4] == ["node", "true", "predicted", "probability: a"]
    assert frame["true"].tolist() == [("a", "b", "c")[node % 3] for node in range(90)]
    tested = frame[frame["used for"] == "test"]
    assert tested["node"].astype(int).tolist() == run.split.test.tolist()
    accuracy = (tested["true"] == tested["predicted"]).mean()
    assert accuracy == pytest.approx(run.chosen.record["test_accuracy"])


def test_numbers_are_predicted_without_classes_or_accuracies(
    small_graph: Data, tmp_path: Path
) -> None:
    run, runs = trained(number_graph(small_graph), tmp_path)
    frame = predict_nodes(run).frame
    assert list(frame) == ["node", "true", "predicted", "used for"]
    assert frame["true"].isna().sum() == 5
    assert (frame.loc[frame["true"].isna(), "used for"] == "none").all()
    summary = summarise_training(runs)
    assert (summary["task"], summary["metric"]) == ("regression", "r2")
    assert list(summary["test"]) == ["r2", "rmse", "mae"]
    assert summary["mean"] == pytest.approx(np.mean(summary["test"]["r2"]))
    assert not [name for name in summary if "accuracy" in name]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "r2"}, "metric 'r2' does not fit a target of classes; choose one of accuracy"),
        ({"hops": 11}, "hops should be less than or equal to 10; got 11"),
    ],
)
def test_settings_that_do_not_fit_the_graph_are_refused(
    settings: dict[str, Any], message: str, small_graph: Data
) -> None:
    with pytest.raises(BadInput, match=message):
        Experiment([RunConfig.create(model="cross-hops", **(TINY | settings))], small_graph)


def test_more_hops_than_no_edges(small_graph: Data) -> None:
    small_graph.edge_index = small_graph.edge_index[:, :0]
    Experiment([RunConfig.create(model="cross-hops", **TINY)], small_graph)
    with pytest.raises(BadInput, match="there are no edges; leave out --hops"):
        Experiment([RunConfig.create(model="cross-hops", hops=1, **TINY)], small_graph)
