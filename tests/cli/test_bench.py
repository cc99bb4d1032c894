from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import crossgcn as package

Command = Callable[..., CompletedProcess[str]]
CHECKOUT = Path(__file__).parents[2]


def test_help_lists_the_benchmarks_of_the_checkout(crossgcn: Command) -> None:
    text = crossgcn("bench", "--help").stdout
    for name in ("cpu-step", "gpu-step", "own-tables"):
        assert f"{name}:" in text


def test_an_unknown_name_is_refused_with_the_nearest(crossgcn: Command) -> None:
    done = crossgcn("bench", "cpu-stop")
    assert done.returncode == 2
    assert "did you mean 'cpu-step'" in done.stderr


def test_the_checkout_runs_it_in_a_process_of_its_own(
    crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], Path]] = []

    def run(command: list[str], *, cwd: Path, env: dict[str, str]) -> CompletedProcess[str]:
        started.append((command, cwd))
        assert env["PYTHONPATH"].startswith(str(CHECKOUT / "src"))
        return CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    before = list(sys.path)
    done = crossgcn("bench", "cpu-step", "--quick", "--json", "--out", "records")
    assert (done.returncode, done.stdout) == (1, "")
    assert sys.path == before and "harness" not in sys.modules
    ((command, folder),) = started
    assert command[:4] == [sys.executable, "-m", "research.benchmarks", "cpu-step"]
    assert command[command.index("--out") + 1] == str(tmp_path / "records")
    assert {"--quick", "--json"} < set(command) and folder == CHECKOUT


def test_a_wheel_has_no_benchmarks_and_says_where_they_are(
    crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "__file__", str(tmp_path / "lib" / "crossgcn" / "__init__.py"))
    done = crossgcn("bench", "cpu-step")
    assert done.returncode == 2
    assert "clone the repository" in done.stderr
