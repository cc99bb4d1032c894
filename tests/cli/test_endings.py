"""How commands end: closed pipes, full disks, little memory, two writers, damaged runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
import torch
from conftest_fixtures import Command

from crossgcn import build_model
from crossgcn.errors import Note
from crossgcn.training.trainer import seeded

QUICK = ("--train", "5", "--epochs", "2", "--workers", "1")
PUBLIC = ("--splits", "public", "--epochs", 2, "--workers", 1)
PROGRAM = (sys.executable, "-m", "crossgcn")
HOLD = """
import sys, time
from pathlib import Path
from crossgcn.data.files import holding
with holding(Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_neither_a_reader_that_leaves_nor_a_warning_of_an_import_stops_the_training(
    graph_file: Path,
) -> None:
    command = [sys.executable, "-W", "error", *PROGRAM[1:], "train", str(graph_file), *QUICK]
    command += ["--num-splits", "2", "--out", "out"]
    with subprocess.Popen(command, stdout=PIPE, stderr=subprocess.STDOUT) as run:
        assert run.stdout is not None
        run.stdout.close()
    assert run.returncode == 0
    assert len(json.loads(Path("out/result.json").read_text())["test_accuracy"]) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_an_answer_that_cannot_be_written_is_told_once() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([*PROGRAM, "data", "list", "--json"], stdout=full, stderr=PIPE)
    assert done.returncode == 1 and done.stderr == b"crossgcn: No space left on device\n"


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of address space")
def test_too_little_memory_is_told() -> None:
    command = f"ulimit -v 1200000; exec {' '.join(PROGRAM)} train citeseer --epochs 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr
    assert done.returncode == 0 or "there is not enough memory" in done.stderr


def test_a_folder_holds_one_training(crossgcn: Command, graph_file: Path) -> None:
    train = ("train", graph_file, *QUICK, "--out", "run", "--num-splits")
    assert crossgcn(*train, 3).returncode == 0
    fewer = crossgcn(*train, 1, "--resume")
    assert fewer.returncode == 2 and "run `split-01` is not among the 1 of this" in fewer.stderr
    assert crossgcn("explain", "run").returncode == 0
    assert crossgcn(*train, 4, "--resume").returncode == 0


def test_the_second_writer_of_a_folder_is_refused(crossgcn: Command, graph_file: Path) -> None:
    command = [sys.executable, "-c", HOLD, "out"]
    with subprocess.Popen(command, stdout=PIPE, text=True) as first:
        assert first.stdout is not None and first.stdout.readline() == "ready\n"
        for more in ((), ("--resume",)):
            done = crossgcn("train", graph_file, *PUBLIC, "--out", "out", *more)
            assert done.returncode == 2
            said = " ".join(done.stderr.split())
            assert "out is being written by another process; wait for it" in said
        first.kill()
    done = crossgcn("train", graph_file, *PUBLIC, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert not [path for path in Path("out").iterdir() if path.name.startswith(".")]


def test_a_damaged_finished_run_is_trained_again(crossgcn: Command, graph_file: Path) -> None:
    first = json.loads(crossgcn("train", graph_file, *PUBLIC, "--out", "out", "--json").stdout)
    folder = Path("out/cross-gcn-2-layer/split-00")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    again = ("train", graph_file, *PUBLIC, "--out", "out", "--resume", "--json")
    with pytest.warns(Note, match=r"split-00/model\.safetensors: .*; the run is trained again"):
        second = json.loads(crossgcn(*again).stdout)
    assert second["test_accuracy"] == first["test_accuracy"]
    assert (folder / "model.safetensors").read_bytes() == weights
    (folder / "config.json").unlink()
    with pytest.warns(Note, match=r"split-00/config\.json"):
        assert crossgcn(*again).returncode == 0
    assert (folder / "config.json").exists()
    result = Path("out/result.json")
    result.write_text(result.read_text().replace('"epochs": 2', '"epochs": 3'))
    done = crossgcn("report", "out")
    assert done.returncode == 2 and "result.json: is not what was written there" in done.stderr


def test_weights_are_drawn_without_the_shared_generator() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        alone = build_model("gin", 6, 2)
    before = torch.random.get_rng_state()
    with seeded(3):
        ours = build_model("gin", 6, 2)
    assert torch.equal(before, torch.random.get_rng_state())
    for weight, wanted in zip(ours.parameters(), alone.parameters(), strict=True):
        assert torch.equal(weight, wanted)
