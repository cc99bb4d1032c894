from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.trials import Trial, TrialFolder

SEARCH: dict[str, Any] = {"settings": {"epochs": 3}, "space": {"dropout": [0.1, 0.5]}, "repeats": 1}
TRIAL = Trial(0, {"dropout": 0.5, "order": (2, 1), "model": "é"}, (0.25, 0.75), 1.5)


def test_a_trial_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path / "new", SEARCH)
    failed = Trial(1, {"dropout": 0.1}, failure="it diverged")
    for trial in (TRIAL, failed):
        folder.write(trial)
    again = TrialFolder(tmp_path / "new", SEARCH)
    assert [again.read(number) for number in range(3)] == [TRIAL, failed, None]
    assert (TRIAL.score, failed.score) == (0.5, None)


def test_a_trial_cut_short_anywhere_is_not_trusted(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path, SEARCH)
    folder.write(TRIAL)
    path = tmp_path / "trial-000.json"
    whole = path.read_bytes()
    for length in range(len(whole.rstrip())):
        path.write_bytes(whole[:length])
        assert folder.read(0) is None, length
    path.write_bytes(whole.replace(b"0.75", b"0.95"))
    assert folder.read(0) is None
    path.write_bytes(whole)
    assert folder.read(0) == TRIAL


def test_what_a_writer_left_that_was_killed_does_not_count(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path, SEARCH)
    folder.write(TRIAL)
    (tmp_path / "trial-000.json").rename(tmp_path / ".trial-000.json.0a1b2c3d.part")
    assert folder.read(0) is None


def test_runs_go_when_their_trial_is_finished(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path, SEARCH)
    for number in (0, 1):
        (folder.runs_of(number) / "split-00").mkdir(parents=True)
    folder.write(TRIAL)
    assert not folder.runs_of(0).exists() and folder.runs_of(1).exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"epochs": 4}}, r"another settings: epochs \(3, not 4\)"),
        ({"space": {"dropout": [0.1]}}, r"another space: dropout \(\[0.1, 0.5\], not \[0.1\]\)"),
        ({"space": {}}, r"another space: dropout \(\[0.1, 0.5\], not None\)"),
        ({"repeats": 2}, r"another repeats \(1, not 2\)"),
        ({"device": "cuda"}, r"another device \(None, not cuda\)"),
    ],
)
def test_another_search_is_not_continued(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    TrialFolder(tmp_path, SEARCH)
    with pytest.raises(BadInput, match=f"holds a search with {words}: give another --out"):
        TrialFolder(tmp_path, SEARCH | change)


def test_trials_of_who_knows_what_are_not_continued(tmp_path: Path) -> None:
    TrialFolder(tmp_path, SEARCH).write(TRIAL)
    path = tmp_path / "search.json"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(BadInput, match=r"search\.json: is missing or damaged"):
        TrialFolder(tmp_path, SEARCH)
    (tmp_path / "trial-000.json").unlink()
    TrialFolder(tmp_path, SEARCH)
    assert TrialFolder(tmp_path, SEARCH).read(0) is None
