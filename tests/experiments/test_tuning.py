from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from optuna.distributions import FloatDistribution, IntDistribution
from torch_geometric.data import Data

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.run_folder import open_run
from crossgcn.experiments.tune.space import Search, Space, choices
from crossgcn.experiments.tune.trials import JOURNAL, Trial
from crossgcn.experiments.tune.tuning import Tuning, TuningResult
from crossgcn.training.config import RunConfig
from crossgcn.training.records import write_record

SPACE: Space = {
    "hidden_channels": choices(2, 4, 8),
    "learning_rate": FloatDistribution(1e-3, 1e-1, log=True),
    "order": IntDistribution(1, 3),
}
PLAIN: Space = {name: entry for name, entry in SPACE.items() if name != "order"}


def config_of(**settings: Any) -> RunConfig:
    return RunConfig.create(**({"epochs": 4, "num_splits": 2, "train": 5} | settings))


def both(**settings: Any) -> tuple[Search, Search]:
    return (
        Search(config_of(**settings), SPACE),
        Search(config_of(model="gcn", **settings), PLAIN),
    )


def untimed(trials: tuple[Trial, ...]) -> list[tuple[Any, ...]]:
    return [(t.number, t.values, t.validation_score, t.failure is None) for t in trials]


def trials_of(result: TuningResult) -> list[list[tuple[Any, ...]]]:
    assert result.twin is not None
    return [untimed(result.ours.trials), untimed(result.twin.trials)]


def num_trials_in(journal: Path) -> int:
    """Count the lines that hold a trial."""
    return sum("distributions" in json.loads(line) for line in journal.read_text().splitlines())


class Killed(BaseException):
    """As sudden as an interrupt."""


def test_the_best_mean_validation_accuracy_is_chosen_and_tested(
    small_graph: Data, tmp_path: Path
) -> None:
    result = Tuning(*both(), data=small_graph).run(out=tmp_path, trials=4)
    for tuned in (result.ours, result.twin):
        assert tuned is not None
        assert len(tuned.trials) == 4
        scores = [trial.score or 0.0 for trial in tuned.trials]
        assert tuned.chosen.number == scores.index(max(scores))
        assert tuned.chosen.values.items() <= tuned.config.model_dump().items()
        assert fmean(tuned.runs.validation_accuracy) == pytest.approx(tuned.chosen.score)
        (again,) = Experiment([tuned.config], small_graph).run()
        assert again.test_accuracy == tuned.runs.test_accuracy
        assert open_run(tuned.folder).config.hidden_channels == tuned.config.hidden_channels
        assert tuned.test_reads == 1
    assert result.twin is not None and result.difference is not None
    changes = zip(result.ours.runs.test_accuracy, result.twin.runs.test_accuracy, strict=True)
    assert result.difference.mean == pytest.approx(fmean(a - b for a, b in changes))


def test_labels_of_test_nodes_change_nothing_but_the_test(
    small_graph: Data, tmp_path: Path
) -> None:
    result = Tuning(*both(), data=small_graph).run(out=tmp_path / "a", trials=3)
    wrong = small_graph.clone()
    tested = wrong.roles[0] == 3
    wrong.y[tested] = (wrong.y[tested] + 1) % 3
    other = Tuning(*both(), data=wrong).run(out=tmp_path / "b", trials=3)
    assert trials_of(other) == trials_of(result)
    assert other.ours.runs.test_accuracy != result.ours.runs.test_accuracy


@pytest.mark.parametrize("stop", [1, 4])
def test_a_search_that_was_stopped_makes_the_same_trials(
    stop: int, small_graph: Data, tmp_path: Path
) -> None:
    seen = []

    def count(model: str, trial: Trial) -> None:
        seen.append(model)
        if len(seen) == stop:
            raise Killed

    tuning = Tuning(*both(), data=small_graph)
    with pytest.raises(Killed):
        tuning.run(out=tmp_path / "stopped", trials=4, on_trial=count)
    journal = tmp_path / "stopped" / "trials" / JOURNAL
    kept = journal.read_bytes()
    assert num_trials_in(journal) == stop
    resumed = Tuning(*both(), data=small_graph).run(out=tmp_path / "stopped", trials=4)
    assert journal.read_bytes().startswith(kept) and num_trials_in(journal) == 8
    whole = tuning.run(out=tmp_path / "whole", trials=4)
    assert trials_of(resumed) == trials_of(whole)
    assert resumed.ours.runs.test_accuracy == whole.ours.runs.test_accuracy


