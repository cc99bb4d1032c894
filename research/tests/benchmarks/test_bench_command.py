from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from benchmark_scripts import HARNESS, one_thread  # noqa: F401
from torch_geometric.data import Data

from crossgcn.cli.bench import BENCHMARKS

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tiny(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """``cpu-step`` on a graph that takes no time, and a machine without a GPU."""
    request.getfixturevalue("one_thread")
    from research.benchmarks import cpu_step
    from research.benchmarks.harness.record import Measurement

    small_graph.roles = torch.tensor([[1] * 60 + [2] * 15 + [3] * 15])

    def measure(options: Any) -> Any:
        found = Measurement()
        cpu_step.measure_graph(small_graph, options, found)
        return found

    monkeypatch.setattr(HARNESS, "load_measure", lambda name: measure)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_help_lists_every_benchmark_and_imports_nothing_heavy() -> None:
    script = """
import sys
from crossgcn.cli import main
sys.argv = ["crossgcn", "bench", "--help"]
assert main() == 0
sys.exit(1 if {"torch", "numpy", "scipy", "matplotlib"} & sys.modules.keys() else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in BENCHMARKS:
        assert f"{name}:" in done.stdout


def test_an_unknown_name_is_bad_input_with_the_nearest(crossgcn: Command) -> None:
    done = crossgcn("bench", "cpu-stop")
    assert done.returncode == 2
    assert "did you mean 'cpu-step'" in done.stderr


@pytest.mark.usefixtures("tiny")
def test_without_a_gpu_its_benchmarks_say_what_is_needed(crossgcn: Command) -> None:
    done = crossgcn("bench", "gpu-step")
    assert done.returncode == 2
    assert "gpu-step needs a CUDA GPU" in done.stderr
    assert "CUDA build of torch" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("tiny")
def test_too_few_rounds_are_refused_unless_it_is_a_look(crossgcn: Command) -> None:
    done = crossgcn("bench", "cpu-step", "--rounds", 4)
    assert done.returncode == 2
    assert "--rounds is 4; give at least 5, or --quick" in done.stderr


@pytest.mark.usefixtures("tiny")
def test_a_quick_look_writes_a_record_that_says_so(crossgcn: Command, tmp_path: Path) -> None:
    done = crossgcn("bench", "cpu-step", "--quick", "--rounds", 2, "--out", "looks", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["benchmarks"]
    assert json.loads((tmp_path / "looks" / "cpu-step.json").read_text()) == record
    assert record["quick"] is True and record["rounds"] == 2
    assert {result["what"] for result in record["results"]} == {
        *("PyG GCN", "tuned PyG GCN", "naive Cross-GCN", "over our GCN")
    }
    assert all(len(timing["seconds"]) == 2 for timing in record["timings"])
    assert all(check["error"] <= check["tolerance"] for check in record["checks"])
    assert record["hardware"]["cores"] >= 1 and "torch" in record["environment"]["versions"]


@pytest.mark.usefixtures("tiny")
def test_a_look_never_replaces_a_full_record(crossgcn: Command, tmp_path: Path) -> None:
    path = tmp_path / "kept" / "cpu-step.json"
    path.parent.mkdir()
    path.write_text('{"quick": false}')
    done = crossgcn("bench", "cpu-step", "--quick", "--rounds", 1, "--out", "kept")
    assert done.returncode == 2
    assert path.read_text() == '{"quick": false}'


@pytest.mark.usefixtures("tiny")
def test_without_names_what_cannot_run_here_is_skipped_aloud(
    crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {name: BENCHMARKS[name] for name in ("cpu-step", "gpu-step")}
    monkeypatch.setattr("crossgcn.cli.bench.BENCHMARKS", wanted)
    done = crossgcn("bench", "--quick", "--rounds", 1)
    assert done.returncode == 0, done.stderr
    assert "skipped: gpu-step needs a CUDA GPU" in done.stdout
    assert "PyG GCN" in done.stdout


@pytest.mark.usefixtures("tiny")
def test_sides_that_disagree_fail_the_command(
    crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from research.benchmarks.harness import agreement

    monkeypatch.setitem(agreement.SAME_LOSSES, "fp32", 0.0)
    done = crossgcn("bench", "cpu-step", "--quick")
    assert done.returncode == 1
    assert "their times cannot be compared" in done.stderr


def test_a_script_runs_by_itself() -> None:
    script = Path(HARNESS.FOLDER) / "cpu_step.py"
    command = [sys.executable, str(script), "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cpu_step: --rounds is 2" in done.stderr
