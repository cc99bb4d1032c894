from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from tuning_results_by_hand import OURS, PLAIN, RESULT, SPACE, TWIN, tuned

from crossgcn.experiments.statistics import paired_difference
from crossgcn.experiments.tune.tuning import TuningResult
from crossgcn.reports.terminal.tune import (
    config_as_toml,
    settings_table,
    summarise_tuning,
    tuning_notes,
    tuning_table,
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
    assert text.startswith(
        "# cross-gcn: trial 2 of 5, chosen by accuracy on the validation nodes (72.0\u00a0%).\n"
    )
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


def rows(table: Table) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def test_each_model_is_shown_with_its_trials_and_accuracies() -> None:
    title, head, _, ours, twin = rows(tuning_table(summarise_tuning(RESULT)))
    assert title == ["accuracy", "in", "%"]
    assert head[-3:] == ["paired", "to", "gcn"]
    assert ours[:5] == ["cross-gcn", "5", "(1", "failed)", "2"]
    assert ours[5:] == ["72.0", "71.0", "±", "1.0", "+1.67", "±", "0.33"]
    assert twin == ["gcn", "5", "1", "70.3", "69.3", "±", "1.5", "—"]


def test_alone_a_model_is_paired_with_nobody() -> None:
    _, head, _, ours = rows(tuning_table(summarise_tuning(TuningResult(OURS, None))))
    assert "paired" not in head and ours[-1] == "1.0"


def test_chosen_settings_stand_beside_what_they_were_chosen_from() -> None:
    shown = {row[0]: row[1:] for row in rows(settings_table(summarise_tuning(RESULT)))}
    assert shown["setting"] == ["cross-gcn", "gcn", "searched"]
    assert shown["dropout"] == ["0.2", "0.1", "0", "to", "0.8"]
    assert shown["weight_decay"][:2] == ["7.2e-05", "2.68e-05"]
    assert shown["order"] == ["3", "—", "1", "to", "3"]
    assert shown["epochs"] == ["200", "200", "200"]


def test_the_verdict_is_in_words() -> None:
    (verdict,) = tuning_notes(summarise_tuning(RESULT))
    assert verdict.startswith("cross-gcn (2 layers) beats gcn: +1.67 points, 95 % interval")


def test_no_crosses_and_a_second_look_at_test_nodes_are_said() -> None:
    plain = tuned("cross-gcn", [0.8, 0.7], [0.7, 0.7], SPACE)
    twin = tuned("gcn", [0.8, 0.7], [0.7, 0.7], PLAIN)
    read = replace(plain, test_reads=2)
    notes = tuning_notes(summarise_tuning(TuningResult(read, twin)))
    assert any("chose no crosses" in note for note in notes)
    assert any("read more than once" in note for note in notes)
    assert tuning_notes(summarise_tuning(TuningResult(TWIN, None))) == []