def test_runs_of_a_trial_that_was_stopped_are_not_repeated(
    small_graph: Data, tmp_path: Path
) -> None:
    tuning = Tuning(*both(), data=small_graph)

    def stop(done: int, total: int) -> None:
        if list(tmp_path.rglob("split-00/run.json")):
            raise Killed

    with pytest.raises(Killed):
        tuning.run(out=tmp_path, trials=2, on_epochs=stop)
    runs = tmp_path / "trials" / "cross-gcn" / "trial-000"
    finished = sorted(path.parent.name for path in runs.rglob("run.json"))
    assert finished == ["split-00"]
    record = json.loads((runs / "split-00" / "run.json").read_bytes())
    write_record(runs / "split-00", record | {"validation_score": 0.5})
    resumed = tuning.run(out=tmp_path, trials=1)
    assert resumed.ours.trials[0].validation_score[0] == 0.5
    assert not list((tmp_path / "trials").rglob("run.json"))


def test_a_trial_that_was_half_written_is_made_again(small_graph: Data, tmp_path: Path) -> None:
    tuning = Tuning(*both(), data=small_graph)
    first = tuning.run(out=tmp_path, trials=3)
    path = tmp_path / "trials" / JOURNAL
    path.write_bytes(path.read_bytes()[:-40])
    assert trials_of(tuning.run(out=tmp_path, trials=3)) == trials_of(first)
    assert num_trials_in(path) == 6


def test_a_finished_search_can_be_made_longer_and_says_what_it_read(
    small_graph: Data, tmp_path: Path
) -> None:
    tuning = Tuning(*both(), data=small_graph)
    whole = tuning.run(out=tmp_path / "whole", trials=4)
    short = tuning.run(out=tmp_path / "grown", trials=1)
    assert short.ours.chosen.number == 0
    grown = tuning.run(out=tmp_path / "grown", trials=4)
    assert trials_of(grown) == trials_of(whole)
    assert grown.ours.test_reads == (1 if grown.ours.chosen.number == 0 else 2)


def test_a_trial_that_diverges_has_failed_and_the_search_goes_on(
    small_graph: Data, tmp_path: Path
) -> None:
    space: Space = {"learning_rate": choices(1e30, 0.01), "hidden_channels": choices(2, 4, 8)}
    tuning = Tuning(Search(config_of(), space), data=small_graph)
    result = tuning.run(out=tmp_path, trials=5)
    failed = [trial for trial in result.ours.trials if trial.failure is not None]
    assert failed and len(failed) < 5
    assert all("training diverged" in (trial.failure or "") for trial in failed)
    assert all(trial.values["learning_rate"] == 1e30 for trial in failed)
    assert untimed(tuning.run(out=tmp_path, trials=5).ours.trials) == untimed(result.ours.trials)


def test_settings_that_make_no_model_together_are_refused_at_once(small_graph: Data) -> None:
    space: Space = {"num_layers": choices(1, 2)}
    with pytest.raises(BadInput, match=r"try cross-gcn with num_layers 1, which .*names 2 layers"):
        Tuning(Search(config_of(order=(2, 1)), space), data=small_graph)
    alone = Tuning(Search(config_of(order=2), space), data=small_graph)
    assert len(alone.searches) == 1


