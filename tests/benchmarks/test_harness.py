from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.harness import (
    Check,
    Measurement,
    Options,
    Pace,
    Result,
    Side,
    Timing,
    interleave,
    ratio_of,
)
from benchmarks.pages import render
from crossgcn import WorkFailed


class FakeMachine:
    """A clock that advances only with work and slows down from round to round."""

    def __init__(self, slower: float = 1.0) -> None:
        self.now, self.slower = 0.0, slower
        self.log: list[str] = []

    def work(self, name: str, seconds: float) -> Callable[[], None]:
        def step() -> None:
            self.log.append(name)
            self.now += seconds * self.slower ** len(self.log)

        return step

    def pace(self, rounds: int) -> Pace:
        return Pace(rounds, 1.0, clock=lambda: self.now)


def test_every_round_times_every_side_and_starts_with_another() -> None:
    machine = FakeMachine()
    sides = [Side(name, machine.work(name, 1.0), steps=1) for name in "abc"]
    interleave("case", sides, machine.pace(3))
    assert "".join(machine.log) == "abcbcacab"


def test_a_fast_side_is_repeated_until_it_fills_the_batch() -> None:
    machine = FakeMachine()
    sides = [Side("slow", machine.work("slow", 4.0)), Side("fast", machine.work("fast", 0.25))]
    timings = interleave("case", sides, machine.pace(5))
    assert (timings["slow"].steps, timings["fast"].steps) == (1, 4)
    assert timings["fast"].seconds == (0.25,) * 5


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    timings = {
        "peer": Timing("case", "peer", (4.0, 8.0, 40.0, 4.0, 16.0), 1),
        "ours": Timing("case", "ours", (1.0, 2.0, 1.0, 1.0, 2.0), 1),
    }
    assert ratio_of(timings, "peer", "ours") == Result("case", "peer", 4.0, "×", 4.0, 8.0)


def test_sides_that_differ_are_not_compared() -> None:
    for error in (2e-3, float("nan")):
        with pytest.raises(WorkFailed, match=r"cora: scores differ .* cannot be compared"):
            Check("cora", "scores", error, 1e-3).require()


def test_the_command_writes_a_record_and_names_what_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [Result("cora", "PyG GCN", 59.0), Result("citeseer", "PyG GCN", 250.0)]
    monkeypatch.setattr(command, "measure_of", lambda name: lambda options: Measurement(results))
    assert command.main(["cpu-step", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| cora | PyG GCN | **59.0×, not ≥ 60** |" in printed
    assert "| citeseer | PyG GCN | 250× (≥ 200) |" in printed
    record = json.loads((tmp_path / "cpu-step.json").read_bytes())
    assert record["hardware"]["cores"] and record["environment"]["versions"]["torch"]
    assert command.main(["cpu-step", "--quick", "--out", str(tmp_path)]) == 2
    assert "must not replace" in capsys.readouterr().err


def test_a_wrong_name_and_too_few_rounds_are_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["cpu-stepp"]) == 2
    assert "none of the benchmarks cpu-step" in capsys.readouterr().err
    assert command.main(["cpu-step", "--rounds", "2"]) == 2
    assert "at least 5" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu-step", "hops", "own-tables", "engines"])
def test_every_benchmark_of_a_cpu_runs(name: str) -> None:
    measured = command.measure_of(name)(Options(quick=True, rounds=1))
    assert measured.results and not any(np.isnan(result.value) for result in measured.results)


def test_the_pages_are_those_of_the_records() -> None:
    for path, text in render():
        assert path.read_text() == text, f"{path.name}: run python -m benchmarks.pages"
