from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput, Note, WorkFailed
from crossgcn.training import pool
from crossgcn.training import trainer as trainer_module
from crossgcn.training.config import RunConfig
from crossgcn.training.pool import train_all, train_each
from crossgcn.training.trainer import Record, Run, Trainer

MODEL = "model.safetensors"


def trainer_of(data: Data, **options: Any) -> Trainer:
    splits = make_splits(data, "random", num_splits=3, train=5)
    return Trainer(data, splits, **{"save_models": True, **options})


def runs_in(folder: Path | None, **settings: Any) -> list[Run]:
    tiny = {"dataset": "small", "epochs": 6, "hidden_channels": 4}
    config = RunConfig.create(**{**tiny, **settings})
    return [
        Run(config, split, folder=folder / f"split-{split}" if folder else None)
        for split in range(3)
    ]


def without_clock(records: list[Record]) -> list[Record]:
    return [{key: value for key, value in r.items() if key != "seconds"} for r in records]


def weights_in(folder: Path) -> list[bytes]:
    return [(folder / f"split-{split}" / MODEL).read_bytes() for split in range(3)]


def written_at(folder: Path) -> list[int]:
    return [(folder / f"split-{split}" / "run.json").stat().st_mtime_ns for split in range(3)]


def test_processes_started_in_the_middle_give_the_same_bits_and_tell_of_divergence(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def after_a_while(seconds: float, done: int, left: int) -> bool:
        asked.append((done, left))
        return len(asked) > 3  # in the first run

    monkeypatch.setattr(pool, "is_worth_sharing", after_a_while)
    epochs: list[int] = []
    trainer = trainer_of(small_graph)
    alone = train_all(trainer, runs_in(tmp_path / "1"))
    diverging = runs_in(tmp_path / "wild", learning_rate=1e30, epochs=1000)[0]
    runs = [*runs_in(tmp_path / "2"), diverging]
    results = dict(train_each(trainer, runs, workers=2, on_epochs=epochs.append))
    failed = results.pop(3)
    shared = [record for _, record in sorted(results.items()) if isinstance(record, dict)]
    assert without_clock(shared) == without_clock(alone)
    assert weights_in(tmp_path / "1") == weights_in(tmp_path / "2")
    assert isinstance(failed, WorkFailed)
    assert "split 0" in str(failed) and "diverged" in str(failed)
    assert 3 * 6 < sum(epochs) < 1000 and asked[:3] == [(0, 1017), (1, 1016), (2, 1015)]
    for split in range(3):
        file = f"split-{split}/epochs.csv"
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes()


@pytest.mark.parametrize(
    ("seconds", "done", "left", "worth"),
    [(0.0, 0, 900, False), (0.1, 1, 900, False), (0.3, 3, 900, True), (0.3, 300, 900, False)],
)
def test_other_processes_are_worth_their_start_for_seconds_of_work(
    seconds: float, done: int, left: int, worth: bool
) -> None:
    assert pool.is_worth_sharing(seconds, done, left) == worth


def test_a_seed_gives_the_same_bits_again_and_another_seed_others(
    small_graph: Data, tmp_path: Path
) -> None:
    trainer = trainer_of(small_graph)
    first = train_all(trainer, runs_in(tmp_path / "1"))
    torch.rand(7)
    assert without_clock(train_all(trainer, runs_in(tmp_path / "2"))) == without_clock(first)
    train_all(trainer, runs_in(tmp_path / "3", seed=1))
    assert weights_in(tmp_path / "1") == weights_in(tmp_path / "2")
    assert len({*weights_in(tmp_path / "1"), *weights_in(tmp_path / "3")}) == 6


def test_runs_leave_the_callers_randomness_and_threads_alone(small_graph: Data) -> None:
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    train_all(trainer_of(small_graph, threads=threads + 1), runs_in(None))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_only_what_is_missing_or_damaged_is_done_again(small_graph: Data, tmp_path: Path) -> None:
    trainer, runs = trainer_of(small_graph), runs_in(tmp_path)
    before, weights = train_all(trainer, runs), weights_in(tmp_path)
    times = written_at(tmp_path)
    shutil.rmtree(tmp_path / "split-0")
    record = tmp_path / "split-1" / "run.json"
    record.write_bytes(record.read_bytes()[:-40])
    epochs: list[int] = []
    with pytest.warns(Note, match=r"split-1/run\.json: .* the run is trained again"):
        after = train_all(trainer, runs, on_epochs=epochs.append)
    assert without_clock(after) == without_clock(before)
    assert after[2] == json.loads(json.dumps(before[2]))
    assert [new == old for new, old in zip(written_at(tmp_path), times, strict=True)] == [
        False,
        False,
        True,
    ]
    assert weights_in(tmp_path) == weights
    assert sum(epochs) == 3 * 6


def test_a_finished_run_is_never_replaced_by_one_of_other_settings(
    small_graph: Data, tmp_path: Path
) -> None:
    trainer = trainer_of(small_graph)
    train_all(trainer, runs_in(tmp_path))
    times = written_at(tmp_path)
    with pytest.raises(BadInput, match=r"finished run with another dropout .*not 0\.4.*--out"):
        train_all(trainer, runs_in(tmp_path, dropout=0.4))
    assert written_at(tmp_path) == times


def test_weights_that_were_not_kept_before_are_made_when_wanted(
    small_graph: Data, tmp_path: Path
) -> None:
    first = train_all(trainer_of(small_graph, save_models=False), runs_in(tmp_path))
    assert not list(tmp_path.rglob(MODEL))
    again = train_all(trainer_of(small_graph), runs_in(tmp_path))
    assert without_clock(again) == without_clock(first)
    assert len(weights_in(tmp_path)) == 3


def test_a_record_never_stands_beside_the_weights_of_another_run(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_module, "write_record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_all(trainer_of(small_graph), runs_in(tmp_path, epochs=7))
    assert list(tmp_path.rglob(MODEL))
    monkeypatch.undo()
    train_all(trainer_of(small_graph, save_models=False), runs_in(tmp_path, epochs=8))
    assert not list(tmp_path.rglob(MODEL))


def test_divergence_is_told_as_such(small_graph: Data, tmp_path: Path) -> None:
    small_graph.x = small_graph.x.to_dense() * 1e25
    trainer = trainer_of(small_graph, save_models=False)
    with pytest.raises(WorkFailed, match=r"cross-gcn-release \(2-layer\), split \d: .*diverged"):
        train_all(trainer, runs_in(tmp_path, model="cross-gcn-release"))


class DyingTrainer(Trainer):
    """Its second run takes its process with it, as the kernel does for want of memory."""

    def train(
        self, run: Run, on_epochs: Callable[[int], None] | None = None
    ) -> Record | WorkFailed:
        if run.split == 1 and multiprocessing.parent_process() is not None:
            os._exit(9)
        return super().train(run, on_epochs)


def test_the_death_of_a_worker_is_told_and_loses_no_finished_run(
    small_graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "is_worth_sharing", lambda *work: True)
    splits = make_splits(small_graph, "random", num_splits=3, train=5)
    train_all(trainer_of(small_graph), runs_in(tmp_path)[:1])
    times = (tmp_path / "split-0" / "run.json").stat().st_mtime_ns
    dying = DyingTrainer(small_graph, splits, save_models=True)
    with pytest.raises(WorkFailed, match=r"a worker process died.*--workers.*--resume"):
        train_all(dying, runs_in(tmp_path), workers=2)
    assert (tmp_path / "split-0" / "run.json").stat().st_mtime_ns == times
    assert len(train_all(trainer_of(small_graph), runs_in(tmp_path))) == 3
