"""Several processes, started as a user starts them. Each start costs seconds, so they are few."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from subprocess import CompletedProcess, Popen
from typing import Any

import pytest
import torch
from torchrun_commands import RUN, TRAIN, start, wait_until, weights_of

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.training.checkpoints import CHECKPOINT, Checkpoint
from crossgcn.training.launch import Launch, LostProcess, find_launch

Command = Callable[..., CompletedProcess[str]]
EPOCHS, LONGER, TIMEOUT = 40, 100, 300
VARIABLES = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "LOCAL_RANK": "1"}


def test_two_processes_give_what_one_gives_even_if_one_is_killed_and_started_anew(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", EPOCHS, "--json", "--out"]
    two = _start_and_disturb([*arguments, tmp_path / "two"], tmp_path / "two")
    one = crossgcn(*arguments, tmp_path / "one")
    out, err = two.communicate(timeout=TIMEOUT)
    assert two.returncode == 0, err
    assert "crossgcn: " in err
    first, second = (json.loads(text) for text in (one.stdout, out))
    assert second["test_accuracy"] == first["test_accuracy"]
    curves = [_curve(tmp_path / name) for name in ("one", "two")]
    assert len(curves[0]) == EPOCHS
    for ours, theirs in zip(*curves, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    for name, value in weights_of(tmp_path / "one").items():
        torch.testing.assert_close(weights_of(tmp_path / "two")[name], value, rtol=1e-3, atol=1e-4)
    record = json.loads((tmp_path / "two" / RUN / "run.json").read_text())
    assert record["processes"] == 2
    assert not (tmp_path / "two" / RUN / CHECKPOINT).exists()


@pytest.mark.slow
def test_being_killed_changes_no_bit(graph_file: Path, tmp_path: Path) -> None:
    arguments = ["train", graph_file, *TRAIN, "--dropout", "0.5", "--epochs", EPOCHS, "--out"]
    disturbed = _start_and_disturb([*arguments, tmp_path / "disturbed"], tmp_path / "disturbed")
    whole = start([*arguments, tmp_path / "whole"], processes=2)
    for process in (disturbed, whole):
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, err
    for file in ("epochs.csv", "model.safetensors"):
        ours, theirs = (tmp_path / name / RUN / file for name in ("disturbed", "whole"))
        assert ours.read_bytes() == theirs.read_bytes()


def test_the_others_stop_when_one_is_lost_and_any_number_goes_on(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 30 nodes in batches of 29: in the last one, of 1, one of the processes has no node.
    batches = ("--batch-size", 29)
    arguments = ["train", graph_file, *TRAIN, *batches, "--epochs", LONGER, "--json", "--out"]
    point = tmp_path / "lost" / RUN / CHECKPOINT
    _stop_after_epoch(2, crossgcn, [*arguments, tmp_path / "lost"], monkeypatch)
    begun = point.read_bytes()
    two = start([*arguments, tmp_path / "lost", "--resume"], processes=2)
    wait_until(lambda: point.read_bytes() != begun, two)
    os.kill(_workers(two.pid)[1], signal.SIGKILL)
    out, err = two.communicate(timeout=TIMEOUT)
    assert two.returncode == 1
    # It sees the connection break, or torchrun stops it first.
    ours = [line for line in err.splitlines() if line.startswith("crossgcn: ")]
    assert len(ours) == 1 and "--resume" in ours[0], err
    assert not out or "--resume" in json.loads(out)["error"]
    assert "crossgcn/cli" not in err, "a traceback of ours"
    assert [file.name for file in point.parent.iterdir()] == [CHECKPOINT]
    done = crossgcn(*arguments, tmp_path / "lost", "--resume")
    whole = crossgcn(*arguments, tmp_path / "whole")
    assert done.returncode == whole.returncode == 0
    assert not point.exists()
    curves = [_curve(tmp_path / name) for name in ("lost", "whole")]
    assert len(curves[0]) == LONGER
    for ours, theirs in zip(*curves, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.slow
def test_a_training_goes_from_one_process_to_two_and_back(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", EPOCHS, "--json", "--out"]
    point = tmp_path / "moved" / RUN / CHECKPOINT
    _stop_after_epoch(3, crossgcn, [*arguments, tmp_path / "moved"], monkeypatch)
    begun = point.read_bytes()
    two = start([*arguments, tmp_path / "moved", "--resume"], processes=2)
    wait_until(lambda: point.read_bytes() != begun, two)
    two.send_signal(signal.SIGTERM)
    two.communicate(timeout=TIMEOUT)
    assert two.returncode != 0 and point.exists()
    assert crossgcn(*arguments, tmp_path / "moved", "--resume").returncode == 0
    assert crossgcn(*arguments, tmp_path / "whole").returncode == 0
    curves = [_curve(tmp_path / name) for name in ("moved", "whole")]
    for ours, theirs in zip(*curves, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    for name, value in weights_of(tmp_path / "whole").items():
        ours = weights_of(tmp_path / "moved")[name]
        torch.testing.assert_close(ours, value, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_damaged_resume_point_is_told_once(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", EPOCHS, "--out", tmp_path / "run"]
    point = tmp_path / "run" / RUN / CHECKPOINT
    _stop_after_epoch(1, crossgcn, arguments, monkeypatch)
    damaged = bytearray(point.read_bytes())
    damaged[-1] ^= 1
    point.write_bytes(damaged)
    two = start([*arguments, "--resume"], processes=2)
    _, err = two.communicate(timeout=TIMEOUT)
    assert two.returncode != 0
    ours = [line for line in err.splitlines() if line.startswith("crossgcn: ")]
    assert len(ours) == 1 and "is damaged" in ours[0] and "remove it" in ours[0], err
    assert point.read_bytes() == damaged


@pytest.mark.slow
def test_two_processes_that_drop_other_entries_do_as_well_as_one(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--dropout", "0.5", "--repeats", 8]
    arguments += ["--epochs", 15, "--json", "--out"]
    two = start([*arguments, tmp_path / "two"], processes=2)
    one = crossgcn(*arguments, tmp_path / "one")
    out, err = two.communicate(timeout=TIMEOUT)
    assert two.returncode == 0, err
    first, second = (json.loads(text)["test_accuracy"] for text in (one.stdout, out))
    assert len(first) == len(second) == 8
    assert first != second, "both dropped the same"
    noise = (stdev(first) ** 2 / 8 + stdev(second) ** 2 / 8) ** 0.5
    assert abs(mean(first) - mean(second)) < 3 * noise
    assert mean(second) > 0.5, "three classes; by chance it is a third"


def test_full_batches_and_missing_folders_are_refused_in_several_processes(
    crossgcn: Command, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert crossgcn("example", "shop", "--nodes", 300).returncode == 0
    for name, value in (VARIABLES | {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    whole = crossgcn("train", graph_file, "--splits", "public", "--out", tmp_path / "a")
    assert whole.returncode == 2 and "give --batch-size" in whole.stderr
    lost = crossgcn("train", graph_file, "--splits", "public", "--batch-size", 8)
    assert lost.returncode == 2 and "give --out" in lost.stderr
    tables = ("shop/nodes.csv", "shop/edges.csv", "--target", "buys", "--out", tmp_path / "a")
    compared = crossgcn("compare", *tables, "--batch-size", 8)
    assert compared.returncode == 2 and "leave out torchrun" in compared.stderr
    assert not (tmp_path / "a").exists() and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("error", "rank", "local_rank", "said"),
    [
        (BadInput("no such file"), 0, 0, "no such file"),
        (BadInput("no such file"), 1, 1, None),
        (BadInput("no such file"), 2, 0, "process 2 of 4: no such file"),
        (LostProcess("lost"), 3, 1, None),
        (WorkFailed("out of memory"), 3, 1, "process 3 of 4: out of memory"),
    ],
)
def test_one_process_of_each_machine_speaks_for_all(
    error: BadInput | WorkFailed, rank: int, local_rank: int, said: str | None
) -> None:
    from crossgcn.cli.torchrun import message_of

    assert message_of(error, Launch(rank, 4, local_rank)) == said


def test_what_torchrun_says_is_read() -> None:
    given = VARIABLES | {"RANK": "3", "WORLD_SIZE": "4"}
    assert find_launch({}) is None and find_launch({"WORLD_SIZE": "4", "RANK": "0"}) is None
    assert find_launch(given) == Launch(3, 4, 1)
    restarted = {"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "3"}
    assert find_launch(given | restarted) == Launch(3, 4, 1, 1, 2)
    with pytest.raises(BadInput, match="RANK=4, WORLD_SIZE=4"):
        find_launch(given | {"RANK": "4"})


def _start_and_disturb(arguments: list[object], folder: Path) -> Popen[str]:
    """Two processes that may start anew, one of which is killed after the first epoch."""
    options = ("--standalone", "--max-restarts", "3", "--monitor-interval", "0.1")
    process = start(arguments, processes=2, options=options)
    wait_until((folder / RUN / CHECKPOINT).exists, process)
    os.kill(_workers(process.pid)[-1], signal.SIGKILL)
    return process


def _stop_after_epoch(
    number: int, crossgcn: Command, arguments: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Train in this process alone, until the resume point of an epoch is written."""

    save = Checkpoint.save

    def save_and_stop(checkpoint: Checkpoint, epoch: int, *tensors: Any) -> None:
        save(checkpoint, epoch, *tensors)
        if epoch == number:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", save_and_stop)
        assert crossgcn(*arguments, "--workers", 1).returncode == 130


def _curve(folder: Path) -> list[list[float]]:
    lines = (folder / RUN / "epochs.csv").read_text().splitlines()[1:]
    return [[float(value) for value in line.split(",")] for line in lines]


def _workers(agent: int) -> list[int]:
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"crossgcn" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
