from __future__ import annotations

import math
import sys
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution, IntDistribution

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import Space, choices, contains
from crossgcn.experiments.tune.trials import JOURNAL, RANDOM_TRIALS, Trial, TrialLog, open_journal

SPACE: Space = {
    "width": choices(16, 32, 64),
    "rate": FloatDistribution(1e-3, 1e-1, log=True),
    "depth": IntDistribution(1, 9),
    "held": choices(7),
    "orders": choices((2, 1), 3),
}
FIRST = {"width": 32, "rate": 0.01}
IDENTITY: dict[str, Any] = {"settings": {"epochs": 3}, "space": {"dropout": [0.1]}, "repeats": 1}

Values = dict[str, Any]


def open_log(folder: Path, space: Space = SPACE, identity: dict[str, Any] = IDENTITY) -> TrialLog:
    return TrialLog(folder, open_journal(folder), "model", space, identity)


def try_out(number: int, values: Values) -> Trial:
    """Score values: best at one place; wide and deep fails."""
    if values["width"] == 64 and values["depth"] > 6:
        return Trial(number, values, failure="it diverged")
    score = -abs(math.log10(values["rate"]) + 2) - abs(int(values["depth"]) - 4)
    return Trial(number, values, (score - 0.25, score + 0.25), 1.5)


def search(folder: Path, count: int, seed: int = 0, space: Space = SPACE) -> list[Trial]:
    """Make trials until there are so many."""
    log = open_log(folder, space)
    while len(log.trials) < count:
        values = log.propose(seed, FIRST)
        assert values == log.propose(seed, FIRST)
        log.add(try_out(len(log.trials), values))
    return log.trials


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(folder: Path) -> list[Trial]:
    return search(folder, 26)


@settings(max_examples=8, deadline=None)
@given(share=st.floats(0, 1))
def test_a_search_continues_wherever_its_journal_was_cut(
    share: float, whole: list[Trial], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = (folder / JOURNAL).read_bytes()
    cut = tmp_path_factory.mktemp("cut")
    (cut / JOURNAL).write_bytes(content[: round(share * len(content))])
    assert search(cut, 26) == whole


def test_a_trial_comes_back_as_it_was(folder: Path, whole: list[Trial]) -> None:
    assert open_log(folder).trials == whole
    assert [trial.number for trial in whole] == list(range(26))
    failed = [trial for trial in whole if trial.failure is not None]
    assert failed and all(trial.score is None for trial in failed)
    assert Trial(0, {}, (0.25, 0.75)).score == 0.5


def test_proposals_are_in_the_space(whole: list[Trial]) -> None:
    for trial in whole:
        assert trial.values.keys() == SPACE.keys()
        assert all(contains(entry, trial.values[name]) for name, entry in SPACE.items())
        assert type(trial.values["depth"]) is int
    assert {trial.values["orders"] for trial in whole} == {(2, 1), 3}


def test_the_first_trial_has_the_defaults(whole: list[Trial]) -> None:
    assert FIRST.items() <= whole[0].values.items()


def test_the_seed_decides(whole: list[Trial], tmp_path: Path) -> None:
    assert search(tmp_path, 5, seed=1)[1:] != whole[1:5]


def test_the_search_learns_from_its_trials(whole: list[Trial]) -> None:
    def mean_distance(trials: list[Trial]) -> float:
        return fmean(abs(trial.values["depth"] - 4) for trial in trials)

    assert mean_distance(whole[RANDOM_TRIALS:]) < mean_distance(whole[:RANDOM_TRIALS])


def test_random_trials_of_a_twin_are_its_models_without_the_last_settings(
    whole: list[Trial], tmp_path: Path
) -> None:
    names = ("width", "rate", "depth", "held")
    twin = search(tmp_path, RANDOM_TRIALS, space={name: SPACE[name] for name in names})
    ours = [{name: trial.values[name] for name in names} for trial in whole]
    assert [trial.values for trial in twin] == ours[:RANDOM_TRIALS]


def test_two_models_share_a_journal(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    logs = [TrialLog(tmp_path, journal, name, SPACE, IDENTITY) for name in ("a", "b")]
    for count, log in enumerate(logs, 1):
        for number in range(count):
            log.add(try_out(number, log.propose(0, FIRST)))
    again = open_journal(tmp_path)
    counts = [len(TrialLog(tmp_path, again, name, SPACE, IDENTITY).trials) for name in ("a", "b")]
    assert counts == [1, 2]


def test_a_lock_left_by_a_killed_search_does_not_block(tmp_path: Path) -> None:
    search(tmp_path, 1)
    (tmp_path / f"{JOURNAL}.lock").touch()
    assert len(search(tmp_path, 2)) == 2


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    search(tmp_path, 2)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[2] = b"no JSON\n"
    (tmp_path / JOURNAL).write_bytes(b"".join(lines))
    with pytest.raises(BadInput, match=r"journal\.jsonl: is damaged; give another --out"):
        open_log(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"epochs": 4}}, r"another settings: epochs \(3, not 4\)"),
        ({"space": {"dropout": [0.2]}}, r"another space: dropout \(\[0.1\], not \[0.2\]\)"),
        ({"space": {}}, r"another space: dropout \(\[0.1\], not None\)"),
        ({"repeats": 2}, r"another repeats \(1, not 2\)"),
        ({"device": "cuda"}, r"another device \(None, not cuda\)"),
    ],
)
def test_another_search_is_not_continued(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    open_log(tmp_path)
    with pytest.raises(BadInput, match=f"holds a search with {words}: give another --out"):
        open_log(tmp_path, identity=IDENTITY | change)


def test_without_optuna_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "crossgcn.experiments.tune")
    with pytest.raises(BadInput, match=r"not installed: pip install 'crossgcn\[tune\]'$"):
        import_module("crossgcn.experiments.tune")
