"""How commands end: closed pipes, full disks, warnings as errors, little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, CompletedProcess

import pytest
import torch

from crossgcn import CrossGCNClassifier, build_model
from crossgcn.training.trainer import seeded

Command = Callable[..., CompletedProcess[str]]
QUICK = ("--train", "5", "--epochs", "2", "--workers", "1")
PROGRAM = (sys.executable, "-m", "crossgcn")


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_reader_that_leaves_does_not_stop_the_training(graph_file: Path) -> None:
    command = [*PROGRAM, "train", str(graph_file), *QUICK, "--num-splits", "2", "--out", "out"]
    with subprocess.Popen([*command, "--verbose"], stdout=PIPE, stderr=subprocess.STDOUT) as run:
        assert run.stdout is not None
        run.stdout.close()
    assert run.returncode == 0
    assert len(json.loads(Path("out/result.json").read_text())["test_accuracy"]) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_an_answer_that_cannot_be_written_is_told(graph_file: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([*PROGRAM, "data", "list", "--json"], stdout=full, stderr=PIPE)
    assert done.returncode == 1 and done.stderr == b"crossgcn: No space left on device\n"


def test_warnings_as_errors_are_for_ones_own_code(graph_file: Path) -> None:
    command = [sys.executable, "-W", "error", *PROGRAM[1:], "train", str(graph_file), *QUICK]
    done = subprocess.run([*command, "--out", "out"], capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of address space")
def test_too_little_memory_is_told(graph_file: Path) -> None:
    command = f"ulimit -v 1200000; exec {' '.join(PROGRAM)} train {graph_file} --train 5 --epochs 2"
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


def test_predictions_do_not_replace_the_run_or_its_tables(crossgcn: Command) -> None:
    rows = "".join(f"{n},{n % 7},{'ab'[n % 7 > 3]}\n" for n in range(90))
    Path("nodes.csv").write_text(f"id,size,kind\n{rows}")
    train = ("train", "nodes.csv", "--target", "kind", "--num-splits", 1, "--epochs", 2)
    assert crossgcn(*train, "--bags", 1, "--out", "run").returncode == 0
    for out in ("nodes.csv", "run/model.safetensors"):
        before = Path(out).read_bytes()
        done = crossgcn("predict", "run", "--out", out)
        assert done.returncode == 2 and "give another name" in done.stderr
        assert Path(out).read_bytes() == before


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


def test_fits_in_two_threads_are_those_of_one() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 5, generator=generator).numpy()
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    edges = torch.randint(60, (2, 150), generator=generator).numpy()

    def fit(seed: int) -> object:
        model = CrossGCNClassifier(epochs=30, random_state=seed)
        return model.fit(x, y, edge_index=edges).predict_proba(x).tolist()

    wanted = [fit(seed) for seed in (0, 1, 0, 1)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fit, (0, 1, 0, 1))) == wanted
