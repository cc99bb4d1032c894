from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from research.benchmarks.harness.rounds import Pace, Side, Timing, interleave, quartiles, ratio_of
from research.benchmarks.harness.scaling import added, multiplied


class FakeMachine:
    """A clock that advances only with work and slows down from round to round."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slowness = 1.0
        self.log: list[str] = []

    def work(self, name: str, seconds: float) -> Callable[[], None]:
        def step() -> None:
            self.log.append(name)
            self.now += self.slowness * seconds

        return step

    def pace(self, rounds: int, batch_seconds: float = 1.0, slower: float = 1.0) -> Pace:
        def next_round(done: int) -> None:
            self.log.append(f"round {done}")
            self.slowness *= slower

        return Pace(rounds, batch_seconds, clock=lambda: self.now, on_round=next_round)


def test_every_round_times_every_side_and_starts_with_another() -> None:
    machine = FakeMachine()
    sides = [Side(name, machine.work(name, 1.0), steps=1) for name in "abc"]
    interleave("case", sides, machine.pace(3))
    assert "".join(part[-1] for part in machine.log) == "abc1bca2cab3"


def test_a_fast_side_is_repeated_until_it_fills_the_batch() -> None:
    machine = FakeMachine()
    sides = [Side("slow", machine.work("slow", 4.0)), Side("fast", machine.work("fast", 0.25))]
    timings = interleave("case", sides, machine.pace(5))
    assert (timings["slow"].steps, timings["fast"].steps) == (1, 4)
    assert timings["slow"].seconds == (4.0,) * 5
    assert timings["fast"].seconds == (0.25,) * 5


def test_a_machine_that_slows_down_changes_no_ratio() -> None:
    machine = FakeMachine()
    sides = [Side("peer", machine.work("peer", 6.0)), Side("ours", machine.work("ours", 2.0))]
    timings = interleave("case", sides, machine.pace(5, slower=1.5))
    assert timings["ours"].seconds[-1] == pytest.approx(2.0 * 1.5**4)
    result = ratio_of(timings, "peer", "ours")
    assert (result.value, result.low, result.high) == pytest.approx((3.0, 3.0, 3.0))
    assert (result.case, result.what) == ("case", "peer")


def test_one_slow_round_moves_a_quartile_and_not_the_median() -> None:
    timings = {
        "peer": Timing("case", "peer", (4.0, 4.0, 40.0, 4.0, 8.0), 1),
        "ours": Timing("case", "ours", (1.0,) * 5, 1),
    }
    result = ratio_of(timings, "peer", "ours")
    assert (result.value, result.low, result.high) == (4.0, 4.0, 8.0)
    assert quartiles([2.0]) == (2.0, 2.0)


def test_the_device_is_waited_for_before_and_after_a_batch() -> None:
    log: list[str] = []
    pace = Pace(1, 1.0, wait=lambda: log.append("wait"))
    interleave("case", [Side("side", lambda: log.append("step"), steps=2)], pace)
    assert log == ["wait", "step", "step", "wait"]


def test_each_side_has_its_threads_and_the_session_keeps_its_own() -> None:
    before, seen = torch.get_num_threads(), []
    sides = [
        Side(f"{count}", lambda: seen.append(torch.get_num_threads()), count, steps=1)
        for count in (1, 2)
    ]
    interleave("case", sides, Pace(1, 1.0))
    assert seen == [1, 2]
    assert torch.get_num_threads() == before


def test_epochs_are_multiplied_and_sizes_added_round_by_round() -> None:
    one = Timing("case", "E 16", (1.0, 2.0), 3)
    two = Timing("case", "E 32", (10.0, 20.0), 3)
    whole = added("all", "peer", [multiplied(one, 100), multiplied(two, 100)])
    assert whole.seconds == (1100.0, 2200.0)
