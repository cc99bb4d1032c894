"""A sample of what ``make test-faults`` does in full, and the record of the full count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

import pytest
from conftest_fixtures import make_small_graph
from faults_runner import FAULTS, MOUNTED, SPLITS, TRAIN, Harness, can_mount

from crossgcn.data.graph_file import save_graph

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


def test_processes_without_streams_write_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crossgcn", "train", "../small.npz", *TRAIN, *SPLITS]
    save_graph(tmp_path / "small.npz", make_small_graph())
    started = []
    for at, closed in enumerate(("<&- >&-", "2>&-", "<&- >&- 2>&-")):
        (tmp_path / str(at)).mkdir()
        environment = {**os.environ, "CROSSGCN_PLAIN_KERNELS": "1", "PYTHONHASHSEED": str(at)}
        shell = f"exec {' '.join(command)} {closed}"
        place: dict[str, Any] = {"shell": True, "cwd": tmp_path / str(at), "env": environment}
        started.append(subprocess.Popen(shell, stdout=PIPE, stderr=STDOUT, **place))
    for process in started:
        said, _ = process.communicate()
        assert process.returncode == 0 and b"Traceback" not in said, said
    for name in ("model.safetensors", "splits.npz", "graph.npz", "config.json", "preprocess.json"):
        first, *others = (tmp_path / str(at) / "out" / name for at in range(3))
        assert all(other.read_bytes() == first.read_bytes() for other in others), name


def test_what_is_recorded_holds() -> None:
    recorded = json.loads(RECORD.read_text())["faults"]
    assert recorded.keys() == FAULTS.keys()
    for name, about in recorded.items():
        assert about["trials"] >= FAULTS[name].trials, name
        assert about["differences"] == about["left_over"] == 0 and not about["bad"], name
