"""A sample of what ``make test-faults`` does in full, and the record of the full count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from conftest_fixtures import make_small_graph
from faults_runner import FAULTS, MOUNTED, SPLITS, TRAIN, Harness, can_mount
from forked_commands import read_said, start, wait

from crossgcn.data.graph_file import save_graph
from crossgcn.kernels import ops

RECORD = Path(__file__).parents[2] / "results" / "faults.json"
COMMANDS = ("train", "resume", "predict", "data import")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSGCN_PLAIN_KERNELS", "1")
        yield Harness(tmp_path_factory.mktemp("faults"), COMMANDS)


@pytest.mark.parametrize("fault", FAULTS)
def test_disturbed_commands_lose_and_change_nothing(harness: Harness, fault: str) -> None:
    if fault in MOUNTED and not can_mount():
        pytest.skip("file systems cannot be mounted here")
    for number in range(1000, 1004 if fault == "kill" else 1002):
        found = harness.try_once(fault, number)
        assert not found["bad"], found


def without(streams: Sequence[int]) -> None:
    """Close streams of this process, and let it use plain kernels."""
    ops._compiled.cache_clear()
    os.environ[ops.PLAIN] = "1"
    for stream in streams:
        os.close(stream)
        setattr(sys, ("stdin", "stdout", "stderr")[stream], None)  # as Python starts without it


def test_processes_without_streams_write_the_same_bytes(tmp_path: Path) -> None:
    """One of them starts anew, with other hashes of strings."""
    train = ("train", "../small.npz", *TRAIN, *SPLITS)
    save_graph(tmp_path / "small.npz", make_small_graph())
    folders = [tmp_path / name for name in "012"]
    for folder in folders:
        folder.mkdir()
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    fresh = subprocess.Popen(
        " ".join(["exec", sys.executable, "-m", "crossgcn", *train, "<&- >&- 2>&-"]),
        shell=True,
        cwd=folders[0],
        env={**os.environ, ops.PLAIN: "1", "PYTHONHASHSEED": seed},
    )
    for folder, streams in zip(folders[1:], ((0, 1), (2,)), strict=True):
        code = wait(start(train, folder, partial(without, streams)))
        said = read_said()
        assert code == 0 and "Traceback" not in said, said
    assert fresh.wait() == 0
    for name in ("model.safetensors", "splits.npz", "graph.npz", "config.json", "preprocess.json"):
        first, *others = (tmp_path / str(at) / "out" / name for at in range(3))
        assert all(other.read_bytes() == first.read_bytes() for other in others), name


def test_what_is_recorded_holds() -> None:
    recorded = json.loads(RECORD.read_text())["faults"]
    assert recorded.keys() == FAULTS.keys()
    for name, about in recorded.items():
        assert about["trials"] >= FAULTS[name].trials, name
        assert about["differences"] == about["left_over"] == 0 and not about["bad"], name