def test_a_worker_that_dies_ends_the_search_and_is_held_against_no_settings(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = Tuning(*both(), data=small_graph)
    tuning.run(out=tmp_path / "cut", trials=1)

    def die(*args: Any, **kwargs: Any) -> None:
        raise WorkFailed("a worker process died; --resume continues")

    with monkeypatch.context() as patched:
        patched.setattr("crossgcn.experiments.tune.tuning.train_many", die)
        with pytest.raises(WorkFailed, match="a worker process died"):
            tuning.run(out=tmp_path / "cut", trials=3)
    assert num_trials_in(tmp_path / "cut" / "trials" / JOURNAL) == 2
    resumed = tuning.run(out=tmp_path / "cut", trials=3)
    assert trials_of(resumed) == trials_of(tuning.run(out=tmp_path / "whole", trials=3))


def test_when_all_trials_fail_the_first_reason_is_given(small_graph: Data, tmp_path: Path) -> None:
    space: Space = {"learning_rate": choices(1e30, 1e31)}
    tuning = Tuning(Search(config_of(), space), data=small_graph)
    with pytest.raises(WorkFailed, match=r"all 2 trials of cross-gcn failed, .*diverged"):
        tuning.run(out=tmp_path, trials=2)


def test_fewer_splits_search_and_all_are_tested(small_graph: Data, tmp_path: Path) -> None:
    result = Tuning(*both(), data=small_graph, search_splits=1).run(out=tmp_path, trials=1)
    assert len(result.ours.trials[0].validation_score) == 1
    assert len(result.ours.runs.test_accuracy) == 2
    for wrong in (0, 3):
        with pytest.raises(BadInput, match=f"--search-splits is {wrong}: give 1 to 2"):
            Tuning(*both(), data=small_graph, search_splits=wrong)


def test_out_of_time_both_have_had_as_many_trials(small_graph: Data, tmp_path: Path) -> None:
    tuning = Tuning(*both(), data=small_graph)
    result = tuning.run(out=tmp_path, trials=9, timeout=0.0)
    assert [len(trials) for trials in trials_of(result)] == [1, 1]
    tuning.run(out=tmp_path, trials=3)
    again = tuning.run(out=tmp_path, trials=9, timeout=0.0)
    assert [len(trials) for trials in trials_of(again)] == [3, 3]


def test_a_twin_of_which_nothing_is_searched_has_one_trial(
    small_graph: Data, tmp_path: Path
) -> None:
    ours = Search(config_of(), {"order": IntDistribution(1, 3)})
    twin = Search(config_of(model="gcn"), {})
    result = Tuning(ours, twin, data=small_graph).run(out=tmp_path, trials=3)
    assert [len(trials) for trials in trials_of(result)] == [3, 1]


def test_on_stratified_splits_test_nodes_are_set_apart(small_graph: Data, tmp_path: Path) -> None:
    searches = both(splits="stratified", train="all")
    tuning = Tuning(*searches, data=small_graph)
    splits = tuning.experiment.splits
    assert all(torch.equal(split.test, splits[0].test) for split in splits)
    result = tuning.run(out=tmp_path, trials=2)
    assert result.ours.config.splits == "stratified"
    assert result.ours.runs.test_to_train == pytest.approx(18 / 54)
    again = open_run(result.ours.folder)
    assert torch.equal(again.split.test, splits[0].test)


def test_splits_that_show_each_others_test_nodes_are_refused(small_graph: Data) -> None:
    small_graph.roles = torch.cat([small_graph.roles, small_graph.roles.roll(30)])
    with pytest.raises(BadInput, match="node 0 trains in split 0 and tests in another"):
        Tuning(*both(splits="public", train=None, num_splits=2), data=small_graph)


def test_another_graph_is_another_search(small_graph: Data, tmp_path: Path) -> None:
    Tuning(*both(), data=small_graph).run(out=tmp_path, trials=1)
    elsewhere = (small_graph.edge_index > 3).all(dim=0)
    small_graph.edge_index = small_graph.edge_index[:, elsewhere]
    with pytest.raises(BadInput, match="holds a search with another dataset"):
        Tuning(*both(), data=small_graph).run(out=tmp_path, trials=1)


def test_a_test_curve_is_not_drawn_while_searching(small_graph: Data, tmp_path: Path) -> None:
    tuning = Tuning(*both(test_curve=True), data=small_graph)
    assert not any(config.test_curve for config in tuning.experiment.configs)
    with pytest.raises(BadInput, match="--trials must be at least 1; got 0"):
        tuning.run(out=tmp_path, trials=0)


def test_progress_counts_up_to_the_end(small_graph: Data, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    Tuning(*both(), data=small_graph).run(
        out=tmp_path, trials=2, on_epochs=lambda done, total: seen.append((done, total))
    )
    assert seen == sorted(seen)
    assert seen[-1] == (6 * 2 * 4, 6 * 2 * 4)
