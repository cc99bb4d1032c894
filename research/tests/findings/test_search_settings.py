"""The script that searches settings by validation accuracy."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crossgcn import RunConfig
from crossgcn.errors import WorkFailed
from research.findings.tables import read_search

PROJECT = Path(__file__).parents[3]

Main = Callable[..., int]


@pytest.fixture
def trained() -> list[tuple[str, str]]:
    """Return the list of trainings that the script started."""
    return []


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: list[tuple[str, str]]) -> Main:
    """Return the script with simulated trainings; crosses diverge at a learning rate of 0.05."""

    class Trained:
        def __init__(self, configs: list[RunConfig]) -> None:
            (self.config,) = configs

        def run(self, **options: Any) -> list[SimpleNamespace]:
            assert options["read_test"] is False
            trained.append((self.config.dataset, self.config.model))
            if self.config.model == "cross-grand" and self.config.learning_rate == 0.05:
                raise WorkFailed("split 3: the loss is no number")
            runs = SimpleNamespace(
                validation_accuracy=[0.7, 0.8], records=[{"best_epoch": 3}] * 2, seconds=1.0
            )
            return [runs]

    main = runpy.run_path(str(PROJECT / "research" / "scripts" / "search_settings.py"))["main"]
    monkeypatch.setitem(main.__globals__, "Experiment", Trained)
    where = ["--folder", str(tmp_path / "lines"), "--out", str(tmp_path / "search.json")]
    return lambda *arguments: int(main(["grand", *arguments, *where, "--device", "cpu"]))


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_bytes())["rows"]
    return rows


def test_settings_that_diverge_are_told_and_the_search_goes_on(
    search: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search("cora", "--trials", "12") == 0
    assert "cross-grand: split 3: the loss is no number" in capsys.readouterr().out
    assert search("--collect") == 0
    rows = rows_of(tmp_path / "search.json")
    assert len(rows) == 24
    failed = [row for row in rows if row["validation_mean"] is None]
    assert failed
    for row in failed:
        assert row["model"] == "cross-grand" and row["settings"]["learning_rate"] == 0.05
        assert row["validation_accuracy"] is None
        assert row["failure"] == "split 3: the loss is no number"
    chosen = read_search(tmp_path / "search.json").choose("cora", "cross-grand")
    assert chosen.trials == 12 and chosen.validation_mean == pytest.approx(0.75)


def test_shares_do_all_of_it_once_and_finished_trials_are_not_repeated(
    search: Main, tmp_path: Path, trained: list[tuple[str, str]]
) -> None:
    for share in ("0/2", "1/2"):
        assert search("cora", "--trials", "5", "--share", share) == 0
    assert len(trained) == 10
    assert search("cora", "--trials", "5") == 0
    assert len(trained) == 10, "other shares' trials are finished too"
    assert search("cora", "--trials", "6", "--seconds", "-1") == 0
    assert len(trained) == 10, "time is up"
    assert search("cora", "--trials", "6") == 0
    assert len(trained) == 12
    search("--collect")
    places = [(row["trial"], row["model"]) for row in rows_of(tmp_path / "search.json")]
    assert places == [(n, model) for n in range(6) for model in ("cross-grand", "grand")]


def test_of_two_lines_of_a_trial_the_finished_one_is_kept(search: Main, tmp_path: Path) -> None:
    place = {"dataset": "cora", "trial": 0, "model": "grand", "settings": {}}
    lines = tmp_path / "lines"
    lines.mkdir()
    for name, accuracies in (("a", None), ("b", [0.5, 0.7]), ("c", [0.1, 0.1])):
        row = place | {"validation_accuracy": accuracies}
        (lines / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    assert search("--collect") == 0
    (row,) = rows_of(tmp_path / "search.json")
    assert row["validation_mean"] == pytest.approx(0.6)


def test_a_broken_line_is_named(
    search: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "cora.jsonl").write_text('{"dataset": "co')
    assert search("--collect") == 2
    assert "cora.jsonl, line 1: is not JSON" in capsys.readouterr().err


def test_a_share_is_counted_from_nought(search: Main, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        search("cora", "--share", "2/2")
    assert stop.value.code == 2
    assert "is no share: give 0/4" in capsys.readouterr().err
