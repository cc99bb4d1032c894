"""Several processes, started as a user starts them. Each start costs seconds, so they are few."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torchrun_commands import RUN, TRAIN, start, wait_until, weights_of

from crossgcn.errors import BadInput, WorkFailed
from crossgcn.training.launch import Launch, LostProcess, find_launch
from crossgcn.training.resume_point import RESUME_POINT

Command = Callable[..., CompletedProcess[str]]
VARIABLES = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "LOCAL_RANK": "1"}


def test_two_processes_give_what_one_gives(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", 12, "--json", "--out"]
    process = start([*arguments, tmp_path / "two"], processes=2)
    one = crossgcn(*arguments, tmp_path / "one")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    first, second = json.loads(one.stdout), json.loads(out)
    assert second["test_accuracy"] == first["test_accuracy"]
    curves = [(tmp_path / name / RUN / "epochs.csv").read_text() for name in ("one", "two")]
    for ours, theirs in zip(*(curve.splitlines()[1:] for curve in curves), strict=True):
        assert [float(value) for value in ours.split(",")] == pytest.approx(
            [float(value) for value in theirs.split(",")], rel=1e-4
        )
    for name, value in weights_of(tmp_path / "one").items():
        torch.testing.assert_close(weights_of(tmp_path / "two")[name], value, rtol=1e-3, atol=1e-4)
    record = json.loads((tmp_path / "two" / RUN / "run.json").read_text())
    assert record["processes"] == 2
    assert not (tmp_path / "two" / RUN / RESUME_POINT).exists()


def test_a_killed_process_is_started_anew_and_nothing_is_lost(
    graph_file: Path, tmp_path: Path
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", 40, "--json", "--out"]
    disturbed = start(
        [*arguments, tmp_path / "disturbed"],
        processes=2,
        options=("--standalone", "--max-restarts", "3"),
    )
    wait_until((tmp_path / "disturbed" / RUN / RESUME_POINT).exists, disturbed)
    os.kill(_workers(disturbed.pid)[-1], signal.SIGKILL)
    whole = start([*arguments, tmp_path / "whole"], processes=2)
    out, err = disturbed.communicate(timeout=120)
    assert disturbed.returncode == 0, err
    assert "crossgcn: " in err
    undisturbed, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err
    assert json.loads(out)["test_accuracy"] == json.loads(undisturbed)["test_accuracy"]
    for file in ("epochs.csv", "model.safetensors"):
        ours, theirs = (tmp_path / name / RUN / file for name in ("disturbed", "whole"))
        assert ours.read_bytes() == theirs.read_bytes()


def test_the_others_stop_when_one_is_lost_and_any_number_goes_on(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    arguments = ["train", graph_file, *TRAIN, "--epochs", 40, "--json", "--out"]
    # 30 nodes in batches of 7: in the last one, of 2, half of the processes have no node.
    four = start([*arguments, tmp_path / "four"], processes=4)
    point = tmp_path / "four" / RUN / RESUME_POINT
    wait_until(point.exists, four)
    os.kill(_workers(four.pid)[2], signal.SIGKILL)
    out, err = four.communicate(timeout=120)
    assert four.returncode == 1
    # It sees the connection break, or torchrun stops it first.
    ours = [line for line in err.splitlines() if line.startswith("crossgcn: ")]
    assert len(ours) == 1 and "--resume" in ours[0], err
    assert not out or "--resume" in json.loads(out)["error"]
    assert "crossgcn/cli" not in err, "a traceback of ours"
    assert [file.name for file in point.parent.iterdir()] == [RESUME_POINT]
    done = crossgcn(*arguments, tmp_path / "four", "--resume")
    whole = crossgcn(*arguments, tmp_path / "whole")
    assert done.returncode == whole.returncode == 0
    assert not point.exists()
    first, second = (
        json.loads((tmp_path / name / RUN / "run.json").read_text()) for name in ("four", "whole")
    )
    assert first["validation_accuracy"] == pytest.approx(second["validation_accuracy"], abs=0.04)
    losses = [
        float((tmp_path / name / RUN / "epochs.csv").read_text().splitlines()[-1].split(",")[1])
        for name in ("four", "whole")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


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
    other = crossgcn("reproduce", "--quick")
    assert other.returncode == 2 and "leave out torchrun" in other.stderr
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


def _workers(agent: int) -> list[int]:
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"crossgcn" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
