from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_results_by_hand import OURS, PLAIN, RESULT, TWIN, tuned

from crossgcn.experiments.statistics import paired_difference
from crossgcn.experiments.tune.space import TuningResult
from crossgcn.reports.terminal.tune import (
    config_as_toml,
    summarise_tuning,
    tuning_notes,
    write_config,
)
from crossgcn.training.config import RunConfig


def test_the_summary_holds_both_searches_and_their_difference() -> None:
    summary = json.loads(json.dumps(summarise_tuning(RESULT)))
    assert summary.keys() >= {
        *("dataset", "model", "splits", "test_accuracy", "mean", "sd", "validation_accuracy"),
        *("epochs", "seconds", "versions", "threads", "commit", "seed", "num_splits"),
    }
    assert (summary["model"], summary["chosen_trial"], summary["failed_trials"]) == (
        *("cross-gcn", 2, 1),
    )
    assert summary["settings"]["order"] == 3 and summary["settings"]["dropout"] == 0.2
    assert summary["best_so_far"] == pytest.approx([0.7, 0.7, 0.72, 0.72, 0.72])
    assert summary["trials"][1]["failure"] == "diverged"
    twin = summary["twin"]
    assert (twin["model"], twin["chosen_trial"], twin["num_trials"]) == ("gcn", 1, 5)
    expected = paired_difference(OURS.runs.test_accuracy, TWIN.runs.test_accuracy)
    assert summary["paired_difference"] == pytest.approx(expected.mean)
    assert summary["paired_se"] == pytest.approx(expected.standard_error)
    assert summary["seconds"] == pytest.approx((4 + 5) * 2.0 + 6 * 1.0)


def test_without_a_twin_there_is_no_difference() -> None:
    summary = summarise_tuning(TuningResult(TWIN, None))
    assert summary["twin"] is summary["paired_difference"] is summary["paired_interval"] is None


configs = st.builds(
    RunConfig,
    dataset=st.text(min_size=1),
    model=st.sampled_from(["gcn", "cross-gcn"]),
    order=st.none() | st.integers(1, 9) | st.tuples(st.integers(1, 9), st.integers(1, 9)),
    order_weights=st.none() | st.just("gated") | st.tuples(st.floats(-9, 9), st.floats(-9, 9)),
    bias=st.none() | st.booleans(),
    dropout=st.floats(0, 1, exclude_max=True),
    learning_rate=st.floats(0, exclude_min=True, allow_infinity=False, allow_nan=False),
    splits=st.sampled_from(["random", "public", "stratified"]),
    train=st.none() | st.integers(1, 99) | st.just("all"),
)


@settings(max_examples=100, deadline=None)
@given(config=configs)
def test_a_file_of_settings_is_read_as_it_was_written(
    config: RunConfig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("config") / "best.toml"
    path.write_bytes(config_as_toml(config).encode())
    assert RunConfig.create(config_file=path) == config


def test_the_file_says_where_its_settings_come_from(tmp_path: Path) -> None:
    path = tmp_path / "best.toml"
    write_config(path, OURS, with_dataset=True)
    text = path.read_text()
    assert text.startswith("# cross-gcn: trial 2 of 5, chosen by validation accuracy (72.00 %).\n")
    assert RunConfig.create(config_file=path) == OURS.config
    assert "set apart" not in text
    write_config(path, OURS, with_dataset=False)
    assert "dataset" not in path.read_text()


def test_the_file_warns_of_training_again_where_test_nodes_were_set_apart(tmp_path: Path) -> None:
    sealed = tuned("gcn", [0.7, 0.6], [0.7, 0.7], PLAIN, splits="stratified", train="all")
    write_config(tmp_path / "best.toml", sealed, with_dataset=True)
    text = (tmp_path / "best.toml").read_text()
    assert "# tests on nodes that chose the settings" in text
    assert "# model in chosen/gcn-trial-000.\n" in text
    assert RunConfig.create(config_file=tmp_path / "best.toml") == sealed.config
    (note,) = tuning_notes(summarise_tuning(TuningResult(sealed, None)))
    assert "Training again with best.toml on stratified splits" in note
