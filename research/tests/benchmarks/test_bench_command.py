from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from research.benchmarks import __main__ as bench
from research.benchmarks import cpu_step
from research.benchmarks.catalogue import BENCHMARKS
from research.benchmarks.harness import agreement, command
from research.benchmarks.harness.record import Measurement

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def tiny(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Set ``cpu-step`` to a tiny graph and simulate a machine without a GPU."""
    request.getfixturevalue("one_thread")
    small_graph.roles = torch.tensor([[1] * 60 + [2] * 15 + [3] * 15])

    def measure(options: Any) -> Any:
        found = Measurement()
        cpu_step.measure_graph(small_graph, options, found)
        return found

    monkeypatch.setattr(command, "load_measure", lambda name: measure)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("cpu-stop",), ("did you mean 'cpu-step'",)),
        (("gpu-step",), ("gpu-step needs a CUDA GPU", "CUDA build of torch")),
        (("cpu-step", "--rounds", "4"), ("--rounds is 4; give at least 5, or --quick",)),
    ],
)
def test_bad_input_is_exit_code_2(
    arguments: tuple[str, ...], fragments: tuple[str, ...], capsys: Captured, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert bench.main([*arguments, "--out", str(out), "--json"]) == 2
    printed = capsys.readouterr()
    for fragment in fragments:
        assert fragment in printed.err
    assert json.loads(printed.out)["exit_code"] == 2
    assert not out.exists()


@pytest.mark.usefixtures("tiny")
def test_a_quick_run_writes_a_record_that_says_so(capsys: Captured, tmp_path: Path) -> None:
    arguments = ["cpu-step", "--quick", "--rounds", "2", "--out", str(tmp_path / "out"), "--json"]
    assert bench.main(arguments) == 0
    (record,) = json.loads(capsys.readouterr().out)["benchmarks"]
    assert json.loads((tmp_path / "out" / "cpu-step.json").read_text()) == record
    assert record["quick"] is True and record["rounds"] == 2
    assert {result["what"] for result in record["results"]} == {
        *("PyG GCN", "tuned PyG GCN", "compiled PyG GCN", "sparse GCN"),
        *("naive Cross-GCN", "over our GCN"),
    }
    assert all(len(timing["seconds"]) == 2 for timing in record["timings"])
    assert all(check["error"] <= check["tolerance"] for check in record["checks"])
    assert record["hardware"]["cores"] >= 1 and "torch" in record["environment"]["versions"]


@pytest.mark.usefixtures("tiny")
def test_a_quick_run_never_replaces_a_full_record(tmp_path: Path) -> None:
    path = tmp_path / "cpu-step.json"
    path.write_text('{"quick": false}')
    assert bench.main(["cpu-step", "--quick", "--rounds", "1", "--out", str(tmp_path)]) == 2
    assert path.read_text() == '{"quick": false}'


@pytest.mark.usefixtures("tiny")
def test_without_names_what_cannot_run_here_is_skipped_with_the_reason(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = {name: BENCHMARKS[name] for name in ("cpu-step", "gpu-step")}
    monkeypatch.setattr(bench, "BENCHMARKS", wanted)
    assert bench.main(["--quick", "--rounds", "1", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "skipped: gpu-step needs a CUDA GPU" in printed
    assert "PyG GCN" in printed


@pytest.mark.usefixtures("tiny")
def test_sides_that_disagree_fail_the_command(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(agreement.SAME_LOSSES, "fp32", 0.0)
    assert bench.main(["cpu-step", "--quick", "--out", str(tmp_path / "out")]) == 1
    assert "their times cannot be compared" in capsys.readouterr().err


def test_a_script_runs_by_itself() -> None:
    script = [sys.executable, "-m", "research.benchmarks.cpu_step", "--rounds", "2"]
    done = subprocess.run(script, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 2
    assert "cpu_step: --rounds is 2" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_streams_and_exit_code_reach_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crossgcn", "bench", "gpu-step", "--json", "--out", "records"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "gpu-step needs a CUDA GPU" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2
    assert not (tmp_path / "records").exists()


@pytest.mark.usefixtures("one_thread")
def test_other_work_is_measured_and_ended(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command))
        return started[-1]

    monkeypatch.setattr(cpu_step, "Popen", start)
    small_graph.roles = torch.tensor([[1] * 60 + [2] * 15 + [3] * 15])
    found = Measurement()
    cpu_step.measure_shared(small_graph, command.Options(quick=True, rounds=1), found)
    (result,), (note,) = found.results, found.notes
    assert result.what == cpu_step.SHARED and result.value > 0
    assert "beside a process that copies memory" in note and "times as long as alone" in note
    assert {timing.side for timing in found.timings} == {"ours, 1 thread", "PyG GCN, 1 thread"}
    assert [process.poll() for process in started] == [-signal.SIGKILL]
